"""The runs that are done: one SQLite file in WAL mode, written by one coordinating process, read by anyone.

    table runs    hash (the identity), spec, status, reason, result, environment, finished
    view  summary the same, with the specification's and the result's main numbers as columns

A status is "done", "diverged" (the loss became NaN: final, as a run is deterministic) or "crashed" (tried again by the
next grid). A run's result is stored once: a second one of the same hash is refused.
"""

import contextlib
import datetime
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec

from isrlu_lab.errors import UserError
from isrlu_lab.training.run_spec import RunSpec, load_spec

Status = Literal["done", "diverged", "crashed"]
FORMAT = 1
_MAGIC = b"SQLite format 3\0"
_SPEC = (
    "architecture",
    "activation",
    "alpha",
    "learnable",
    "method",
    "width",
    "pkeep",
    "epochs",
    "steps",
    "seed",
    "data",
    "task",
    "layer",
    "gates",
    "hidden",
)


class _Result(TypedDict, total=False):
    """The numbers that tables are made of, and the history."""

    best_accuracy: float
    final_accuracy: float
    final_loss: float
    final_score: float
    seconds: float
    history: dict[str, float | list[float | list[float]]]


_RESULT = [name for name in _Result.__annotations__ if name != "history"]
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS runs (
    hash TEXT PRIMARY KEY, spec TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
    result TEXT NOT NULL, environment TEXT NOT NULL, finished TEXT NOT NULL
);
DROP VIEW IF EXISTS summary;
CREATE VIEW summary AS SELECT hash, status, reason, finished,
    {", ".join(f"json_extract(spec, '$.{name}') AS {name}" for name in _SPEC)},
    {", ".join(f"json_extract(result, '$.{name}') AS {name}" for name in _RESULT)}
FROM runs;
"""


@dataclass(frozen=True)
class Run:
    """A finished run: `result` holds the summary's numbers and the history."""

    spec: RunSpec
    status: Status
    reason: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    finished: str = ""


class _Columns(TypedDict):
    """The shape of a row but for its specification, which checks itself."""

    status: Status
    reason: str
    result: _Result
    finished: str


class RunStore:
    """The store at `path`, made if it is not there, as a context manager; `write=False` reads beside a writer."""

    def __init__(self, path: Path, *, write: bool = True) -> None:
        self.path = path
        if not write and not path.is_file():
            raise UserError(f"no such store of runs: {path}")
        with self._errors(), contextlib.ExitStack() as opened:
            path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite takes a short file of any content for an empty database.
            if path.is_file() and _head(path) not in ((b"", _MAGIC) if write else (_MAGIC,)):
                raise sqlite3.DatabaseError("it is no SQLite database")
            if write:
                opened.enter_context(contextlib.closing(_locked(path)))
            self._database = opened.enter_context(contextlib.closing(_connected(path)))
            if self._database.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("its pages do not fit together")
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            if not write and version == 0:
                raise UserError(f"{path} is an SQLite database, but no store of runs: give a runs.sqlite or its folder")
            if version not in (0, FORMAT):
                raise UserError(f"{path} has format {version}, but this isrlu knows {FORMAT}: give another --out")
            if write:
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = FULL")  # what is stored survives a power cut
                self._database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;")
            self._opened = opened.pop_all()

    def __enter__(self) -> "RunStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()

    def add(self, run: Run) -> None:
        """Store a finished run, in the place of a crash of the same hash; a stored result is never overwritten."""
        finished = run.finished or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        texts = (json.dumps(value, allow_nan=False) for value in (run.spec.to_json(), run.result, run.environment))
        spec, result, environment = texts
        with self._errors():
            changed = self._database.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET"
                " (status, reason, result, environment, finished) = (excluded.status, excluded.reason,"
                " excluded.result, excluded.environment, excluded.finished) WHERE runs.status = 'crashed'",
                (run.spec.hash, spec, run.status, run.reason, result, environment, finished),
            ).rowcount
        if not changed:
            raise UserError(f"{self.path} already holds a result of run {run.spec.hash} ({run.spec.label})")

    def find(self, specs: Iterable[RunSpec]) -> dict[str, Run]:
        """hash -> stored run, for those of `specs` that are there."""
        found = {}
        for spec in specs:
            with self._errors():
                row = self._database.execute("SELECT * FROM runs WHERE hash = ?", (spec.hash,)).fetchone()
            if row:
                found[spec.hash] = self._run(row)
        return found

    def all(self, warn: Callable[[str], object] | None = None) -> Iterator[Run]:
        """Every stored run, oldest first; with `warn`, one that can't be read is named to it and left out."""
        with self._errors():
            rows = self._database.execute("SELECT * FROM runs ORDER BY finished, hash").fetchall()
        for row in rows:
            try:
                yield self._run(row)
            except UserError as error:
                if warn is None:
                    raise
                warn(str(error))

    def merge(self, other: Path) -> int:
        """Take over the runs of another store that this one lacks (or knows only as crashed); returns how many."""
        with RunStore(other, write=False) as source:
            theirs = list(source.all())
        mine = self.find(run.spec for run in theirs)
        wanted = [run for run in theirs if run.spec.hash not in mine or _improves(run, mine[run.spec.hash])]
        for run in wanted:
            self.add(run)
        return len(wanted)

    def _run(self, row: tuple[Any, ...]) -> Run:
        try:
            key, spec, status, reason, result, environment, finished = row
            loaded = load_spec(_decoded(spec))
            run = Run(loaded, status, reason, _decoded(result), _decoded(environment), finished)
            msgspec.convert(vars(run), _Columns)
            return run
        except (UserError, ValueError, TypeError, RecursionError) as error:
            what = f"run {key} in the store of runs {self.path} is damaged, or of another version of isrlu ({error})"
            raise UserError(f"{what}: move the store away, or restore it, and go on") from None

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # full, read-only, locked: nothing is wrong with the file
            raise UserError(f"cannot use the store of runs {self.path}: {error}; what is in it is kept") from None
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None
        except OSError as error:
            raise UserError(f"cannot use the store of runs {self.path}: {error.strerror}") from None

    def _damaged(self, error: Exception) -> UserError:
        return UserError(f"the store of runs {self.path} is damaged ({error}): move it away, or restore it, and go on")


def _decoded(text: str) -> dict[str, Any]:
    return msgspec.json.decode(text, type=dict[str, Any])


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_MAGIC))


def _connected(path: Path) -> sqlite3.Connection:
    """The database. In WAL mode it makes files beside it even to be read; where none can be made it is read as is."""
    fixed = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    how = "?immutable=1" if fixed else ""
    return sqlite3.connect(f"{path.absolute().as_uri()}{how}", uri=True, isolation_level=None)


def _locked(path: Path) -> sqlite3.Connection:
    """The right to write: one process at a time has it, and it is free again when that process is gone, however."""
    database = sqlite3.connect(path.with_name(f"{path.name}-lock"), timeout=1.0, isolation_level=None)
    try:
        database.execute("BEGIN EXCLUSIVE")
        return database
    except sqlite3.OperationalError as error:
        database.close()
        if "locked" in str(error):
            raise UserError(f"another process is working with {path}: wait for it, or give another --out") from None
        raise


def _improves(theirs: Run, mine: Run) -> bool:
    return mine.status == "crashed" and theirs.status != "crashed"
