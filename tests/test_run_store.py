"""The store of runs: nothing is lost, faults are told, stores of other machines are merged."""

import gc
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from toy_runs import SPECS, Engine, done

from isrlu_lab.errors import UserError
from isrlu_lab.experiments import results_command
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.grid import run_grid
from isrlu_lab.training.kinds import load_spec
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.run_store import Run, RunReader, RunStore

RESULTS = Path(__file__).parents[1] / "docs" / "results"


@pytest.fixture
def folder(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path / "results")


def test_what_is_stored_is_found(folder: OutputFolder) -> None:
    with RunStore(folder) as store:
        store.add(done(SPECS[0], 99.25))
    with RunStore(folder) as store:
        found = store.find(SPECS)
    assert list(found) == [SPECS[0].hash]
    run = found[SPECS[0].hash]
    assert run.spec == SPECS[0] and run.result == {"best_accuracy": 99.25} and run.finished


def test_a_store_that_can_not_be_written_is_read(folder: OutputFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunStore(folder) as store:
        store.add(done(SPECS[0]))
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    before = sorted(folder.runs.parent.iterdir())
    with RunReader(folder.runs) as store:
        assert [run.spec for run in store.all()] == [SPECS[0]]
        assert sorted(folder.runs.parent.iterdir()) == before, "nothing is made beside it"


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        ("spec", "[]", "Expected `object`, got `array`"),
        ("spec", '{"kind": "gan"}', "unknown kind of run 'gan': known are rnn"),
        ("spec", '{"kind": []}', "unhashable"),
        ("spec", '{"activation": "swish"}', "unknown activation 'swish'"),
        ("spec", '{"epochs": "17"}', "Expected `int`, got `str` - at `$.epochs`"),
        ("status", "gone", "at `$.status`"),
        ("result", "null", "Expected `object`, got `null`"),
        ("result", '{"best_accuracy": "high"}', "Expected `float`, got `str` - at `$.result.best_accuracy`"),
        ("result", '{"history": [1]}', "at `$.result.history`"),
        ("environment", '{"cpu": ' + "[" * 100_000, "recursion"),
    ],
)
def test_a_row_that_is_no_run_is_named_with_its_store(
    folder: OutputFolder, capsys: pytest.CaptureFixture[str], column: str, text: str, reason: str
) -> None:
    gc.collect()  # else a destructor of an earlier test may run at the depth of the recursion, and complain on stderr
    with RunStore(folder) as store:
        store.add(done(SPECS[0]))
        store.add(done(SPECS[1]))
    path, key = folder.runs, SPECS[0].hash
    database = sqlite3.connect(path)
    with database:
        database.execute(f"UPDATE runs SET {column} = ? WHERE hash = ?", (text, key))
    database.close()
    with RunStore(folder) as store:
        for read in (lambda: list(store.all()), lambda: store.find(SPECS)):
            with pytest.raises(UserError, match=f"run {key} in the store of runs .* is damaged") as caught:
                read()
            assert str(path) in str(caught.value) and reason in str(caught.value) and "\n" not in str(caught.value)
    assert results_command.show(folder.root, None) == 1, "the others are shown"
    shown = capsys.readouterr()
    assert SPECS[1].hash in shown.out and key not in shown.out
    assert shown.err.startswith(f"isrlu: run {key} in the store of runs {path} is damaged")


