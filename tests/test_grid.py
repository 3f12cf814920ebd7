"""The grid and its shards: what is done is never done again, and a failure does not stop the others."""

import itertools
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from toy_runs import SPECS, Engine, done

from isrlu_lab.errors import UserError
from isrlu_lab.measure import grid_bench as bench
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.grid import make_engine, run_grid, shard
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.run_store import Run, RunStore
from isrlu_lab.training.worker import Progress, checkpoint_path


@pytest.fixture
def folder(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path / "results")


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
