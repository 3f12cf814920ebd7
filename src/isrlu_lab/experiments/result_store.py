"""The results store: one folder per experiment and preset, JSON files that are whole or absent.

    results/table3-quick/result.json      what the experiment found, and on what
                        /curves.svg       its figures
                        /parts/KEY.json   finished parts of a long experiment
                        /failure.json     why it failed, if it did
    results/report.html

Every file is written beside its place and then renamed into it, so that a kill at any moment leaves the old file or the
new one. A file that is damaged all the same, or has another shape than the types here say, is set aside as NAME.damaged
and named in a `Damaged` error.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar
from xml.etree import ElementTree

import filelock
import msgspec

from isrlu_lab.atomic_files import encode_json, replacing
from isrlu_lab.errors import UserError
from isrlu_lab.experiments.experiment import Result

FORMAT = 1
PRESETS = ("quick", "full")
PROBE_BYTES = 1 << 20  # about what a report takes
T = TypeVar("T")


class StoreError(UserError):
    """The output folder cannot be used: no experiment can go on."""


class Damaged(UserError):
    """A file of the store could not be read; it has been set aside."""


@dataclass(frozen=True)
class Record:
    """A stored result: of which experiment, in which preset, how long it took, and the environment it ran in."""

    experiment: str
    preset: str
    seconds: float
    environment: dict[str, Any]
    result: Result


class _Runs(TypedDict):
    """Which training runs a result was made of."""

    complete: bool
    seeds: int
    data: str
    grid: NotRequired[str]


class _Environment(TypedDict):
    """What report and runner read of a record's environment."""

    cpu: str
    simd: str
    threads: int
    versions: dict[str, str]
    date: str
    command: str
    seeds: NotRequired[list[int]]
    clock_ghz: NotRequired[float]
    threads_used: NotRequired[int]
    runs: NotRequired[_Runs]


class _Part(TypedDict):
    part: Any


class _Failure(TypedDict):
    reason: str


@dataclass(frozen=True)
class Folder:
    """The place of one experiment in one preset."""

    path: Path
    warn: Callable[[str], None] = field(default=lambda _: None)

    def write(self, name: str, content: bytes) -> Path:
        return write(self.path / name, content)

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """The stored part `key`, or compute(), stored."""
        path = self.path / "parts" / f"{key}.json"
        try:
            if path.exists():
                return read_json(path, _Part)["part"]
        except Damaged as error:
            self.warn(f"{error}; this part runs again")
        write_json(path, {"part": compute()})
        return read_json(path, _Part)["part"]  # the same types on the first run as on a resumed one

    def forget_parts(self) -> None:
        """Remove what `remember` stored: the next run measures anew."""
        with _storing(self.path):
            if (self.path / "parts").exists():
                shutil.rmtree(self.path / "parts")


class Store:
    """The results under one output folder."""

    def __init__(self, root: Path, warn: Callable[[str], None] = lambda _: None):
        self.root = root
        self.warn = warn

    def folder(self, experiment: str, preset: str) -> Folder:
        return Folder(self.root / f"{experiment}-{preset}", self.warn)

    def load(self, experiment: str, preset: str) -> Record | None:
        """The stored result, or None; a damaged file is set aside and raises `Damaged`."""
        path = self.folder(experiment, preset).path / "result.json"
        if not path.exists():
            return None
        data = read_json(path, dict[str, Any])
        try:
            if data.get("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            record = msgspec.convert(data, Record)
            msgspec.convert(record.environment, _Environment)
            if not (record.result.tables or record.result.figures):
                raise ValueError("it has neither a table nor a figure")
            if (record.experiment, record.preset) != (experiment, preset):
                raise ValueError(f"it is the result of {record.experiment}, {record.preset}")
            for figure in record.result.figures:
                load_svg(path.with_name(f"{figure.name}.svg"))
            return record
        except ValueError as error:
            raise _set_aside(path, error) from None

    def save(self, record: Record) -> None:
        """Store a result; what its unfinished run left is no longer needed."""
        folder = self.folder(record.experiment, record.preset)
        data = {**vars(record), "result": record.result.to_json()}
        write_json(folder.path / "result.json", {"format": FORMAT, **data})
        (folder.path / "failure.json").unlink(missing_ok=True)
        folder.forget_parts()

    def save_failure(self, experiment: str, preset: str, reason: str, traceback: str) -> None:
        path = self.folder(experiment, preset).path / "failure.json"
        write_json(path, {"reason": reason, "traceback": traceback})

    def load_failure(self, experiment: str, preset: str) -> str | None:
        """Why the experiment failed when it last ran, if it did."""
        path = self.folder(experiment, preset).path / "failure.json"
        try:
            return read_json(path, _Failure)["reason"] if path.exists() else None
        except Damaged as error:
            self.warn(str(error))
            return None

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the store, after a test that it can be written; a second `reproduce` in the same folder is refused."""
        if self.root.exists() and not self.root.is_dir():
            raise StoreError(f"{self.root} is not a folder: give another one with --out")
        with _storing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            write(self.root / ".probe", bytes(PROBE_BYTES)).unlink()
            (self.root / ".lock").open("ab").close()
        lock = filelock.FileLock(self.root / ".lock", blocking=False, fallback_to_soft=False)
        try:
            lock.acquire()
        except filelock.Timeout:
            message = f"another isrlu reproduce is writing in {self.root}: wait for it, or give --out"
            raise StoreError(message) from None
        except OSError:  # a file system without locks: two runs in one folder only do the same work twice
            pass
        try:
            yield
        finally:
            lock.release()


def write(path: Path, content: bytes) -> Path:
    """Write beside, then rename: `path` is never seen half-written."""
    with _storing(path), replacing(path) as file:
        file.write(content)
    return path


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write `data`; NumPy numbers become Python's, and a NaN or infinity is a ValueError (JSON has none)."""
    write(path, encode_json(data))


def read_json(path: Path, shape: type[T]) -> T:
    """The data in `path`; a file that is damaged or of another shape is set aside and raises `Damaged`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=shape)
    except (ValueError, RecursionError) as error:  # also msgspec's own errors and UnicodeDecodeError
        raise _set_aside(path, error) from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None


def _set_aside(path: Path, error: Exception) -> Damaged:
    aside = path.with_name(path.name + ".damaged")
    count = 1
    while aside.exists():
        count += 1
        aside = path.with_name(f"{path.name}.damaged-{count}")
    with _storing(path):
        os.replace(path, aside)
    return Damaged(f"{path} is damaged ({type(error).__name__}: {error}): set aside as {aside.name}")


def load_svg(path: Path) -> bytes:
    """A figure's file; ValueError where there is none, or it is no SVG."""
    try:
        content = path.read_bytes()
        if ElementTree.fromstring(content).tag.rpartition("}")[2] == "svg":
            return content
        reason = "is no SVG"
    except OSError as error:
        reason = f"can't be read: {error.strerror}"
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the last two: an unknown encoding
        reason = f"is damaged: {error}"
    raise ValueError(f"its figure {path.name} {reason}")


@contextlib.contextmanager
def _storing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}: give another folder with --out") from None
