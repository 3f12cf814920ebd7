"""Beyond the paper: ISRU in LSTM and GRU. Speed of the gates, speed of the layers against torch.nn, and training.

Full: all sizes, 5 seeds per training run. Quick: one size, one seed, short runs. An interrupted measurement resumes.
Training runs use the same grid and store as the MNIST tables.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import isrlu
from isrlu_lab.experiments import difference_table, figure_style, numbers, stats, study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Column, Figure, Result, Table, claim
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.measure import recurrent_bench as bench
from isrlu_lab.training.recurrent.recurrent_spec import GATES, LAYERS, TASKS, RecurrentSpec

GATES_CAPTION, LAYERS_CAPTION = "The gates' kernel alone", "Layers of"
SEEDS = {True: 5, False: 1}
ROUNDS = {True: 25, False: 7}
UNITS = {"rows": "test accuracy, %", "adding": "mean squared error"}
COLOURS = {"isru": "blue", "exact": "vermillion"}
GOALS = {"rows": 98.0, "adding": 0.02}  # % accuracy to reach; mean squared error that counts as solved
MARGIN = 0.3  # percentage points of accuracy that ISRU may lose and still count as a replacement


def run(context: Context) -> Result:
    """Time gates and layers, train both tasks, and compare ISRU with exact gates."""
    speed_tables, speed_claim, notes = _stored_speed(context.previous) if context.stored else _measure_speed(context)
    found = study.run_study(context, rows(context.full), seeds=SEEDS[context.full])
    return Result(
        [*speed_tables, *(_learning_table(found, task) for task in TASKS), *_differences_table(found)],
        [_quality(found), speed_claim],
        [_curves(context, found, task, layer) for task in TASKS for layer in LAYERS],
        [*found.notes, *notes],
        seeds=found.seeds,
        environment=found.environment,
    )


def _measure_speed(context: Context) -> tuple[list[Table], Claim, list[str]]:
    """Time gates and layers. Returns tables, claim and notes."""
    rounds = ROUNDS[context.full]
    sizes: dict[str, Any] = {} if context.full else {"batches": (1,), "hidden": (64,)}
    simds = isrlu.simd_available()
    gates = context.remember(
        f"gates-{'-'.join(simds)}",
        lambda: [r.to_dict() for r in bench.run_gates(simds, rounds=rounds, progress=context.progress)],
    )
    layers = context.remember(
        "layers", lambda: [r.to_dict() for r in bench.run_layers(**sizes, rounds=rounds, progress=context.progress)]
    )
    return [_gates_table(gates), _layers_table(layers)], _speed(gates), []


def _stored_speed(previous: Result | None) -> tuple[list[Table], Claim, list[str]]:
    """The speed tables, claim and notes of an earlier result; "not run" if it has none."""
    earlier = previous or Result()
    tables = [each for each in earlier.tables if each.caption.startswith((GATES_CAPTION, LAYERS_CAPTION))]
    if not tables:
        reason = "The speed has not been measured: run it without --stored."
        return [], claim("rnn.speed", None, reason=reason), [reason]
    text = numbers.claim("rnn.speed")["text"]
    return tables, next(each for each in earlier.claims if each.text == text), []


def rows(full: bool) -> list[Row[RecurrentSpec]]:
    """Each task with each layer and each kind of gates. Full: 6,000 steps of MNIST, 4,000 steps of adding."""
    lengths: dict[str, dict[str, Any]] = {
        "rows": {"hidden": 128, "batch": 100, "steps": 6000 if full else 150, "interval": 300 if full else 50},
        "adding": {
            **{"hidden": 64, "batch": 50, "steps": 4000 if full else 60, "interval": 200 if full else 20},
            "rate": 1e-2,  # at 1e-3 an LSTM does not learn the task in 6,000 steps, with either kind of gates
        },
    }
    grid = itertools.product(TASKS, LAYERS, GATES)
    return [Row(RecurrentSpec(task=task, layer=layer, gates=gates, **lengths[task])) for task, layer, gates in grid]


is_current = partial(study.is_current, rows=rows, seeds=SEEDS)


def _scores(found: Study, task: str, layer: str) -> dict[str, dict[int, float]]:
    """gates -> seed -> score after the last step."""
    members = [row for row in found.rows if (row.spec.task, row.spec.layer) == (task, layer)]
    return {row.spec.gates: found.values(row, "final_score") for row in members}


def _differences(found: Study) -> dict[tuple[str, str], stats.Difference]:
    """(task, layer) -> final score of ISRU minus exact gates, paired by seed, with corrected p values."""
    scores = {key: _scores(found, *key) for key in itertools.product(TASKS, LAYERS)}
    corrected = stats.corrected([stats.paired(each["isru"], each["exact"]) for each in scores.values()])
    return dict(zip(scores, corrected, strict=True))


def _gates_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        Column("instruction set"),
        Column("cell"),
        Column("gates"),
        Column("ns per unit", "here", "{:.2f}", bar=True),
        Column("spread", "spread", "{:.1%}"),
        Column("times as fast as exact", "here", "{:.2f}"),
    ]
    caption = f"{GATES_CAPTION}, float32, batch {bench.GATE_ROWS}, hidden {bench.GATE_HIDDEN}, forward, one thread"
    cells = [[r["simd"], r["layer"], GATES[r["gates"]], r["ns"], r["spread"], r["speedup"]] for r in rows]
    return Table(caption, columns, cells)


def _layers_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        *(Column(title) for title in ("layer", "what", "batch", "hidden", "by")),
        Column("µs per step", "here", "{:.2f}"),
        Column("tokens per second", "here", "{:,.0f}"),
        Column("spread", "spread", "{:.1%}"),
        Column("times as fast as torch.nn", "here", "{:.2f}"),
    ]
    names = {"torch.nn": "torch.nn", "isru": "isrlu, ISRU", "exact": "isrlu, sigmoid and tanh"}
    cells = [
        [
            *(r["layer"], r["what"], r["batch"], r["hidden"], names[r["contender"]]),
            *(r["seconds"] * 1e6, r["batch"] / r["seconds"], r["spread"], r["speedup"]),
        ]
        for r in rows
    ]
    return Table(
        f"{LAYERS_CAPTION} {bench.STEPS} steps, input as wide as hidden, {rows[0]['threads']} threads", columns, cells
    )


def _learning_table(found: Study, task: str) -> Table:
    form, reached = ("{:.2f}", f"{GOALS[task]} %") if task == "rows" else ("{:.4f}", f"{GOALS[task]}")
    columns = [
        Column("layer"),
        Column("gates"),
        Column(UNITS[task], "here", form),
        Column("± (95 %)", "spread", form),
        Column(f"steps to {reached}", "here", "{:,.0f}"),
        Column("runs", "here"),
    ]
    cells: list[list[Any]] = []
    for row in found.rows:
        if row.spec.task == task:
            scores = list(found.values(row, "final_score").values())
            mean = stats.mean(scores) if scores else None
            values = [mean and mean.value, mean and mean.half, _steps_to_goal(found, row), len(scores)]
            cells.append([row.spec.layer, GATES[row.spec.gates], *values])
    caption = {
        "rows": "Images row by row: after the last step",
        "adding": "Adding problem of 200 steps: after the last step",
    }
    return Table(caption[task] + _marks(found, task), columns, cells)


def _differences_table(found: Study) -> list[Table]:
    compared = [(UNITS[task], layer, each) for (task, layer), each in _differences(found).items()]
    titles = ("ISRU less exact gates", "layer")
    return difference_table.table("Differences, paired by seed" + found.marks, titles, "difference", compared, digits=4)


def _marks(found: Study, task: str) -> str:
    """The caption's marks for the quick preset and for other data than MNIST. The adding problem uses no data."""
    return (found if task == "rows" else replace(found, identity="mnist")).marks


