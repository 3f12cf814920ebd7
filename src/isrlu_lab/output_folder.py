"""An output folder (--out): where each of its files is, and the lock that lets one process write.

    results/.lock                           held by the process that writes
           /report.html
           /table3-quick/result.json        what the experiment found, and on which machine
                        /failure.json       why it failed, if it did
                        /curves.svg, .png   its figures
           /runs/runs.sqlite                training runs, and finished parts of unfinished experiments
                /checkpoints/HASH.pt        state of an unfinished run

Files are written under another name and renamed, so a kill at any moment leaves the old file or the new one.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import filelock

from isrlu_lab.atomic_files import replacing
from isrlu_lab.errors import UserError

PROBE_BYTES = 1 << 20  # about the size of a report


class StoreError(UserError):
    """The output folder cannot be used. No experiment can continue."""


class OutputFolder:
    """The paths below `root`, and its lock. Nothing is created before something is written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = filelock.FileLock(root / ".lock", blocking=False, fallback_to_soft=False)

    @property
    def report(self) -> Path:
        return self.root / "report.html"

    @property
    def runs(self) -> Path:
        return self.root / "runs" / "runs.sqlite"

    @property
    def checkpoints(self) -> Path:
        """Absolute: the working directory of a Ray worker is another one."""
        return self.root.resolve() / "runs" / "checkpoints"

    def experiment(self, name: str, preset: str) -> Path:
        """The folder of one experiment in one preset: result.json, failure.json and figures."""
        return self.root / f"{name}-{preset}"

    def result(self, name: str, preset: str) -> Path:
        return self.experiment(name, preset) / "result.json"

    def failure(self, name: str, preset: str) -> Path:
        return self.experiment(name, preset) / "failure.json"

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for writing; StoreError if another process does. The holder may take it again."""
        if self.root.exists() and not self.root.is_dir():
            raise StoreError(f"{self.root} is not a folder: give another one with --out")
        with writing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            (self.root / ".lock").open("ab").close()
        try:
            self._lock.acquire()
        except filelock.Timeout:
            message = f"another isrlu process is writing in {self.root}: wait for it, or give another --out"
            raise StoreError(message) from None
        except OSError:  # a file system without locks: two runs in one folder only do the same work twice
            pass
        try:
            yield
        finally:
            self._lock.release()

    def check_space(self) -> None:
        """Raise StoreError if no file of 1 MiB can be written."""
        write(self.root / ".probe", bytes(PROBE_BYTES)).unlink()


def write(path: Path, content: bytes) -> Path:
    """Write the file as a whole: a reader sees the old content or the new."""
    with writing(path), replacing(path) as file:
        file.write(content)
    return path


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError into a StoreError that names `path` and says what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}: give another folder with --out") from None
