"""The training runs behind a table: every row over several seeds, as one grid in one store."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from isrlu_lab.data import IMAGES, Family, load_any
from isrlu_lab.errors import UserError
from isrlu_lab.experiments.context import Context, NothingStored
from isrlu_lab.training.grid import make_engine, run_grid, shard
from isrlu_lab.training.run_spec import RunSpec
from isrlu_lab.training.run_store import Run, RunReader, RunStore
from isrlu_lab.training.worker import Progress

S = TypeVar("S", bound=RunSpec)
TRAIN_THEM = "train them by the same command without --stored or --shard"
NEEDS_SEEDS = "There are too few seeds to tell: give more with --seeds."


@dataclass(frozen=True)
class Row(Generic[S]):
    """A row of a table: a run spec without seed and data, and the paper's accuracy in percent and loss x 100."""

    spec: S
    accuracy: float | None = None
    loss: float | None = None


@dataclass(frozen=True)
class Study:
    """Rows and their finished runs."""

    rows: list[Row]
    seeds: list[int]
    runs: dict[str, Run]  # by hash
    identity: str
    title: str  # of the data
    full: bool
    family: Family = IMAGES  # of the data

    def of(self, row: Row) -> dict[int, Run]:
        """seed -> run, for the finished runs of this row."""
        found = {seed: self.runs.get(spec.hash) for seed, spec in zip(self.seeds, self._specs(row), strict=True)}
        return {seed: run for seed, run in found.items() if run and run.status == "done"}

    def values(self, row: Row, key: str) -> dict[int, float]:
        """seed -> the value `key` of the run's result, for example best_accuracy or final_loss."""
        return {seed: run.result[key] for seed, run in self.of(row).items()}

    def _specs(self, row: Row) -> list[RunSpec]:
        return [dataclasses.replace(row.spec, seed=seed, data=self.identity) for seed in self.seeds]

    def specs(self) -> list[RunSpec]:
        """All runs of the grid: the first seed of every row, then the second seed of every row, and so on."""
        return [spec for specs in zip(*map(self._specs, self.rows), strict=True) for spec in specs]

    def part(self, rows: Sequence[Row]) -> "Study":
        """The study restricted to `rows`."""
        return dataclasses.replace(self, rows=list(rows))

    @property
    def finished(self) -> set[str]:
        """Hashes of the runs that are done or diverged."""
        return {key for key, run in self.runs.items() if run.status != "crashed"}

    @property
    def crashed(self) -> list[Run]:
        return [run for run in self.runs.values() if run.status == "crashed"]

    @property
    def complete(self) -> bool:
        return self.finished >= {spec.hash for spec in self.specs()}

    @property
    def no_verdict(self) -> str:
        """Why these runs cannot decide the paper's claims, or "" if they can."""
        if not self.full:
            return "The quick preset trains too little to tell: run it with --full."
        if self.identity != self.family.standard:
            return f"This is not {self.family.name} but {self.title}."
        if missing := sum(spec.hash not in self.finished for spec in self.specs()):
            return f"{missing} of the {len(self.specs())} runs are missing: {TRAIN_THEM}."
        if any(len(self.of(row)) < len(self.seeds) for row in self.rows):
            return "Runs diverged: see the notes."
        return ""

    @property
    def marks(self) -> str:
        """Caption suffix for runs of the quick preset or on other data than MNIST: " [quick preset; TITLE]", or ""."""
        found = [] if self.full else ["quick preset"]
        found += [] if self.identity == self.family.standard else [self.title]
        return f" [{'; '.join(found)}]" if found else ""

    @property
    def notes(self) -> list[str]:
        """Notes for the report: preset, data, failed runs, missing runs."""
        runs = sum(len(self.of(row)) for row in self.rows)
        notes = [f"Data: {self.title}. {runs} runs, seeds {', '.join(map(str, self.seeds))}."]
        if not self.full:
            notes.insert(0, "Quick preset: short runs that show that everything works. They do not decide anything.")
        failed = [run for run in self.runs.values() if run.status != "done"]
        notes += [f"{run.spec.label}, seed {run.spec.seed}: {run.status}, {run.reason}." for run in failed]
        missing = {spec.hash: spec for spec in self.specs() if spec.hash not in self.runs}
        if missing:
            seeds: dict[str, list[str]] = {}
            for spec in missing.values():
                seeds.setdefault(spec.label, []).append(str(spec.seed))
            names = "; ".join(f"{label}, seed {', '.join(each)}" for label, each in seeds.items())
            notes.append(f"{len(missing)} runs of the grid are missing ({names}): merge other shards, or {TRAIN_THEM}.")
        return notes

    @property
    def environment(self) -> dict[str, Any]:
        """What the stored result records about its runs. `is_current` reads it in a later command."""
        runs = {"complete": self.complete, "seeds": len(self.seeds), "data": self.identity, "grid": self.digest}
        return {"runs": {**runs, "crashed": len(self.crashed)}}

    @property
    def digest(self) -> str:
        """Digest of all run hashes of the grid. It changes with any row, seed or data set."""
        return hashlib.sha256(" ".join(spec.hash for spec in self.specs()).encode()).hexdigest()[:16]


