"""The output folder (--out): the paths of its files, and a lock that allows one writing process.

    results/.lock                           held by the writing process
           /report.html
           /table3-quick/result.json        result of the experiment, and the machine
                        /failure.json       why it failed, if it did
                        /curves.svg, .png   its figures
           /runs/runs.sqlite                training runs, and finished parts of unfinished experiments
                /checkpoints/HASH.pt        state of an unfinished run

Files are written under a temporary name and then renamed. A kill at any time leaves the old file or the new one.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import filelock

from isrlu_lab.atomic_files import replacing
from isrlu_lab.errors import UserError

PROBE_BYTES = 1 << 20  # 1 MiB, about the size of a report


class StoreError(UserError):
    """The output folder cannot be used, so no experiment can continue."""


class OutputFolder:
    """The paths below `root`, and its lock. The constructor creates no files."""

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
        """An absolute path, because Ray workers have another working directory."""
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
        """Lock the folder for writing. Raises StoreError if another process holds the lock. The lock is reentrant."""
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
        except OSError:  # a file system without locks: two processes would only do the same work twice
            pass
        try:
            yield
        finally:
            self._lock.release()

    def check_space(self) -> None:
        """Raise StoreError if no file of 1 MiB can be written."""
        write(self.root / ".probe", bytes(PROBE_BYTES)).unlink()


def write(path: Path, content: bytes) -> Path:
    """Write the file atomically: a reader sees the old content or the new content."""
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
