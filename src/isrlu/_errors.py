"""What the command line turns into a line for a person."""


class UserError(Exception):
    """A mistake or a lack that the user can mend: `str()` of it is one clear line, shown without a traceback."""


def lacking(error: ModuleNotFoundError) -> str | None:
    """What is to be installed, in one line; None where a module of this package is missing, which is a bug.

    >>> lacking(ModuleNotFoundError("No module named 'torch'", name="torch"))
    "the package torch is not installed: pip install 'isrlu[paper]'"
    """
    package = (error.name or "isrlu").partition(".")[0]
    if package == "isrlu":
        return None
    plain = str(error).startswith("No module named")
    return f"the package {package} is not installed: pip install 'isrlu[paper]'" if plain else str(error)
