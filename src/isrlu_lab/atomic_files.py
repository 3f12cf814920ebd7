"""Files that are whole or absent."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from isrlu_lab.errors import UserError


@contextmanager
def replacing(path: Path, *, shared: bool = False) -> Iterator[BinaryIO]:
    """A file beside `path` to write to, renamed to it at the end: a kill leaves the old one or the new.

    shared: other processes may write the same file at the same time, each beside it under a name of its own.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part" if shared else f"{path.name}.part")
    try:
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def try_to_write(path: Path, option: str) -> None:
    """Fail now, in one line that names the command's option, not after hours of work; "-" is standard output."""
    if str(path) == "-":
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        beside = path.with_name(f"{path.name}.part")
        beside.touch()
        beside.unlink(missing_ok=True)  # under torchrun the others try, too
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}: give another place with {option}") from None