def _steps_to_goal(found: Study, row: Row[RecurrentSpec]) -> float | None:
    """Mean number of steps until the task's goal; None unless all runs reach it."""
    goal, firsts = GOALS[row.spec.task], []
    for run in found.of(row).values():
        evaluations = zip(run.result["history"]["steps"], run.result["history"]["score"], strict=True)
        firsts.append(next((n for n, score in evaluations if (score >= goal) == (row.spec.task == "rows")), None))
    reached = [first for first in firsts if first is not None]
    return statistics.mean(reached) if reached and len(reached) == len(firsts) else None


def _curves(context: Context, found: Study, task: str, layer: str) -> Figure:
    made, axes = figure_style.panel(
        f"{layer}, {TASKS[task]}\n{_marks(found, task).strip()}".strip(), "step", UNITS[task]
    )
    for row in found.rows:
        histories = [run.result["history"] for run in found.of(row).values()]
        if (row.spec.task, row.spec.layer) == (task, layer) and histories:
            middle, low, high = stats.band([history["score"] for history in histories])
            line, steps = figure_style.LINES[COLOURS[row.spec.gates]], histories[0]["steps"]
            axes.plot(steps, middle, label=GATES[row.spec.gates], **line)
            axes.fill_between(steps, low, high, color=line["color"], alpha=0.2, linewidth=0)
    if task == "adding":
        axes.set_ylim(bottom=0)  # a squared error is never negative, but its confidence band can be
    figure_style.legend(axes)
    caption = f"{layer}: {UNITS[task]} in training, mean over seeds with its 95 % confidence band.{_marks(found, task)}"
    alt = f"Two learning curves of {layer}, with ISRU and with exact gates."
    return context.figure(f"{task}-{layer}", made, caption=caption, alt=alt)


def _quality(found: Study) -> Claim:
    if found.no_verdict:
        return claim("rnn.quality", None, reason=found.no_verdict)
    texts, verdicts = [], []
    for layer in LAYERS:
        difference = _differences(found)["rows", layer]
        errors = {gates: statistics.mean(scores.values()) for gates, scores in _scores(found, "adding", layer).items()}
        solved = errors["isru"] < GOALS["adding"] or errors["exact"] >= GOALS["adding"]
        verdicts += [stats.no_worse(difference, MARGIN), solved]
        texts.append(f"{layer} {difference} points on MNIST, {errors['isru']:.4f} for {errors['exact']:.4f} at adding")
    verdict, here = stats.all_of(verdicts), f"ISRU against exact gates: {'; '.join(texts)}."
    unsure = f"ISRU may lose up to {MARGIN} points and still count as a replacement. {study.NEEDS_SEEDS}"
    return claim("rnn.quality", verdict, here, unsure if verdict is None else "ISRU learns less well.")


def _speed(gates: Sequence[Mapping[str, Any]]) -> Claim:
    isru = [r for r in gates if r["simd"] == isrlu.simd() and r["gates"] == "isru"]
    texts = [f"{r['layer']} {r['speedup']:.1f} times" for r in isru]
    fast = all(r["speedup"] > 1 for r in isru)
    return claim(
        "rnn.speed", fast, f"All gates of a step on {isrlu.simd()}: {', '.join(texts)} as fast.", "They are not faster."
    )
