"""The one exception that the command line turns into a line for a person."""


class UserError(Exception):
    """A mistake or a lack that the user can mend: `str()` of it is one clear line, shown without a traceback."""
