"""What the command line writes: on terminals, into files, pipes and full disks, in every encoding."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from toy_cli import Cli, one_line

import isrlu
from isrlu_lab.experiments import overall_progress, terminal
from isrlu_lab.experiments.experiment import Column, Experiment, Table
from isrlu_lab.experiments.overall_progress import OverallProgress

pytest.importorskip("typer")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_an_output_that_lacks_a_character_costs_that_character_alone(cli: Cli, encoding: str):
    """The toy's note has an infinity sign."""
    for command in (["reproduce"], ["reproduce", "--list"], ["report"]):
        process = cli.run(*command, PYTHONIOENCODING=encoding)
        assert process.returncode == 0 and process.stderr == "", process.stderr
    assert not list(cli.out.rglob("failure.json"))
    assert "A note on `toys`: ? of them." in cli.run("reproduce", "--again", PYTHONIOENCODING=encoding).stdout


def test_info_prints_in_ascii():
    start = (
        "import isrlu_lab.environment as e; e.cpu_name = lambda: 'CPU \u221e'; from isrlu_lab.cli import main; main()"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "300"}
    done = subprocess.run([sys.executable, "-c", start, "info"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "CPU ?" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("command", [["info"], ["reproduce", "--list"], ["--version"]])
def test_standard_output_that_is_full_or_closed(command: list[str]):
    start = "from isrlu_lab.cli import main; main()"
    arguments = " ".join([sys.executable, "-c", f"'{start}'", *command])
    full = subprocess.run(f"{arguments} > /dev/full", shell=True, capture_output=True, text=True)
    assert one_line(full) == "isrlu: cannot write: No space left on device"
    closed = subprocess.run(f"{arguments} >&-", shell=True, capture_output=True, text=True)
    assert (closed.returncode, closed.stderr) == (0, "")
    pipe = subprocess.run(f"{arguments} | head -c 0", shell=True, capture_output=True, text=True)
    assert pipe.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_disk_that_is_full_elsewhere():
    start = (
        "import isrlu_lab.environment as e; e.cpu_name = lambda: print('x', file=open('/dev/full', 'w'), flush=True);"
        "from isrlu_lab.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", start, "info"], capture_output=True, text=True)
    assert one_line(done) == "isrlu: cannot write: No space left on device"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_does_not_stop_the_experiment_that_says_how_far_it_is():
    entry = Experiment("table5", "", "", "1 h", "2 h", "")
    with io.FileIO("/dev/full", "w") as device:
        console = Console(file=io.TextIOWrapper(device, write_through=True), force_terminal=False)
        with pytest.raises(OSError, match="No space left"):
            console.print("1/1 table5")
        with OverallProgress([entry], full=False, console=console).begin(entry, full=False) as watch:
            watch.progress("1/9 runs", 1, 9)


def test_an_unknown_instruction_set_is_one_line():
    """The core refuses it when it is imported, which is before the command line starts."""
    start = "from isrlu_lab.cli import main; main()"  # as the installed command does
    environment = {**os.environ, "ISRLU_SIMD": "nope"}
    done = subprocess.run([sys.executable, "-c", start, "info"], env=environment, capture_output=True, text=True)
    assert one_line(done).startswith("isrlu: ISRLU_SIMD: unknown instruction set 'nope': known are scalar, ")
    assert done.returncode == 2 and done.stdout == ""


def test_version():
    done = subprocess.run([sys.executable, "-m", "isrlu", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"isrlu {isrlu.__version__}\n"


def test_the_time_in_all_is_told_at_the_start(cli: Cli):
    """Without what is done already. The toys take 1 s each, by their entry in the registry."""
    assert cli.run("reproduce", "toy").stdout.startswith("toy, quick preset: about 1 s in all on 2 cores\n")
    lines = cli.run("reproduce").stdout.splitlines()
    assert lines[0] == "1 of 2 experiments, quick preset: about 1 s in all on 2 cores"
    assert any(line.startswith("1/1 other: about 1 s; 0% of the whole is done") for line in lines)
    assert "in all" not in cli.run("reproduce").stdout, "nothing is left to do"


def test_overall_progress_counts_all_experiments():
    times = {"a": "10 s", "b": "1 min", "c": "30 s"}
    entries = [Experiment(name, name, "", quick, "1 h", name) for name, quick in times.items()]
    overall = OverallProgress(entries, full=False, console=Console(quiet=True))
    assert overall.expected == "2 min"
    with overall.begin(entries[0], full=False):
        assert overall.share(5) == 0.05
    with overall.begin(entries[1], full=False) as watch:
        watch.progress("half", 1, 2)
        assert overall.share(30) == 0.4
    assert overall.share(0) == 0.7
    late = Experiment("d", "d", "", "100 s", "1 h", "d")  # its result was there, but is outdated
    with overall.begin(late, full=False):
        assert overall.share(0) == 0.35


def test_output_in_a_file_says_now_and_then_how_far_it_is(monkeypatch: pytest.MonkeyPatch):
    now = 1000.0
    monkeypatch.setattr(overall_progress, "time", SimpleNamespace(monotonic=lambda: now))
    written = io.StringIO()
    entry = Experiment("table5", "", "", "1 h", "2 h", "")
    overall = OverallProgress([entry], full=False, console=Console(file=written, width=40, force_terminal=False))
    with overall.begin(entry, full=False) as watch:
        for run in range(4):
            now += overall_progress.LOG_EVERY / 2 + 1
            watch.progress(f"{run}/9 runs; [ELU], seed 1", run, 9)
    assert written.getvalue().splitlines() == [
        "1/1 table5: about 60 min; 0% of the whole is done",
        "1/1 table5: 1/9 runs; [ELU], seed 1; 5 min of about 60 min",
        "1/1 table5: 3/9 runs; [ELU], seed 1; 10 min of about 60 min",
    ]


def test_a_narrow_terminal_shortens_only_the_detail():
    entry = Experiment("normfree", "", "", "90 s", "1 h", "")
    written = io.StringIO()
    overall = OverallProgress([entry], full=False, console=Console(file=written, width=60, force_terminal=True))
    with overall.begin(entry, full=False) as watch:
        watch.progress("0/8 runs; " + "detail " * 20, 1, 8)
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.getvalue()).split("\r")[-2]
    assert last.startswith("1/1 normfree ━") and " s of about 90 s 0/8 " in last
    assert last.endswith("…\n")


def test_a_wide_table_breaks_no_word_of_a_heading():
    columns = [Column("convolution"), *(Column(f"multiplication{n}", "here") for n in range(12))]
    written = io.StringIO()
    terminal.table(Console(file=written, width=80), Table("Wide", columns, [["5x5", *range(12)]]))
    assert all(column.title in written.getvalue() for column in columns)


@pytest.mark.parametrize(
    ("package", "arguments", "message", "code"),
    [
        (
            "matplotlib",
            ["reproduce", "figure1"],
            "figure1 failed: the package matplotlib is not installed: pip install -c constraints.txt '.[paper]'",
            1,
        ),
        (
            "jinja2",
            ["report"],
            "the report needs jinja2: pip install -c constraints.txt '.[cli]'",
            2,
        ),
        (
            "typer",
            ["info"],
            "the command line needs typer and rich: pip install -c constraints.txt '.[cli]'",
            1,
        ),
    ],
)
def test_missing_package(tmp_path: Path, package: str, arguments: list[str], message: str, code: int):
    block = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv[0] = 'isrlu'; from isrlu_lab.cli import main; main()"
    )
    out = [] if arguments == ["info"] else ["--out", str(tmp_path)]
    command = [sys.executable, "-c", block, *arguments, *out]
    process = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "300"})
    assert process.returncode == code
    assert f"isrlu: {message}" in process.stderr and "Traceback" not in process.stderr
