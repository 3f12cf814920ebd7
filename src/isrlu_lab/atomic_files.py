"""Write files as a whole: a reader sees the old file or the new one."""

import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from isrlu_lab.errors import UserError


@contextmanager
def replacing(path: Path, *, shared: bool = False) -> Iterator[BinaryIO]:
    """A temporary file beside `path`, renamed to it at the end: a kill leaves the old file or the new one.

    shared: several processes may write this file at the same time; each uses its own temporary name.
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


def encode_json(data: Any) -> bytes:
    """JSON text. NumPy numbers become Python's; a NaN or infinity is a ValueError, since JSON has neither."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False, default=_to_python).encode()


def write_json(path: Path, data: Mapping[str, Any], option: str) -> None:
    """Write `data`, to standard output if `path` is "-"; an error names the command's option that gave the path."""
    content = encode_json(data)
    if str(path) == "-":
        sys.stdout.write(content.decode() + "\n")
        return
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write {path}: {reason}: give another place with {option}") from None


def try_to_write(path: Path, option: str) -> None:
    """Check before hours of work that `path` can be written; the error names the option. "-" is standard output."""
    if str(path) == "-":
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        beside = path.with_name(f"{path.name}.part")
        beside.touch()
        beside.unlink(missing_ok=True)  # under torchrun other ranks do the same
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}: give another place with {option}") from None


def _to_python(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"not plain JSON data: {value!r}")
