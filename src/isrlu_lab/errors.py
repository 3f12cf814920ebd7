"""Errors that the command line shows to its user as one line."""

import sys


class UserError(Exception):
    """A mistake or a missing thing that the user can fix. `str()` of it is one line, shown without a traceback."""


def print_error(message: str) -> int:
    """Print the line to standard error. Returns 2, the exit code of a user's mistake."""
    print(f"isrlu: {message}", file=sys.stderr)
    return 2
