"""The engine for one machine: worker processes of one thread each. For these networks that is faster than one run on
all cores.

A worker keeps the data in memory and receives one run after the other over a pipe. A worker that dies is replaced, and
its run resumes from the last checkpoint. A worker exits when its coordinator dies, so no run is trained twice.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from isrlu_lab import environment
from isrlu_lab.training.checkpoint import CannotSave
from isrlu_lab.training.run_spec import RunSpec
from isrlu_lab.training.run_store import Run
from isrlu_lab.training.worker import TRIES, Progress, crashed_run, execute, set_up_worker

_CONTEXT = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork


class LocalEngine:
    """`workers` processes of `threads` threads each; by default one process of one thread per core."""

    def __init__(self, source: str, checkpoints: Path, *, workers: int = 0, threads: int = 1) -> None:
        self.source, self.checkpoints, self.threads = source, checkpoints, threads
        self.workers = workers or max(1, environment.threads() // threads)

    def run(self, specs: Sequence[RunSpec], tell: Callable[[Progress], None]) -> Iterator[Run]:
        """Yield each run as it ends; raises CannotSave."""
        waiting, tries = deque(specs), Counter[str]()
        workers = [_Worker(self) for _ in range(min(self.workers, len(specs)))]
        try:
            while waiting or any(worker.spec for worker in workers):
                for number, worker in enumerate(workers):
                    if worker.dead:
                        workers[number] = _Worker(self)
                    if workers[number].spec is None and waiting:
                        workers[number].start(waiting.popleft())
                busy: dict[Any, _Worker] = {worker.connection: worker for worker in workers if worker.spec}
                for connection in wait(list(busy)):
                    spec, message = busy[connection].receive()
                    if isinstance(message, Progress):
                        tell(message)
                    elif isinstance(message, Run):
                        yield message
                    elif isinstance(message, CannotSave):
                        raise message
                    else:
                        tries[spec.hash] += 1
                        if tries[spec.hash] < TRIES:
                            waiting.appendleft(spec)
                        else:
                            yield crashed_run(spec, message)
        finally:
            for worker in workers:
                worker.stop()


class _Worker:
    """The coordinator's side of a worker: its process, its pipe, and its current run."""

    def __init__(self, engine: LocalEngine) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        arguments = (theirs, engine.source, engine.checkpoints, engine.threads)
        self.process: BaseProcess = _CONTEXT.Process(target=_serve, args=arguments, daemon=True)
        with _interrupts_blocked():
            self.process.start()
        theirs.close()
        self.spec: RunSpec | None = None
        self.dead = False

    def start(self, spec: RunSpec) -> None:
        self.spec = spec
        with contextlib.suppress(OSError):  # it has died: `receive` reports that
            self.connection.send(spec)

    def receive(self) -> tuple[RunSpec, Progress | Run | CannotSave | str]:
        """The current run and the message received; if the worker died, how it died."""
        spec = self.spec
        assert spec is not None, "receive() needs a worker with a run"
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self.stop()
            self.spec, self.dead = None, True
            code = self.process.exitcode or 0
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            return spec, f"its worker {how}"
        if isinstance(message, Run):
            self.spec = None
        return spec, message

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def _serve(connection: Connection, source: str, checkpoints: Path, threads: int) -> None:
    threading.Thread(target=_die_with_parent, daemon=True).start()
    from isrlu_lab.data import load_any
    from isrlu_lab.training.tensors import as_tensors

    set_up_worker(threads)
    tensors = as_tensors(load_any(source))
    while True:
        try:
            spec = connection.recv()
        except EOFError:
            return
        try:
            connection.send(execute(spec, tensors, checkpoints, connection.send))
        except CannotSave as error:
            connection.send(error)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started in this block ignore Ctrl-C; the coordinator handles it."""
    if not hasattr(signal, "pthread_sigmask"):  # not POSIX
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
