"""Errors that the command line shows as one line."""

import sys


class UserError(Exception):
    """An error that the user can fix. Its message is one line and is shown without a traceback."""


def print_error(message: str) -> int:
    """Print the message to standard error. Returns 2, the exit code for user errors."""
    print(f"isrlu: {message}", file=sys.stderr)
    return 2
