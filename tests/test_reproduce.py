"""`isrlu reproduce`: what is done stays done whatever happens, and every mishap is one clear line."""

import contextlib
import errno
import fcntl
import functools
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import isrlu
from isrlu_lab import environment, output_folder
from isrlu_lab.experiments import overall_progress, result_store, terminal
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Column, Experiment, Result, Table
from isrlu_lab.experiments.overall_progress import OverallProgress
from isrlu_lab.experiments.result_store import Damaged, Folder, Record, Store
from isrlu_lab.output_folder import OutputFolder, StoreError

pytest.importorskip("typer")
TOY = Path(__file__).with_name("toy_experiment.py")
RESULTS = Path(__file__).parents[1] / "docs" / "results"


class Cli:
    """`isrlu ...` in its own process and folder, with the toy experiments in the registry."""

    def __init__(self, folder: Path):
        self.out = folder / "results"
        self.log = folder / "log"
        self.log.touch()

    def start(self, *arguments: str, out: Path | None = None, preexec_fn=None, **variables: str) -> subprocess.Popen:
        command = [sys.executable, str(TOY), *arguments, "--out", str(out or self.out)]
        environment = {**os.environ, "TOY_LOG": str(self.log), "COLUMNS": "300", "NO_COLOR": "1", **variables}
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


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


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


def test_runs_all_and_writes_the_report(cli: Cli):
    process = cli.run("reproduce")
    assert process.returncode == 0, process.stderr
    assert cli.computed() == [str(part) for part in range(6)] * 2
    assert "paper" in process.stdout and "here" in process.stdout and "Parts of the toy" in process.stdout
    assert f"report: {cli.out / 'report.html'}" in process.stdout
    assert (cli.out / "report.html").stat().st_size > 10_000


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
    assert one_line(full) == "isrlu: cannot write to standard output: No space left on device"
    closed = subprocess.run(f"{arguments} >&-", shell=True, capture_output=True, text=True)
    assert (closed.returncode, closed.stderr) == (0, "")
    pipe = subprocess.run(f"{arguments} | head -c 0", shell=True, capture_output=True, text=True)
    assert pipe.stderr == ""


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


def test_result_says_what_it_was_measured_on(cli: Cli):
    cli.run("reproduce", "toy")
    data = json.loads(cli.result.read_text())
    assert data["preset"] == "quick"
    environment = data["environment"]
    assert {"cpu", "simd", "threads", "versions", "date", "command", "seeds"} <= environment.keys()
    assert environment["seeds"] == [7]
    assert environment["command"].startswith("toy_experiment.py reproduce toy")


def test_done_is_not_done_again_unless_asked(cli: Cli):
    cli.run("reproduce", "toy")
    before = cli.result.read_bytes()
    cli.computed()
    process = cli.run("reproduce", "toy")
    assert process.returncode == 0 and "done toy" in process.stdout
    assert cli.computed() == [] and cli.result.read_bytes() == before
    assert cli.run("reproduce", "toy", "--again").returncode == 0
    assert len(cli.computed()) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--engine", "slurm", "unknown engine 'slurm': known are local, ray, ray:ADDRESS"),
        ("--shard", "3/2", "a shard is i/n with 1 <= i <= n, got '3/2'"),
        ("--data", "/no/such/folder", "no such data folder: /no/such/folder"),
    ],
)
def test_a_mistyped_option_is_told_before_anything_runs(cli: Cli, option: str, value: str, message: str):
    process = cli.run("reproduce", option, value)
    assert one_line(process) == f"isrlu: {message}" and process.returncode == 2
    assert cli.computed() == [] and not cli.out.exists()


def test_finished_parts_go_with_the_result(cli: Cli):
    """A later run measures anew rather than give old numbers a new date."""
    cli.run("reproduce", "toy", TOY_FAILS="1")
    assert len(cli.parts()) == 6
    cli.run("reproduce", "toy")
    assert cli.result.exists() and not cli.parts()


