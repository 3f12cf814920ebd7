"""An SQLite file in WAL mode: one writing process, any number of readers. A kill or a full disk loses no stored data.

The writer holds the lock of the output folder. Readers need neither the lock nor write permission.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from isrlu_lab.errors import UserError

FORMAT = 1
_MAGIC = b"SQLite format 3\0"


class Database:
    """The database at `path`. With a `schema` (idempotent SQL) it is created if missing, and can be written."""

    def __init__(self, path: Path, schema: str = "") -> None:
        self.path = path
        if not schema and not path.is_file():
            raise UserError(f"no such store of runs: {path}")
        with self._errors(), contextlib.ExitStack() as opened:
            if schema:
                path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite treats a short file with any content as an empty database.
            if path.is_file() and _first_bytes(path) not in ((b"", _MAGIC) if schema else (_MAGIC,)):
                raise sqlite3.DatabaseError("it is no SQLite database")
            self._connection = opened.enter_context(contextlib.closing(_connect(path)))
            if self._connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("its pages do not fit together")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if not schema and version == 0:
                raise UserError(f"{path} is an SQLite database, but no store of runs: give a runs.sqlite or its folder")
            if version not in (0, FORMAT):
                raise UserError(f"{path} has format {version}, but this isrlu knows {FORMAT}: give another --out")
            if schema:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")  # committed data survives a power cut
                self._connection.executescript(f"BEGIN; {schema} PRAGMA user_version = {FORMAT}; COMMIT;")
            opened.pop_all()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._errors():
            return self._connection.execute(sql, values).fetchall()

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute one statement in its own transaction. Returns the number of changed rows."""
        with self._errors():
            return self._connection.execute(sql, values).rowcount

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of SQLite and of the file system into a UserError."""
        try:
            yield
        except sqlite3.OperationalError as error:  # disk full, read-only or locked: the file is intact
            raise UserError(f"cannot use the store of runs {self.path}: {error}; what is in it is kept") from None
        except sqlite3.DatabaseError as error:
            hint = "move it away, or restore it, and repeat the command"
            raise UserError(f"the store of runs {self.path} is damaged ({error}): {hint}") from None
        except OSError as error:
            raise UserError(f"cannot use the store of runs {self.path}: {error.strerror}") from None


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_MAGIC))


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file. In WAL mode a reader creates files next to it. If it may not, the file is opened as immutable."""
    immutable = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    parameters = "?immutable=1" if immutable else ""
    return sqlite3.connect(f"{path.absolute().as_uri()}{parameters}", uri=True, isolation_level=None)
