"""The engine on Ray: this machine, or a cluster at an address. Each run is a task of one core, retried by Ray.

A retried run resumes from its checkpoint on one machine, or if the nodes share the output folder. Otherwise it starts
again, with the same result.
"""

import os
import socket
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from isrlu._missing import install_extra
from isrlu_lab import environment
from isrlu_lab.data import load_any
from isrlu_lab.errors import UserError
from isrlu_lab.training.checkpoint import CannotSave
from isrlu_lab.training.run_spec import RunSpec
from isrlu_lab.training.run_store import Run
from isrlu_lab.training.worker import TRIES, Progress, crashed_run, execute, reason_of, set_up_worker

try:
    import ray
except ImportError:
    raise UserError(f"the engine ray needs the package ray: {install_extra('ray')}") from None

CONNECT_SECONDS = 5.0


def check_listening(address: str) -> None:
    """Raise UserError where nothing accepts a connection at "host:port" or "ray://host:port".

    `ray.init` itself tries for minutes. Names without a port ("auto", "local") are left to it.
    """
    parts = urllib.parse.urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UserError(f"no address of Ray: {address} ({error}): an address is HOST:PORT or ray://HOST:PORT") from None
    if parts.scheme not in ("", "ray") or not host or not port:
        return
    # For the local host Ray takes the address that other machines see, and may listen there alone.
    hosts = [host, ray.util.get_node_ip_address()] if host in ("localhost", "127.0.0.1", "::1") else [host]
    for each in hosts:
        try:
            socket.create_connection((each, port), timeout=CONNECT_SECONDS).close()
            return
        except OSError as error:
            reason = error.strerror or error
    raise UserError(
        f"cannot reach Ray at {address}: {reason}: start it there (ray start --head), or give another address"
    )


class RayEngine:
    """Runs on the Ray cluster at `address`; None takes RAY_ADDRESS, or starts Ray on this machine.

    Raises UserError where nothing listens at the address.
    """

    def __init__(self, source: str, checkpoints: Path, *, address: str | None = None, threads: int = 1) -> None:
        check_listening(address or os.environ.get("RAY_ADDRESS", ""))
        self.source, self.checkpoints, self.address, self.threads = source, checkpoints, address, threads

    def run(self, specs: Sequence[RunSpec], tell: Callable[[Progress], None]) -> Iterator[Run]:
        """Yield each run as it ends; Ray's dashboard shows the running ones. Raises CannotSave."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)  # nodes that share the folder see it
        started = not ray.is_initialized()
        if started:
            try:
                ray.init(address=self.address, log_to_driver=False, configure_logging=False)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise UserError(f"cannot reach Ray at {self.address}: {str(error).partition(chr(10))[0]}") from None
        try:
            data = ray.put(load_any(self.source))
            task = ray.remote(num_cpus=self.threads, max_retries=TRIES - 1)(_task)
            pending = {task.remote(spec, data, self.checkpoints, self.threads): spec for spec in specs}
            while pending:
                (finished, *_), _ = ray.wait(list(pending), num_returns=1)
                spec = pending.pop(finished)
                try:
                    yield ray.get(finished)
                except ray.exceptions.RayTaskError as error:
                    if isinstance(error.cause, CannotSave):
                        raise error.cause from None
                    yield Run(spec, "crashed", reason_of(error.cause), environment=environment.capture())
                except ray.exceptions.RayError as error:
                    yield crashed_run(spec, f"its worker died ({type(error).__name__})")
        finally:
            if started:
                ray.shutdown()


def _task(spec: RunSpec, data: object, checkpoints: Path, threads: int) -> Run:
    from isrlu_lab.training.tensors import as_tensors

    set_up_worker(threads)
    return execute(spec, as_tensors(data), checkpoints if checkpoints.is_dir() else None)  # type: ignore[arg-type]