@pytest.mark.slow
def test_the_old_result_stays_until_there_is_a_new_one(cli: Cli):
    cli.run("reproduce", "toy")
    before = cli.result.read_bytes()
    assert cli.run("reproduce", "toy", "--again", TOY_FAILS="1").returncode == 1
    assert cli.result.read_bytes() == before and len(cli.computed()) == 12
    assert "done toy" in cli.run("reproduce", "toy").stdout


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
    overall = OverallProgress([entry], full=False, console=Console(file=written, width=40))
    with overall.begin(entry, full=False) as watch:
        for run in range(4):
            now += overall_progress.LOG_EVERY / 2 + 1
            watch.progress(f"{run}/9 runs; [ELU], seed 1", run, 9)
    assert [line for line in written.getvalue().splitlines() if line] == [
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


def test_full_preset_is_a_result_of_its_own(cli: Cli):
    cli.run("reproduce", "toy")
    assert cli.run("reproduce", "toy", "--full").returncode == 0
    assert len(cli.computed()) == 12
    assert json.loads((cli.out / "toy-full" / "result.json").read_text())["preset"] == "full"
    assert "full preset" in (cli.out / "report.html").read_text()


def test_list_names_each_with_its_times(cli: Cli):
    process = cli.run("reproduce", "--list")
    assert process.returncode == 0
    for word in ("toy", "other", "1 s", "2 s", "a toy"):
        assert word in process.stdout
    assert not cli.out.exists()


@pytest.mark.slow
def test_killed_at_random_moments_it_goes_on(cli: Cli):
    chance = random.Random(20171023)
    kills = 0
    for attempt in range(60):  # each with a little more time, in the end enough for a slow machine
        stored = cli.parts()
        cli.computed()
        process = cli.start("reproduce", "toy", TOY_SECONDS="0.1")
        try:
            _, stderr = process.communicate(timeout=chance.uniform(0.3, 1.3 + attempt / 10))
        except subprocess.TimeoutExpired:
            process.kill()
            _, stderr = process.communicate()
            kills += 1
        again = {f"part-{part}" for part in cli.computed()}
        assert not stored & again, "a finished part was computed again"
        assert "damaged" not in stderr and "Traceback" not in stderr
        if process.returncode == 0:
            break
    assert process.returncode == 0 and kills > 0
    assert [row[2] for row in json.loads(cli.result.read_text())["result"]["tables"][0]["rows"]] == [0, 1, 2, 3, 4, 5]
    assert not list(cli.out.rglob("*.part"))


@pytest.mark.slow
def test_interrupt_keeps_what_is_finished(cli: Cli):
    unblock = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
    process = cli.start("reproduce", TOY_SECONDS="1", preexec_fn=unblock)
    deadline = time.monotonic() + 60
    while "part-1" not in cli.parts():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.strip() == "isrlu: stopped in toy; 0 of 2 are finished: the same command resumes"
    cli.computed()
    assert cli.run("reproduce").returncode == 0
    assert "0" not in cli.computed()[:4] and cli.result.exists()


@pytest.mark.slow
def test_one_that_fails_is_told_and_the_other_runs(cli: Cli):
    cli.run("reproduce", "other")
    process = cli.run("reproduce", TOY_FAILS="1")
    assert process.returncode == 1
    lines = process.stderr.strip().splitlines()
    assert lines[0].startswith("isrlu: toy failed: RuntimeError: the toy is broken (traceback in ")
    assert lines[1] == "isrlu: 1 of 2 failed: toy" and len(lines) == 2
    assert "done other" in process.stdout
    assert "This experiment failed here: RuntimeError: the toy is broken" in (cli.out / "report.html").read_text()
    assert "and this line is for the traceback" in (cli.out / "toy-quick" / "failure.json").read_text()
    assert cli.run("reproduce").returncode == 0
    assert "This experiment failed" not in (cli.out / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"{}", b"\xff\x00", b'{"format": 2}'],
    ids=["empty", "cut", "null", "bare", "bytes", "format"],
)
def test_damaged_result_is_named_and_set_aside(cli: Cli, content: bytes):
    cli.run("reproduce", "toy")
    cli.result.write_bytes(content)
    report = cli.run("report")
    assert report.returncode == 1
    assert one_line(report).startswith(f"isrlu: {cli.result} is damaged (")
    assert cli.result.with_name("result.json.damaged").read_bytes() == content
    cli.result.write_bytes(content)
    process = cli.run("reproduce", "toy")
    assert process.returncode == 0
    assert f"{cli.result} is damaged (" in process.stderr
    assert "set aside as result.json.damaged-2; toy runs again" in process.stderr
    assert json.loads(cli.result.read_text())["experiment"] == "toy"


