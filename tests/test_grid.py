"""The store of runs, the grid and its shards: what is done is never done again, nothing is lost, faults are told."""

import gc
import itertools
import json
import os
import platform
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from isrlu_lab.errors import UserError
from isrlu_lab.experiments import results_command
from isrlu_lab.measure import grid_bench as bench
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.grid import make_engine, run_grid, shard
from isrlu_lab.training.kinds import load_spec
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.run_store import Run, RunReader, RunStore
from isrlu_lab.training.worker import Progress, checkpoint_path

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SPECS = [MnistSpec(activation=name, seed=seed) for seed in range(3) for name in ("isrlu", "elu")]


def done(spec: MnistSpec, accuracy: float = 99.0) -> Run:
    return Run(spec, "done", result={"best_accuracy": accuracy}, environment={"threads": 1})


@pytest.fixture
def folder(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path / "results")


class Engine:
    """Ends every run as `outcome` says and notes which ones it was given."""

    def __init__(self, checkpoints: Path, outcome: Callable[[MnistSpec], Run] = done) -> None:
        self.checkpoints, self.outcome, self.given = checkpoints, outcome, []

    def run(self, specs: Sequence[MnistSpec], tell: Callable[[Progress], None]) -> Iterator[Run]:
        self.given = list(specs)
        yield from map(self.outcome, specs)


# The store


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


# The grid


def test_what_is_done_is_not_done_again(folder: OutputFolder, tmp_path: Path) -> None:
    first, second = Engine(tmp_path), Engine(tmp_path)
    with RunStore(folder) as store:
        store.add(done(SPECS[2]))
        assert len(run_grid([*SPECS, *SPECS], store, first)) == len(SPECS)
        run_grid(SPECS, store, second)
    assert first.given == [spec for spec in SPECS if spec != SPECS[2]]
    assert second.given == []


def test_failures_are_recorded_and_do_not_stop_the_others(folder: OutputFolder, tmp_path: Path) -> None:
    def outcome(spec: MnistSpec) -> Run:
        status = {0: "crashed", 1: "diverged"}.get(spec.seed, "done")
        return Run(spec, status, "" if status == "done" else f"reason of {status}")

    with RunStore(folder) as store:
        found = run_grid(SPECS, store, Engine(tmp_path, outcome))
        assert [found[spec.hash].status for spec in SPECS] == ["crashed"] * 2 + ["diverged"] * 2 + ["done"] * 2
        assert found[SPECS[0].hash].reason == "reason of crashed"
        again = Engine(tmp_path)
        run_grid(SPECS, store, again)
    assert again.given == SPECS[:2], "a crash is tried again, a divergence is a result"


def test_a_checkpoint_beside_its_stored_result_goes(folder: OutputFolder, tmp_path: Path) -> None:
    """The coordinator was killed after it stored the result."""
    engine = Engine(tmp_path)
    checkpoint_path(tmp_path, SPECS[0]).write_text("state")
    with RunStore(folder) as store:
        store.add(done(SPECS[0]))
        run_grid(SPECS, store, engine)
    assert SPECS[0] not in engine.given
    assert not list(tmp_path.glob("*.pt"))


def test_checkpoints_go_when_the_result_is_stored(folder: OutputFolder, tmp_path: Path) -> None:
    def outcome(spec: MnistSpec) -> Run:
        checkpoint_path(tmp_path, spec).write_text("state")
        checkpoint_path(tmp_path, spec).with_suffix(".pt.1.part").write_text("half of a state")
        return Run(spec, "crashed" if spec.seed == 0 else "done")

    with RunStore(folder) as store:
        run_grid(SPECS, store, Engine(tmp_path, outcome))
    kept = {f"{spec.hash}{ending}" for spec in SPECS if spec.seed == 0 for ending in (".pt", ".pt.1.part")}
    assert {file.name for file in tmp_path.glob("*.pt*")} == kept


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_shards_are_the_grid(count: int) -> None:
    parts = [shard(SPECS, f"{index}/{count}") for index in range(1, count + 1)]
    assert sorted((spec for part in parts for spec in part), key=SPECS.index) == SPECS
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b", "1/2/3"])
def test_a_shard_that_is_none(part: str) -> None:
    with pytest.raises(UserError, match="a shard is i/n"):
        shard(SPECS, part)


def test_an_unknown_engine(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown engine 'slurm': known are local, ray, ray:ADDRESS"):
        make_engine("slurm", "digits", tmp_path)


@pytest.mark.parametrize("form", ["ray:127.0.0.1:{}", "ray:localhost:{}", "ray://127.0.0.1:{}"])
def test_where_nothing_listens_there_is_no_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = form.format(server.getsockname()[1])
        make_engine(name, "digits", tmp_path)  # something listens: Ray itself has to say what it is
    address = name if "//" in name else name.removeprefix("ray:")
    with pytest.raises(UserError, match=f"^cannot reach Ray at {address}: Connection refused: start it there"):
        make_engine(name, "digits", tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UserError, match=f"^cannot reach Ray at {address}: "):
        make_engine("ray", "digits", tmp_path)


@pytest.mark.parametrize("name", ["ray", "ray:auto", "ray:local", "ray:some-host", "ray:anyscale://cluster:1"])
def test_addresses_that_ray_resolves_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("connected"))
    make_engine(name, "digits", tmp_path)


def test_a_port_that_is_no_number(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(UserError, match=r"no address of Ray: host:port .*an address is HOST:PORT or ray://HOST:PORT"):
        make_engine("ray:host:port", "digits", tmp_path)


def test_throughput_is_measured_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.data, "find_or_digits", lambda folder: ("digits", ""))
    seconds = itertools.count()  # a clock that goes on by a second when it is read
    monkeypatch.setattr(bench.time, "perf_counter", lambda: next(seconds))
    started: list[tuple[int, int]] = []

    class Told(bench.LocalEngine):
        """An engine whose runs report 100 and 300 images per second times their seed + 1, and train nothing."""

        def run(self, specs: Sequence[MnistSpec], tell: Callable[[Progress], None]) -> Iterator[Run]:
            started.append((self.workers, self.threads))
            for spec in specs:
                tell(Progress(spec, 0.5, 100.0 * (spec.seed + 1), ""))
                tell(Progress(spec, 1.0, 300.0 * (spec.seed + 1), ""))
                yield done(spec)

    monkeypatch.setattr(bench, "LocalEngine", Told)
    monkeypatch.setattr(bench.environment, "threads", lambda: 3)
    found = bench.run(None, 1, steps=2, rounds=2, say=lambda text: None, warn=pytest.fail)
    assert found["plain"] == [2 * 100.0] * 2, "2 steps of 100 images in a second"
    assert [threads for _, threads in started] == [3, 1] * 2
    expected = [sum(200.0 * (seed + 1) for seed in range(workers)) for workers, _ in started]
    assert [found["one run"], found["grid"]] == [expected[0::2], expected[1::2]]
    assert bench.ratio({"plain": [1.0, 2.0, 4.0], "one run": [1.0] * 3, "grid": [2.0, 6.0, 8.0]}) == 2.0


FAULTS = """
import resource, torch
from isrlu_lab.training.worker import set_up_worker
if {worker}:
    set_up_worker(1)
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for warm in (True, False):
    before = faults()
    for _ in range(10):
        torch.ones(16 << 20)  # 64 MiB
print(faults() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_a_worker_keeps_its_memory() -> None:
    def faults(worker: bool) -> int:
        command = [sys.executable, "-c", FAULTS.format(worker=worker)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert faults(worker=True) < 100 < faults(worker=False)
