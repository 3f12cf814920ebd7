"""SIGKILL of the coordinator, of a worker, of a Ray worker: the grid completes, no result lost, none twice."""

import contextlib
import dataclasses
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import mnist_program
import pytest
import torch

from isrlu_lab import data
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.checkpoint import CannotSave
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.local_engine import LocalEngine, _Worker
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.mnist.train_mnist import train
from isrlu_lab.training.run_store import Run, RunStore

EPOCHS = 6
NO_PLACE = r"^cannot write the checkpoint /proc/\w+\.pt: No such file or directory; "  # no file can be made in /proc
TESTS = Path(__file__).parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]


@functools.cache
def undisturbed(epochs: int) -> dict[str, dict]:
    """hash -> history of each run, trained here without any interruption, but for the time it took."""
    torch.set_num_threads(1)
    tensors = ImageTensors(data.digits())
    runs = {spec.hash: train(spec, tensors) for spec in mnist_program.specs(epochs)}
    return {key: dataclasses.asdict(dataclasses.replace(history, seconds=0.0)) for key, history in runs.items()}


def stored(out: Path) -> list[Run]:
    with RunStore(OutputFolder(out)) as store:
        return list(store.all())


def histories(out: Path) -> dict[str, dict]:
    return {run.spec.hash: {**run.result["history"], "seconds": 0.0} for run in stored(out)}