SHAPES = {
    "environment is a list": lambda data: data.update(environment=[]),
    "no threads": lambda data: data["environment"].pop("threads"),
    "threads is a list": lambda data: data["environment"].update(threads=[1]),
    "versions is a list": lambda data: data["environment"].update(versions=["python"]),
    "date is a number": lambda data: data["environment"].update(date=2026),
    "clock is a string": lambda data: data["environment"].update(clock_ghz="fast"),
    "runs is a number": lambda data: data["environment"].update(runs=5),
    "seconds is a string": lambda data: data.update(seconds="long"),
    "no seconds": lambda data: data.pop("seconds"),
    "notes is a number": lambda data: data["result"].update(notes=5),
    "a note is a number": lambda data: data["result"].update(notes=[5]),
    "result is a list": lambda data: data.update(result=[]),
    "result is empty": lambda data: data.update(result={}),
    "a claim is a string": lambda data: data["result"].update(claims=["holds"]),
    "a caption is a number": lambda data: data["result"]["tables"][0].update(caption=1),
    "a cell is a list": lambda data: data["result"]["tables"][0]["rows"][0].__setitem__(1, [1]),
    "a row is short": lambda data: data["result"]["tables"][0]["rows"][0].pop(),
    "an unknown format": lambda data: data["result"]["tables"][0]["columns"][1].update(format="{:.1q}"),
    "a format of two": lambda data: data["result"]["tables"][0]["columns"][1].update(format="{} {}"),
    "a figure elsewhere": lambda data: data["result"].update(figures=[{"name": "../x", "caption": "", "alt": ""}]),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """The toy and the other, run."""
    cli = Cli(tmp_path_factory.mktemp("stored"))
    assert cli.run("reproduce").returncode == 0
    return cli


@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_of_another_shape_is_set_aside(stored: Cli, tmp_path: Path, shape: str):
    shutil.copytree(stored.out, tmp_path / "results")
    path = tmp_path / "results" / "toy-quick" / "result.json"
    data = json.loads(path.read_text())
    SHAPES[shape](data)
    path.write_text(json.dumps(data))
    (tmp_path / "results" / "x.svg").write_text("<svg/>")
    with pytest.raises(Damaged, match=r"result\.json is damaged \(.*\): set aside as result\.json\.damaged$") as caught:
        Store(OutputFolder(tmp_path / "results")).load("toy", "quick")
    assert "\n" not in str(caught.value) and not path.exists()


def test_report_and_reproduce_go_on_past_a_result_of_another_shape(cli: Cli):
    cli.run("reproduce")
    text = cli.result.read_text()
    broken = json.dumps({**json.loads(text), "environment": []})
    cli.result.write_text(broken)
    report = cli.run("report")
    assert "is damaged (ValidationError: Expected `object`, got `array` - at `$.environment`)" in one_line(report)
    assert report.returncode == 1
    assert "Parts of the toy" in (cli.out / "report.html").read_text(), "the other experiment's table is there"
    cli.result.write_text(broken)
    process = cli.run("reproduce")
    assert process.returncode == 0 and "done other" in process.stdout
    assert one_line_of(process).endswith("toy runs again")
    assert cli.result.with_name("result.json.damaged").read_text() == broken


DEEP = '{"reason": "x", "half": ' + "[" * 100_000


@pytest.mark.parametrize("content", ["[]", "{}", '{"reason": 5}', DEEP], ids=["list", "bare", "number", "deep"])
def test_a_failure_of_another_shape_is_set_aside(tmp_path: Path, content: str):
    warnings: list[str] = []
    store = Store(OutputFolder(tmp_path), warnings.append)
    path = store.folder("toy", "quick").write("failure.json", content.encode())
    assert store.load_failure("toy", "quick") is None
    (line,) = warnings
    assert str(path) in line and "set aside" in line


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/result.json")), ids=lambda path: path.parent.name)
def test_published_results_load(tmp_path: Path, path: Path):
    folder = path.parent
    data = json.loads((folder / "result.json").read_text())
    place = tmp_path / f"{data['experiment']}-{data['preset']}"
    shutil.copytree(folder, place)
    for figure in data["result"]["figures"]:  # only the bitmaps are published
        (place / f"{figure['name']}.svg").write_text("<svg/>")
    record = Store(OutputFolder(tmp_path)).load(data["experiment"], data["preset"])
    assert json.loads(json.dumps({"format": 1, **vars(record), "result": record.result.to_json()})) == data


@pytest.mark.slow
def test_cut_result_never_passes_for_whole(tmp_path: Path):
    store = Store(OutputFolder(tmp_path))
    table = Table("t", [Column("a"), Column("b", "here", "{:.2f}")], [["x", 1.5]])
    record = Record("toy", "quick", 1.0, environment.capture(), Result([table], [Claim("c", "s", "holds")]))
    store.save(record)
    path = tmp_path / "toy-quick" / "result.json"
    assert store.load("toy", "quick") == record
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(Damaged, match="set aside"):
            store.load("toy", "quick")


@pytest.mark.parametrize("content", ["[1", "", "[" * 100_000], ids=["cut", "empty", "deep"])
def test_a_damaged_part_is_computed_again(tmp_path: Path, content: str):
    output = OutputFolder(tmp_path)
    context, other = Context(Folder(output, "toy-quick")), Context(Folder(output, "other-quick"))
    assert context.remember("a/b", lambda: (1, 2)) == [1, 2]
    assert context.remember("a/b", lambda: pytest.fail("computed again")) == [1, 2]
    assert other.remember("a/b", lambda: 5) == 5, "each experiment has its own"
    with contextlib.closing(sqlite3.connect(output.runs)) as database, database:
        database.execute("UPDATE parts SET value = ? WHERE experiment = 'toy-quick'", (content,))
    assert context.remember("a/b", lambda: [3]) == [3]
    assert context.remember("a/b", lambda: pytest.fail("computed again")) == [3]
    context.folder.forget_parts()
    assert context.remember("a/b", lambda: [4]) == [4] and other.remember("a/b", lambda: 6) == 5


def test_parts_of_version_01_are_measured_again(cli: Cli):
    """Version 0.1 kept them as JSON files."""
    old = cli.out / "toy-quick" / "parts" / "part-0.json"
    old.parent.mkdir(parents=True)
    old.write_text('{"part": 99.0}')
    assert cli.run("reproduce", "toy").returncode == 0 and cli.computed() == [str(part) for part in range(6)]


@pytest.mark.slow
def test_a_damaged_store_of_runs_leaves_figures_alone(cli: Cli):
    """They keep nothing in it."""
    runs = OutputFolder(cli.out).runs
    runs.parent.mkdir(parents=True)
    runs.write_bytes(b"rotten" * 1000)
    process = cli.run("reproduce", "toy")
    assert process.returncode == 1 and "toy failed: the store of runs" in process.stderr
    block = "import sys; sys.argv[0] = 'isrlu'; from isrlu_lab.cli import main; main()"
    command = [sys.executable, "-c", block, "reproduce", "figure2", "--out", str(cli.out)]
    process = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "300"})
    assert process.returncode == 0 and "is damaged" in one_line_of(process)
    assert runs.read_bytes() == b"rotten" * 1000


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "file"
    output_folder.write(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        output_folder.write(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["file"]


def test_nan_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        result_store.write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not (tmp_path / "x.json").exists()


def test_unknown_name(cli: Cli):
    line = one_line(cli.run("reproduce", "tyo"))
    assert line == "isrlu: unknown experiment 'tyo' (did you mean toy?): known are toy, other"
    assert cli.run("reproduce", "tyo").returncode == 2
    assert not cli.out.exists()


def test_out_is_a_file(cli: Cli, tmp_path: Path):
    file = tmp_path / "file"
    file.touch()
    for out, message in (
        (file, "is not a folder"),
        (file / "below", "Not a directory"),
        (Path("/proc/results"), "cannot write"),
    ):
        process = cli.run("reproduce", out=out)
        assert message in one_line(process) and process.returncode == 2
    assert cli.computed() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(cli: Cli):
    cli.out.mkdir(mode=0o500)
    assert "Permission denied" in one_line(cli.run("reproduce"))


def test_full_disk_before_the_run(cli: Cli):
    limit = 64 << 10
    line = one_line(cli.run("reproduce", preexec_fn=lambda: _limit_files(limit)))
    assert "File too large" in line and cli.computed() == []


def _limit_files(size: int) -> None:
    signal.signal(
        signal.SIGXFSZ, signal.SIG_IGN
    )  # the write then fails with EFBIG, as it fails with ENOSPC on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_file_system_without_locks_is_used_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with OutputFolder(tmp_path).lock():
        pass


@pytest.mark.slow
def test_two_at_once_are_refused(cli: Cli):
    first = cli.start("reproduce", "toy", TOY_SECONDS="0.3")
    deadline = time.monotonic() + 60
    while not cli.parts():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    try:
        assert "another isrlu process is writing in" in one_line(cli.run("reproduce", "toy"))
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=60) == 0
    first.communicate()


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


def test_report_of_nothing(cli: Cli):
    assert "run `isrlu reproduce` first" in one_line(cli.run("report"))


def test_claims_and_tables_refuse_what_a_report_cannot_show():
    with pytest.raises(ValueError, match="needs a reason"):
        Claim("c", "s", "does not")
    with pytest.raises(ValueError, match="unknown verdict"):
        Claim("c", "s", "maybe")
    with pytest.raises(ValueError, match="a row of 1 cells under 2 columns"):
        Table("t", [Column("a"), Column("b")], [["x"]])
    with pytest.raises(ValueError, match="has no rows"):
        Table("t", [Column("a")], [])
    with pytest.raises(ValueError, match="unknown kind"):
        Column("a", "there")