def check_options(options: Mapping[str, Any]) -> None:
    """Raise UserError for invalid options of `run_study` before anything runs."""
    make_engine(options.get("engine") or "local", "", Path())
    if options.get("shard"):
        shard([], options["shard"])
    if options.get("data"):
        load_any(options["data"])


def run_study(context: Context, rows: Sequence[Row], *, seeds: int | Sequence[int], family: Family = IMAGES) -> Study:
    """Train the runs of `rows` that are not stored yet, and return all runs.

    seeds: how many, unless --seeds says so; or the seeds themselves, whatever --seeds says.
    """
    options = context.options
    chosen = range(options.get("seeds") or seeds) if isinstance(seeds, int) else seeds
    if context.stored:
        return _stored_study(context, rows, list(chosen), family)
    source, reason = family.find(options.get("data"))
    if reason:
        context.folder.warn(f"{reason}; trains on {family.stand_in_name} instead")
    found = load_any(source)
    family.check(found)
    study = Study(list(rows), list(chosen), {}, found.identity, found.title, context.full, family)
    grid = study.specs()
    mine = shard(grid, options["shard"]) if options.get("shard") else grid
    output = context.folder.output
    engine = make_engine(options.get("engine") or "local", source, output.checkpoints)
    with RunStore(output) as store:
        run_grid(mine, store, engine, _GridProgress(context, mine, store))
        study = dataclasses.replace(study, runs=store.find(grid))
    if mine and not any(study.of(row) for row in rows):
        raise UserError(f"no run finished: {'; '.join(sorted({run.reason for run in study.runs.values()}))}")
    for run in study.crashed:
        which = f"{run.spec.label}, seed {run.spec.seed}"
        context.folder.warn(f"{which}: crashed, {run.reason}; the same command tries again")
    return study


def _stored_study(context: Context, rows: Sequence[Row], seeds: list[int], family: Family) -> Study:
    """The study made of stored runs only. Raises NothingStored if there are none.

    Without --data it uses the data set that most of the stored runs were trained on.
    """
    if not context.folder.output.runs.exists():
        raise NothingStored(f"no such store of runs: {context.folder.output.runs}")
    given = family.given(context.options.get("data"))
    with RunReader(context.folder.output.runs) as store:
        if given:
            loaded = load_any(given)
            titles = {loaded.identity: loaded.title}
        else:
            identities = (family.standard, *(run.spec.data for run in store.all(warn=lambda _: None)))
            titles = {each: family.title(each) for each in identities}
        studies = [Study(list(rows), seeds, {}, *each, context.full, family) for each in titles.items()]
        studies = [dataclasses.replace(each, runs=store.find(each.specs())) for each in studies]
    study = max(studies, key=lambda each: len(each.runs))
    if not any(study.of(row) for row in rows):
        raise NothingStored(f"none of the {len(study.specs())} runs is stored in {context.folder.output.runs}")
    return study


def is_current(
    environment: Mapping[str, Any],
    context: Context,
    rows: Callable[[bool], Sequence[Row]],
    seeds: Mapping[bool, int],
    family: Family = IMAGES,
) -> bool:
    """Whether a stored result has all runs of rows(full), at least seeds[full] or --seeds seeds, and the same data."""
    stored = environment.get("runs", {})
    if not stored.get("complete") or stored["seeds"] < (context.options.get("seeds") or seeds[context.full]):
        return False
    source = family.at_hand(context.options.get("data"))
    if source is None and family.stand_in and stored["data"] == load_any(family.stand_in).identity:
        return False  # the standard set may be available by now
    identity = load_any(source).identity if source else stored["data"]
    study = Study(list(rows(context.full)), list(range(stored["seeds"])), {}, identity, "", context.full, family)
    return stored.get("grid") == study.digest


class _GridProgress:
    """Reports the progress of a grid in runs, fractions included."""

    def __init__(self, context: Context, specs: Sequence[RunSpec], store: RunStore) -> None:
        self._context, self._total = context, len(specs)
        stored = store.find(specs).values()
        self._finished = sum(run.status != "crashed" for run in stored)
        self._partly: dict[str, float] = {}

    def __call__(self, event: Progress | Run) -> None:
        self._partly.pop(event.spec.hash, None)
        if isinstance(event, Run):
            self._finished += 1
            text = f"{event.spec.label}, seed {event.spec.seed}: {event.status}"
        else:
            self._partly[event.spec.hash] = event.share
            text = event.line
        done = self._finished + sum(self._partly.values())
        self._context.progress(f"{self._finished}/{self._total} runs; {text}", done, self._total)