def test_runs_on_standard_output_are_json_alone(folder: OutputFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with RunStore(folder) as store:
        store.add(done(SPECS[0]))
    assert results_command.show(folder.root, Path("-")) == 0
    shown = capsys.readouterr()
    assert [run["hash"] for run in json.loads(shown.out)["runs"]] == [SPECS[0].hash] and SPECS[0].hash in shown.err


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/runs.json")), ids=lambda path: path.parent.name)
def test_stored_runs_load(folder: OutputFolder, path: Path) -> None:
    runs = json.loads(path.read_text())["runs"]
    with RunStore(folder) as store:
        for run in runs:
            fields = {key: run[key] for key in ("status", "reason", "result", "environment", "finished")}
            store.add(Run(load_spec(run["spec"]), **fields))
        found = {each.spec.hash: each for each in store.all()}
    assert list(found) and {run["hash"]: run["result"] for run in runs} == {key: r.result for key, r in found.items()}


@pytest.mark.parametrize("content", [b"", b"short", b"no database at all" * 100], ids=["empty", "short", "long"])
def test_a_file_that_is_no_database_is_not_merged(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"notes\.txt is damaged \(it is no SQLite database\)"):
        results_command.merge([file], tmp_path / "mine")
    assert not (tmp_path / "mine").exists() and file.read_bytes() == content


def test_a_database_of_something_else_is_not_merged(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "mail.sqlite")
    database.execute("CREATE TABLE mail (body TEXT)")
    database.close()
    with pytest.raises(UserError, match=r"mail\.sqlite is an SQLite database, but no store of runs"):
        results_command.merge([tmp_path / "mail.sqlite"], tmp_path / "mine")


def test_a_missing_store_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such store of runs"):
        results_command.merge([tmp_path / "nowhere"], tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_result_is_stored_once(folder: OutputFolder) -> None:
    with RunStore(folder) as store:
        store.add(done(SPECS[0]))
        for status in ("done", "crashed", "diverged"):
            with pytest.raises(UserError, match=f"already holds a result of run {SPECS[0].hash}"):
                store.add(Run(SPECS[0], status))
        assert [run.status for run in store.all()] == ["done"]


def test_a_crash_gives_way_to_a_result(folder: OutputFolder) -> None:
    with RunStore(folder) as store:
        store.add(Run(SPECS[0], "crashed", "its worker was killed by signal 9, 3 times"))
        store.add(done(SPECS[0]))
        assert [(run.status, run.reason) for run in store.all()] == [("done", "")]


def test_runs_can_be_queried_in_sql(folder: OutputFolder) -> None:
    with RunStore(folder) as store:
        for number, spec in enumerate(SPECS):
            store.add(done(spec, 99.0 + number / 100))
    database = sqlite3.connect(folder.runs)
    rows = database.execute("SELECT activation, max(best_accuracy) FROM summary GROUP BY 1 ORDER BY 1").fetchall()
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()
    assert rows == [("elu", 99.05), ("isrlu", 99.04)]


def test_one_process_writes_others_read(folder: OutputFolder) -> None:
    with RunStore(folder) as store:
        store.add(done(SPECS[0]))
        with pytest.raises(UserError, match=f"another isrlu process is writing in {folder.root}: wait for it"):
            RunStore(OutputFolder(folder.root))
        with RunStore(folder) as nested:  # the holder of the lock may take it again
            assert len(nested) == 1
        with RunReader(folder.runs) as reader:
            assert len(list(reader.all())) == 1
        with pytest.raises(UserError, match="another isrlu process"):
            results_command.merge([folder.runs], folder.root)
    with RunStore(OutputFolder(folder.root)):
        pass


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"short", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_store_is_named_and_kept(folder: OutputFolder, content: bytes) -> None:
    folder.runs.parent.mkdir(parents=True)
    folder.runs.write_bytes(content)
    with pytest.raises(UserError, match=r"runs\.sqlite is damaged \(.*\): move it away") as caught:
        RunStore(folder)
    assert "\n" not in str(caught.value)
    assert folder.runs.read_bytes() == content


def test_damaged_pages_are_found(folder: OutputFolder) -> None:
    with RunStore(folder) as store:
        for spec in SPECS:
            store.add(Run(spec, "done", result={"history": {"loss": list(range(2000))}}))
    content = bytearray(folder.runs.read_bytes())
    content[8192:16384] = b"\x5a" * 8192
    folder.runs.write_bytes(content)
    with pytest.raises(UserError, match=r"runs\.sqlite is damaged"):
        RunStore(folder)


def test_a_column_that_somebody_added_is_passed_over(folder: OutputFolder) -> None:
    with RunStore(folder) as store:
        store.add(done(SPECS[0]))
    database = sqlite3.connect(folder.runs)
    with database:
        database.execute("ALTER TABLE runs ADD COLUMN remark TEXT")
        database.execute("ALTER TABLE parts ADD COLUMN remark TEXT")
    database.close()
    with RunStore(folder) as store:
        store.add(done(SPECS[1]))
        assert store.remember("toy-quick", "a", lambda: 1) == store.remember("toy-quick", "a", lambda: 2) == 1
        assert {run.spec.hash for run in store.all()} == set(store.find(SPECS)) == {each.hash for each in SPECS[:2]}


def test_a_store_of_another_format_is_refused(folder: OutputFolder) -> None:
    with RunStore(folder):
        pass
    database = sqlite3.connect(folder.runs)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(UserError, match="has format 99, but this isrlu knows 1"):
        RunStore(folder)


FULL_DISK = """
import resource, sys
from pathlib import Path
from isrlu_lab.errors import UserError
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.run_store import Run, RunStore
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    with RunStore(OutputFolder(Path(sys.argv[1]))) as store:
        for seed in range(100):
            store.add(Run(MnistSpec(seed=seed), "done", result={"history": {"loss": [0.5] * 2000}}))
            print(seed, flush=True)
except UserError as error:
    sys.exit(f"isrlu: {error}")
"""


def test_a_full_disk_is_one_line_and_loses_nothing(folder: OutputFolder) -> None:
    """The disk is full for every file of more than 200 kB."""
    ended = subprocess.run([sys.executable, "-c", FULL_DISK, folder.root], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert (
        ended.stderr.startswith(f"isrlu: cannot use the store of runs {folder.runs}: ")
        and ended.stderr.count("\n") == 1
    )
    stored = [int(line) for line in ended.stdout.split()]
    assert stored, "some runs fitted"
    with RunStore(folder) as store:
        assert sorted(run.spec.seed for run in store.all()) == stored


def test_merge_takes_what_is_missing(folder: OutputFolder, tmp_path: Path) -> None:
    other = OutputFolder(tmp_path / "other").runs
    with RunStore(OutputFolder(tmp_path / "other")) as theirs:
        theirs.add(done(SPECS[0], 1.0))
        theirs.add(done(SPECS[1], 2.0))
        theirs.add(done(SPECS[2], 3.0))
        theirs.add(Run(SPECS[3], "crashed", "no memory"))
    with RunStore(folder) as mine:
        mine.add(done(SPECS[0], 99.0))
        mine.add(Run(SPECS[1], "crashed", "no memory"))
        assert mine.merge(other) == 3
        assert mine.merge(other) == 0
        found = mine.find(SPECS)
    assert [found[spec.hash].result.get("best_accuracy") for spec in SPECS[:4]] == [99.0, 2.0, 3.0, None]
    with RunStore(folder) as mine, pytest.raises(UserError, match="no such store of runs"):
        mine.merge(tmp_path / "nothing.sqlite")


class _Revised(MnistSpec):
    protocol = 2


def test_a_run_of_another_protocol_is_left_out(
    folder: OutputFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its specification is the same, but the trainer made something else of it."""
    with RunStore(OutputFolder(tmp_path / "old")) as old:
        old.add(done(_Revised(seed=1)))
        old.add(done(SPECS[0]))
    assert results_command.merge([tmp_path / "old"], folder.root) == 1
    shown = capsys.readouterr()
    assert "1 runs from" in shown.out.replace("\n", " ")
    assert f"run {_Revised(seed=1).hash} in the store" in shown.err
    assert f"its specification has the hash {MnistSpec(seed=1).hash}" in shown.err
    with RunReader(folder.runs) as store:
        assert [run.spec for run in store.all()] == [SPECS[0]]


def test_runs_written_as_json_are_merged(
    folder: OutputFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `results show --json` writes, docs/results/*/runs.json among it, is a store that can be merged."""
    with RunStore(OutputFolder(tmp_path / "theirs")) as theirs:
        theirs.add(done(SPECS[0], 1.0))
        theirs.add(done(_Revised(seed=1)))
    file = tmp_path / "runs.json"
    results_command.show(tmp_path / "theirs", file)
    written = json.loads(file.read_text())
    assert [run["hash"] for run in written["runs"]] == [SPECS[0].hash]
    wrong_hash = {**written["runs"][0], "hash": "0" * 16}
    file.write_text(json.dumps({"runs": [wrong_hash, *written["runs"]]}))
    capsys.readouterr()
    assert results_command.merge([file], folder.root) == 1
    assert f"run {'0' * 16} in the store of runs" in capsys.readouterr().err
    with RunReader(folder.runs) as mine, RunReader(OutputFolder(tmp_path / "theirs").runs) as theirs:
        assert mine.find(SPECS) == theirs.find(SPECS)


@pytest.mark.parametrize("content", ["", "[]", '{"runs": 1}', '{"runs": [{"hash": "x"}]}'])
def test_json_of_something_else_is_not_merged(tmp_path: Path, content: str) -> None:
    file = tmp_path / "notes.json"
    file.write_text(content)
    with pytest.raises(UserError, match=r"notes\.json is no file of runs \(.*\): give one of `isrlu results show"):
        results_command.merge([file], tmp_path / "mine")
    with pytest.raises(UserError, match=r"cannot read the runs in .*nothing\.json \(No such file"):
        results_command.merge([tmp_path / "nothing.json"], tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


VERSION_01 = """
CREATE TABLE runs (
    hash TEXT PRIMARY KEY, spec TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
    result TEXT NOT NULL, environment TEXT NOT NULL, finished TEXT NOT NULL
);
CREATE VIEW summary AS SELECT hash, json_extract(spec, '$.architecture') AS architecture FROM runs;
PRAGMA user_version = 1;
"""


def test_a_store_of_version_01_is_read_and_resumed(folder: OutputFolder, tmp_path: Path) -> None:
    folder.runs.parent.mkdir(parents=True)
    database = sqlite3.connect(folder.runs)
    database.executescript(VERSION_01)
    spec = '{"architecture": 1, "activation": "elu", "seed": 1}'
    row = (SPECS[3].hash, spec, "done", "", '{"best_accuracy": 99.5}', "{}", "2025-11-01T00:00:00+00:00")
    with database:
        database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    database.close()
    with RunReader(folder.runs) as store:
        assert [(run.spec, run.result) for run in store.all()] == [(SPECS[3], {"best_accuracy": 99.5})]
    engine = Engine(tmp_path)
    with RunStore(folder) as store:
        run_grid(SPECS, store, engine)
        assert store.remember("toy", "key", lambda: 3) == 3
    assert engine.given == [spec for spec in SPECS if spec != SPECS[3]]
