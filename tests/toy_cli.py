"""The command line in a process of its own, with the toy experiments of toy_experiment.py."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

from isrlu_lab.output_folder import OutputFolder

TOY = Path(__file__).with_name("toy_experiment.py")


class Cli:
    """`isrlu ...` in its own process and folder, with the toy experiments in the registry."""

    def __init__(self, folder: Path):
        self.out = folder / "results"
        self.log = folder / "log"
        self.log.touch()

    def start(self, *arguments: str, out: Path | None = None, preexec_fn=None, **variables: str) -> subprocess.Popen:
        command = [sys.executable, str(TOY), *arguments, "--out", str(out or self.out)]
        environment = {
            **os.environ,
            "TOY_LOG": str(self.log),
            "COLUMNS": "300",
            "NO_COLOR": "1",
            "TTY_COMPATIBLE": "0",
            **variables,
        }
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": preexec_fn}
        encoding = variables.get("PYTHONIOENCODING")
        return subprocess.Popen(command, env=environment, text=True, encoding=encoding, **options)

    def run(self, *arguments: str, **options) -> subprocess.CompletedProcess:
        process = self.start(*arguments, **options)
        stdout, stderr = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def computed(self) -> list[str]:
        """The parts computed since the last call."""
        lines = self.log.read_text().split()
        self.log.write_text("")
        return lines

    def parts(self) -> set[str]:
        """Keys of the stored parts of the toy; also while another process writes them."""
        path = OutputFolder(self.out).runs
        if not path.exists():
            return set()
        with contextlib.closing(sqlite3.connect(path)) as database:
            try:
                return {key for (key,) in database.execute("SELECT key FROM parts WHERE experiment = 'toy-quick'")}
            except sqlite3.OperationalError:  # its tables are not there yet
                return set()

    @property
    def result(self) -> Path:
        return self.out / "toy-quick" / "result.json"


def one_line(process: subprocess.CompletedProcess) -> str:
    """The one line that the user sees; no traceback."""
    assert process.returncode != 0
    lines = process.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("isrlu: "), process.stderr
    return lines[0]


def one_line_of(process: subprocess.CompletedProcess) -> str:
    """The one warning of a run that went on."""
    (line,) = process.stderr.strip().splitlines()
    return line
