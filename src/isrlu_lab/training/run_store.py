"""The store of an output folder: finished training runs, and finished parts of experiments that are not finished.

    table runs     hash (the identity), spec, status, reason, result, environment, finished
    table parts    experiment, key, value: what `RunStore.remember` computed
    view  summary  the runs, with each field of the specification and each number of the result as a column

A status is "done", "diverged" (a loss became NaN: final, as a run is deterministic) or "crashed" (the next grid tries
it again). The result of a run is stored once: a second one of the same hash is refused.
"""

import contextlib
import dataclasses
import datetime
import functools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from isrlu_lab.atomic_files import encode_json
from isrlu_lab.database import Database
from isrlu_lab.errors import UserError
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.kinds import load_spec, spec_classes
from isrlu_lab.training.run_spec import RunSpec

Status = Literal["done", "diverged", "crashed"]
_COLUMNS = "hash, spec, status, reason, result, environment, finished"
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    hash TEXT PRIMARY KEY, spec TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
    result TEXT NOT NULL, environment TEXT NOT NULL, finished TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS parts (
    experiment TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (experiment, key)
);
"""


@dataclass(frozen=True)
class Run:
    """A finished run: `result` holds the numbers of its kind and the history."""

    spec: RunSpec
    status: Status
    reason: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    finished: str = ""


class RunReader:
    """The runs in the file at `path`, as a context manager. Another process may be writing it."""

    def __init__(self, path: Path, *, schema: str = "") -> None:
        self.path = path
        self._database = Database(path, schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def find(self, specs: Iterable[RunSpec]) -> dict[str, Run]:
        """hash -> stored run, for those of `specs` that are stored."""
        found = {}
        for spec in specs:
            for row in self._database.rows(f"SELECT {_COLUMNS} FROM runs WHERE hash = ?", (spec.hash,)):
                found[spec.hash] = self._run(row)
        return found

    def all(self, warn: Callable[[str], object] | None = None) -> Iterator[Run]:
        """Every stored run, oldest first; with `warn`, one that cannot be read is reported to it and left out."""
        return _readable(self._run, self._database.rows(f"SELECT {_COLUMNS} FROM runs ORDER BY finished, hash"), warn)

    def __len__(self) -> int:
        return self._database.rows("SELECT count(*) FROM runs")[0][0]

    def _run(self, row: tuple[Any, ...]) -> Run:
        key, spec, status, reason, result, environment, finished = row
        try:
            row = (key, _decode(spec), status, reason, _decode(result), _decode(environment), finished)
        except (ValueError, TypeError, RecursionError) as error:
            raise _damaged(self.path, key, error) from None
        return _checked_run(self.path, row)


class RunFile:
    """The runs in the JSON file at `path`, as `isrlu results show --json` writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._rows = msgspec.json.decode(path.read_bytes(), type=_File).runs
        except OSError as error:
            raise UserError(f"cannot read the runs in {path} ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path} is no file of runs ({error}): give one of `isrlu results show --json`") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        pass

    def all(self, warn: Callable[[str], object] | None = None) -> Iterator[Run]:
        """As `RunReader.all`."""
        return _readable(lambda row: _checked_run(self.path, row), map(msgspec.structs.astuple, self._rows), warn)


def open_runs(path: Path) -> RunReader | RunFile:
    """The runs of a store, or of a JSON file."""
    return RunFile(path) if path.suffix == ".json" else RunReader(path)