class Program:
    """The grid in a process of its own, and the lines it has printed so far."""

    def __init__(self, engine: str, out: Path) -> None:
        command = [sys.executable, mnist_program.__file__, engine, str(out), str(EPOCHS)]
        descriptor, log = tempfile.mkstemp(".log", dir=out.parent)
        with open(descriptor, "w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        self.log = Path(log)

    def lines(self) -> list[str]:
        """Whole ones: the last may be half written."""
        return self.log.read_text().rpartition("\n")[0].splitlines()

    def wait_for(self, wanted: Callable[[list[str]], bool], seconds: float = 180) -> list[str]:
        end = time.monotonic() + seconds
        while not wanted(self.lines()):
            assert self.process.poll() is None and time.monotonic() < end, "\n".join(self.lines())
            time.sleep(0.02)
        return self.lines()

    def finish(self) -> list[str]:
        assert self.process.wait(300) == 0, "\n".join(self.lines())
        assert self.lines()[-1] == "finished"
        return self.lines()


@contextlib.contextmanager
def program(engine: str, out: Path) -> Iterator[Program]:
    started = Program(engine, out)
    try:
        yield started
    finally:
        family = descendants(started.process.pid)
        for pid in (started.process.pid, *family):
            with contextlib.suppress(ProcessLookupError):
                send(signal.SIGKILL, pid)
        started.process.wait()


def descendants(pid: int) -> list[int]:
    """The processes that `pid` started, and they, and so on."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found: list[int] = []
    for known in [pid, *found]:
        found += [child for child, parent in parents.items() if parent == known]
    for known in found:  # grows while it is walked
        found += [child for child, parent in parents.items() if parent == known and child not in found]
    return found


def named(pids: list[int], text: str) -> list[int]:
    """Those processes whose command line has `text`."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if text in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


def state(pid: int) -> str:
    """R for running, S for asleep, T for stopped, Z for a zombie..., as /proc has it; X for a process that is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "X"


def send(number: signal.Signals, *pids: int) -> None:
    for pid in pids:
        os.kill(pid, number)


def epochs_kept(out: Path) -> dict[str, int]:
    """hash -> epochs done, of each checkpoint."""
    return {path.stem: torch.load(path)["epoch"] for path in OutputFolder(out).checkpoints.glob("*.pt")}


def test_sigkill_of_the_coordinator(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with program("local", out) as first:
        first.wait_for(lambda lines: any(line.startswith("done") for line in lines))
        workers = named(descendants(first.process.pid), "spawn_main")
        assert len(workers) == 2
        family = first.process.pid, *workers

        def a_run_in_its_midst_stands_still(_: list[str]) -> bool:
            send(signal.SIGSTOP, *family)
            while any(state(pid) not in "TXZ" for pid in family):  # stopped, or at its end
                time.sleep(0.001)
            found = any(epoch < EPOCHS - 1 for epoch in epochs_kept(out).values())
            if not found:
                send(signal.SIGCONT, *family)
            return found

        first.wait_for(a_run_in_its_midst_stands_still)
        first.process.kill()
        first.process.wait()
        send(signal.SIGCONT, *workers)
        end = time.monotonic() + 30
        while any(state(pid) not in "XZ" for pid in workers):
            assert time.monotonic() < end, "workers outlive their coordinator"
            time.sleep(0.05)
    before = {run.spec.hash: run.finished for run in stored(out)}
    assert 1 <= len(before) < len(mnist_program.SEEDS)
    kept = {key: epoch for key, epoch in epochs_kept(out).items() if key not in before and epoch < EPOCHS}
    with program("local", out) as second:
        lines = second.finish()
    first_shares = {line.split()[1]: float(line.split()[2]) for line in reversed(lines) if line.startswith("progress")}
    assert kept and all(first_shares[key] > kept[key] / EPOCHS for key in kept), "a run goes on from its checkpoint"
    after = {run.spec.hash: run for run in stored(out)}
    assert {key: after[key].finished for key in before} == before, "what was done was done again"
    assert histories(out) == undisturbed(EPOCHS), "an interrupted run ends with the same bits"
    ended = [line.split()[1] for line in (*first.lines(), *lines) if line.startswith("done")]
    assert len(ended) == len(set(ended))
    assert not list(OutputFolder(out).checkpoints.iterdir())


def test_sigkill_of_a_worker(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with program("local", out) as running:
        running.wait_for(lambda lines: any(line.startswith("progress") for line in lines))
        victim = named(descendants(running.process.pid), "spawn_main")[0]
        os.kill(victim, signal.SIGKILL)
        lines = running.finish()
    assert sorted(line.split()[0] for line in lines if not line.startswith("progress")) == ["done"] * 4 + ["finished"]
    assert histories(out) == undisturbed(EPOCHS)


def test_a_run_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed: set[int] = set()
    with program("local", out) as running:

        def kill_whoever_is_there(lines: list[str]) -> bool:
            for pid in named(descendants(running.process.pid), "spawn_main"):
                if pid not in killed:
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)
            return sum(line.startswith("crashed") for line in lines) >= 2

        lines = running.wait_for(kill_whoever_is_there)
        assert any("its worker was killed by signal 9, 3 times" in line for line in lines)
        running.finish()
    assert len(stored(out)) == 4
    with program("local", out) as again:
        again.finish()
    assert [run.status for run in stored(out)] == ["done"] * 4
    assert histories(out) == undisturbed(EPOCHS)


def test_without_a_place_for_checkpoints_the_grid_stops_in_one_line() -> None:
    engine = LocalEngine("digits", Path("/proc"), workers=2)
    with pytest.raises(CannotSave, match=NO_PLACE):
        list(engine.run(mnist_program.specs(EPOCHS), lambda _: None))


def test_a_worker_that_starts_does_not_hear_interrupts(tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal; the coordinator alone ends the grid, without a worker's traceback."""
    worker = _Worker(LocalEngine("digits", tmp_path))
    for _ in range(20):
        os.kill(worker.process.pid, signal.SIGINT)  # type: ignore[arg-type]
        time.sleep(0.05)
    worker.connection.close()
    worker.process.join(60)
    assert worker.process.exitcode == 0


class Untrainable(MnistSpec):
    trainer = "no_such_trainer"


def test_faults_of_ray_tasks(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    from isrlu_lab.training.ray_engine import RayEngine

    with ray.init(log_to_driver=False, configure_logging=False, runtime_env={"env_vars": {"PYTHONPATH": str(TESTS)}}):
        (run,) = RayEngine("digits", tmp_path / "new").run([Untrainable(data="digits")], print)
        assert (run.status, run.reason) == ("crashed", "ModuleNotFoundError: No module named 'no_such_trainer'")
        with pytest.raises(CannotSave, match=NO_PLACE):
            list(RayEngine("digits", Path("/proc")).run(mnist_program.specs(1), print))


def test_sigkill_of_a_ray_worker(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    out = tmp_path / "out"
    with program("ray", out) as running:
        victims: list[int] = []

        def at_work_with_a_checkpoint(_: list[str]) -> bool:
            victims[:] = named(descendants(running.process.pid), "ray::_task")
            return bool(victims) and any(OutputFolder(out).checkpoints.glob("*.pt"))

        running.wait_for(at_work_with_a_checkpoint)
        os.kill(victims[0], signal.SIGKILL)
        lines = running.finish()
    assert sorted(line.split()[0] for line in lines if line.startswith(("done", "crashed"))) == ["done"] * 4
    assert histories(out) == undisturbed(EPOCHS), "Ray's runs have the bits of local ones"
