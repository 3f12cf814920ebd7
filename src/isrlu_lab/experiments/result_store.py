"""The results under an output folder: result.json, failure.json and figures of each experiment in each preset.

A file that is damaged or does not match the types below is renamed to NAME.damaged, and a `Damaged` error names it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar
from xml.etree import ElementTree

import msgspec

from isrlu_lab.atomic_files import encode_json
from isrlu_lab.errors import UserError
from isrlu_lab.experiments.experiment import Result
from isrlu_lab.output_folder import OutputFolder, StoreError, write, writing
from isrlu_lab.training.run_store import RunStore

FORMAT = 1
PRESETS = ("quick", "full")
T = TypeVar("T")


class Damaged(UserError):
    """A stored file is damaged. It has been renamed."""


@dataclass(frozen=True)
class Record:
    """A stored result with its experiment, preset, run time in seconds and environment."""

    experiment: str
    preset: str
    seconds: float
    environment: dict[str, Any]
    result: Result


class _Runs(TypedDict):
    """The training runs behind a result."""

    complete: bool
    seeds: int
    data: str
    grid: NotRequired[str]


class _Environment(TypedDict):
    """The keys of a record's environment that the report and `reproduce` read."""

    cpu: str
    simd: str
    threads: int
    versions: dict[str, str]
    date: str
    command: str
    seeds: NotRequired[list[int]]
    clock_ghz: NotRequired[float]
    largest_spread: NotRequired[float]
    threads_used: NotRequired[int]
    runs: NotRequired[_Runs]


class _Failure(TypedDict):
    reason: str


@dataclass(frozen=True)
class Folder:
    """The folder of one experiment in one preset, and the stored parts of an interrupted run."""

    output: OutputFolder
    name: str
    warn: Callable[[str], None] = field(default=lambda _: None)

    @property
    def path(self) -> Path:
        return self.output.root / self.name

    def write(self, name: str, content: bytes) -> Path:
        return write(self.path / name, content)

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """The stored part `key`. If there is none, call compute() and store its value."""
        with RunStore(self.output) as store:
            return store.remember(self.name, key, compute)

    def forget_parts(self) -> None:
        """Remove all parts that `remember` stored, so that the next run measures again."""
        if self.output.runs.exists():
            try:
                with RunStore(self.output) as store:
                    store.forget(self.name)
            except UserError as error:  # a damaged store of runs must not stop an experiment without parts
                self.warn(str(error))


class Store:
    """The results under one output folder."""

    def __init__(self, output: OutputFolder, warn: Callable[[str], None] = lambda _: None):
        self.output = output
        self.warn = warn

    def folder(self, experiment: str, preset: str) -> Folder:
        return Folder(self.output, self.output.experiment(experiment, preset).name, self.warn)

    def load(self, experiment: str, preset: str) -> Record | None:
        """The stored result, or None. A damaged file is renamed and raises `Damaged`."""
        path = self.output.result(experiment, preset)
        if not path.exists():
            return None
        data = read_json(path, dict[str, Any])
        try:
            record = parse_record(data, experiment)
            if record.preset != preset:
                raise ValueError(f"it is the result of {record.experiment}, {record.preset}")
            for figure in record.result.figures:
                load_svg(path.with_name(f"{figure.name}.svg"))
            return record
        except ValueError as error:
            raise _set_aside(path, error) from None

    def save(self, record: Record) -> None:
        """Store a result and remove the record of an earlier failure."""
        data = {**vars(record), "result": record.result.to_json()}
        write_json(self.output.result(record.experiment, record.preset), {"format": FORMAT, **data})
        self.output.failure(record.experiment, record.preset).unlink(missing_ok=True)

    def save_failure(self, experiment: str, preset: str, reason: str, traceback: str) -> None:
        write_json(self.output.failure(experiment, preset), {"reason": reason, "traceback": traceback})

    def load_failure(self, experiment: str, preset: str) -> str | None:
        """Why the last run of the experiment failed; None if it did not."""
        path = self.output.failure(experiment, preset)
        try:
            return read_json(path, _Failure)["reason"] if path.exists() else None
        except Damaged as error:
            self.warn(str(error))
            return None


def parse_record(data: dict[str, Any], experiment: str) -> Record:
    """The record in the content of a result.json. Raises ValueError if it is not a result of this experiment."""
    if data.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    record = msgspec.convert(data, Record)
    msgspec.convert(record.environment, _Environment)
    if not (record.result.tables or record.result.figures):
        raise ValueError("it has neither a table nor a figure")
    if record.experiment != experiment:
        raise ValueError(f"it is the result of {record.experiment}, {record.preset}")
    return record


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write `data` as JSON. NumPy numbers become Python numbers. NaN and infinity raise ValueError (not in JSON)."""
    write(path, encode_json(data))


def read_json(path: Path, shape: type[T]) -> T:
    """The data in `path`, checked against the type `shape`. A file that fails is renamed and raises `Damaged`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=shape)
    except (ValueError, RecursionError) as error:  # ValueError includes msgspec's errors and UnicodeDecodeError
        raise _set_aside(path, error) from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None


def _set_aside(path: Path, error: Exception) -> Damaged:
    aside = path.with_name(path.name + ".damaged")
    count = 1
    while aside.exists():
        count += 1
        aside = path.with_name(f"{path.name}.damaged-{count}")
    with writing(path):
        os.replace(path, aside)
    return Damaged(f"{path} is damaged ({type(error).__name__}: {error}): set aside as {aside.name}")


def load_svg(path: Path) -> bytes:
    """The content of an SVG file. Raises ValueError if it is missing or not an SVG."""
    try:
        content = path.read_bytes()
        if ElementTree.fromstring(content).tag.rpartition("}")[2] == "svg":
            return content
        reason = "is no SVG"
    except OSError as error:
        reason = f"can't be read: {error.strerror}"
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # LookupError and ValueError: unknown encoding
        reason = f"is damaged: {error}"
    raise ValueError(f"its figure {path.name} {reason}")
