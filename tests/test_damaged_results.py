"""Stored results that are damaged, cut or of another shape: named, set aside and made again."""

import contextlib
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from toy_cli import Cli, one_line, one_line_of

from isrlu_lab import environment, output_folder
from isrlu_lab.experiments import result_store
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Column, Result, Table
from isrlu_lab.experiments.result_store import Damaged, Folder, Record, Store
from isrlu_lab.output_folder import OutputFolder, StoreError

pytest.importorskip("typer")
RESULTS = Path(__file__).parents[1] / "docs" / "results"


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
