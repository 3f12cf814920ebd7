"""A grid of independent runs. Stored runs are skipped, an engine executes the others, each result is stored once."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from isrlu_lab.errors import UserError
from isrlu_lab.training.run_spec import RunSpec
from isrlu_lab.training.run_store import Run, RunStore
from isrlu_lab.training.worker import Progress, checkpoint_path


class Engine(Protocol):
    """Executes runs, on this machine or others, in any order."""

    checkpoints: Path

    def run(self, specs: Sequence[RunSpec], tell: Callable[[Progress], None]) -> Iterator[Run]: ...


def run_grid(
    specs: Sequence[RunSpec],
    store: RunStore,
    engine: Engine,
    tell: Callable[[Progress | Run], None] = lambda _: None,
) -> dict[str, Run]:
    """Run the `specs` that are not stored; returns hash -> run for all of them."""
    unique = list({spec.hash: spec for spec in specs}.values())
    stored = store.find(unique)
    finished = {key for key, run in stored.items() if run.status != "crashed"}
    for key in finished:
        _remove_checkpoint(engine, stored[key].spec)  # left by a coordinator that was killed before it removed it
    pending = [spec for spec in unique if spec.hash not in finished]
    if pending:
        for run in engine.run(pending, tell):
            store.add(run)
            if run.status != "crashed":
                _remove_checkpoint(engine, run.spec)
            tell(run)
    return store.find(unique)


def _remove_checkpoint(engine: Engine, spec: RunSpec) -> None:
    checkpoint = checkpoint_path(engine.checkpoints, spec)
    for file in checkpoint.parent.glob(f"{checkpoint.name}*"):  # and temporary files of killed workers
        file.unlink(missing_ok=True)


def make_engine(name: str, source: str, checkpoints: Path, *, workers: int = 0, threads: int = 1) -> Engine:
    """The engine of this name: "local", "ray" (this machine, or RAY_ADDRESS) or "ray:ADDRESS"."""
    kind, _, address = name.partition(":")
    if kind == "local" and not address:
        from isrlu_lab.training.local_engine import LocalEngine

        return LocalEngine(source, checkpoints, workers=workers, threads=threads)
    if kind == "ray":
        from isrlu_lab.training.ray_engine import RayEngine

        full = name if address.startswith("//") else address  # Ray's client addresses are ray://host:port themselves
        return RayEngine(source, checkpoints, address=full or None, threads=threads)
    raise UserError(f"unknown engine {name!r}: known are local, ray, ray:ADDRESS")


def shard(specs: Sequence[RunSpec], part: str) -> list[RunSpec]:
    """Part "i/n" of a grid, for machines that share no files. The n parts are disjoint and together the grid.

    >>> from isrlu_lab.training.mnist.mnist_spec import MnistSpec
    >>> [spec.seed for spec in shard([MnistSpec(seed=seed) for seed in range(5)], "2/3")]
    [1, 4]
    """
    try:
        index, count = map(int, part.split("/"))
    except ValueError:
        raise UserError(f"a shard is i/n, as in 1/4, got {part!r}") from None
    if not 1 <= index <= count:
        raise UserError(f"a shard is i/n with 1 <= i <= n, got {part!r}")
    return list(specs[index - 1 :: count])