class RunStore(RunReader):
    """The store of an output folder, created if it is missing. It holds the folder's lock until it is closed."""

    def __init__(self, folder: OutputFolder) -> None:
        with contextlib.ExitStack() as opened:
            opened.enter_context(folder.lock())
            super().__init__(folder.runs, schema=_TABLES + _summary_view())
            self._lock = opened.pop_all()

    def close(self) -> None:
        super().close()
        self._lock.close()

    def add(self, run: Run) -> None:
        """Store a finished run. It replaces a crash of the same hash; a result is never overwritten."""
        finished = run.finished or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        texts = (json.dumps(value, allow_nan=False) for value in (run.spec.to_json(), run.result, run.environment))
        spec, result, environment = texts
        changed = self._database.change(
            f"INSERT INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET"
            " (status, reason, result, environment, finished) = (excluded.status, excluded.reason,"
            " excluded.result, excluded.environment, excluded.finished) WHERE runs.status = 'crashed'",
            (run.spec.hash, spec, run.status, run.reason, result, environment, finished),
        )
        if not changed:
            raise UserError(f"{self.path} already holds a result of run {run.spec.hash} ({run.spec.label})")

    def merge(self, other: Path, warn: Callable[[str], object] | None = None) -> int:
        """Copy the runs of another store or JSON file that this one lacks (or has as crashed); returns how many.

        With `warn`, a run that cannot be read, or has the hash of another protocol, is reported to it and left out.
        """
        with open_runs(other) as source:
            theirs = list(source.all(warn))
        mine = self.find(run.spec for run in theirs)
        wanted = [run for run in theirs if run.spec.hash not in mine or _improves(run, mine[run.spec.hash])]
        for run in wanted:
            self.add(run)
        return len(wanted)

    def remember(self, experiment: str, key: str, compute: Callable[[], Any]) -> Any:
        """compute() as JSON data, stored; or what an earlier call stored. A damaged value is computed again."""
        query = "SELECT value FROM parts WHERE experiment = ? AND key = ?"
        for (text,) in self._database.rows(query, (experiment, key)):
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                return msgspec.json.decode(text)
        text = encode_json(compute()).decode()
        change = "INSERT OR REPLACE INTO parts (experiment, key, value) VALUES (?, ?, ?)"
        self._database.change(change, (experiment, key, text))
        return msgspec.json.decode(text)  # the same types in the first run as in a resumed one

    def forget(self, experiment: str) -> None:
        """Remove what `remember` stored for this experiment: the next run computes it again."""
        self._database.change("DELETE FROM parts WHERE experiment = ?", (experiment,))


class _Row(msgspec.Struct):
    """A run in a JSON file, in the order of the table's columns."""

    hash: str
    spec: dict[str, Any]
    status: str
    reason: str
    result: dict[str, Any]
    environment: dict[str, Any]
    finished: str


class _File(msgspec.Struct):
    runs: list[_Row]


def _readable(
    read: Callable[[tuple[Any, ...]], Run], rows: Iterable[tuple[Any, ...]], warn: Callable[[str], object] | None
) -> Iterator[Run]:
    for row in rows:
        try:
            yield read(row)
        except UserError as error:
            if warn is None:
                raise
            warn(str(error))


def _checked_run(path: Path, row: tuple[Any, ...]) -> Run:
    """The run of a row whose JSON is decoded."""
    key, spec, *rest = row
    try:
        run = Run(load_spec(spec), *rest)
        msgspec.convert(vars(run), _row_shape(type(run.spec)))
        if key != run.spec.hash:
            raise ValueError(f"its specification has the hash {run.spec.hash}")
        return run
    except (UserError, ValueError, TypeError, RecursionError) as error:
        raise _damaged(path, key, error) from None


def _damaged(path: Path, key: str, error: Exception) -> UserError:
    what = f"run {key} in the store of runs {path} is damaged, or of another version of isrlu ({error})"
    return UserError(f"{what}: move the store away, or restore it, and repeat the command")


@functools.cache
def _row_shape(kind: type[RunSpec]) -> Any:
    """The types of a row; the specification and the environment are checked elsewhere, and any number may be absent."""
    numbers = [(each.name, float, 0.0) for each in kind.numbers]
    history: tuple[str, Any, Any] = ("history", dict[str, float | list[float | list[float]]], {})
    result = msgspec.defstruct("Result", [*numbers, history])
    return msgspec.defstruct("Row", [("status", Status), ("reason", str), ("result", result), ("finished", str)])


def _summary_view() -> str:
    columns = {name: name for name in ("hash", "status", "reason", "finished")}
    for kind in spec_classes():
        for source, names in (("spec", dataclasses.fields(kind)), ("result", kind.numbers)):
            for each in names:
                columns.setdefault(each.name, f"json_extract({source}, '$.{each.name}')")
    selected = ", ".join(f'{value} AS "{name}"' for name, value in columns.items())
    return f"DROP VIEW IF EXISTS summary; CREATE VIEW summary AS SELECT {selected} FROM runs;"


def _decode(text: str) -> dict[str, Any]:
    return msgspec.json.decode(text, type=dict[str, Any])


def _improves(theirs: Run, mine: Run) -> bool:
    return mine.status == "crashed" and theirs.status != "crashed"
