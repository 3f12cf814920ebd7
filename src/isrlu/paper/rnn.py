"""Beyond the paper: ISRU in LSTM and GRU. The gates' speed, the layers' beside torch.nn's, and whether they learn.

Full: all sizes, 5 seeds of each training run. Quick: one size of each, one seed, short runs. Each measurement and each
run is remembered: what was interrupted goes on after the last finished one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import isrlu
from isrlu import data
from isrlu.bench import rnn as bench
from isrlu.paper import rnn_learning as learning
from isrlu.paper import style
from isrlu.paper.experiment import Claim, Column, Context, Figure, Result, Table, claim
from isrlu.paper.mnist import stats

Runs = dict[tuple[str, str, str], dict[int, dict[str, Any]]]  # (task, layer, gates) -> seed -> run
SEEDS = {True: 5, False: 1}
ROUNDS = {True: 25, False: 7}
UNITS = {"rows": "test accuracy, %", "adding": "mean squared error"}
COLOURS = {"isru": "blue", "exact": "vermillion"}
TITLES = {"isru": "ISRU", "exact": "sigmoid and tanh"}
SOLVED = 0.02  # mean squared error below which the adding problem counts as solved
MARGIN = 0.3  # points of accuracy by which ISRU may lie behind and still stand in


def run(context: Context) -> Result:
    """Measure gates and layers, train both tasks, compare."""
    rounds = ROUNDS[context.full]
    say = context.progress
    sizes = {} if context.full else {"batches": (1,), "hidden": (64,)}
    gates = context.remember("gates", lambda: [asdict(r) for r in _gates(rounds, say)])
    layers = context.remember(
        "layers", lambda: [asdict(r) for r in bench.run_layers(**sizes, rounds=rounds, progress=say)]
    )
    source, reason = data.find_or_digits(context.options.get("data"))
    if reason:
        context.folder.warn(f"{reason}; trains on scikit-learn's digits instead")
    images = data.load(source)
    seeds = list(range(context.options.get("seeds") or SEEDS[context.full]))
    runs = _train(context, images, seeds)
    notes = [f"Data of the rows: {images.title}. Seeds {', '.join(map(str, seeds))}."]
    if not context.full:
        notes.insert(0, "Quick preset: short runs of one seed, to show that everything works. It is no result.")
    environment = {"rnn": {"seeds": len(seeds), "data": images.identity}}
    return Result(
        [_gates_table(gates), _layers_table(layers), *(_learning_table(runs, task) for task in UNITS)],
        [_quality(context, runs, images), _speed(gates)],
        [_curves(context, runs, task, layer) for task in UNITS for layer in learning.LAYERS],
        notes,
        seeds=seeds,
        environment=environment,
    )


def is_current(environment: Mapping[str, Any], context: Context) -> bool:
    """Whether a stored result has as many seeds as asked for."""
    return environment.get("rnn", {}).get("seeds", 0) >= (context.options.get("seeds") or SEEDS[context.full])


def _gates(rounds: int, say: Any) -> list[bench.GatesRow]:
    return bench.run_gates(isrlu.simd_available(), rounds=rounds, progress=say)


def _train(context: Context, images: data.Dataset, seeds: Sequence[int]) -> Runs:
    """All runs, seed by seed, so that every row has some before one has all."""
    grid = [
        (task, layer, gates, seed)
        for seed in seeds
        for task in learning.tasks(context.full)
        for layer in learning.LAYERS
        for gates in learning.GATES
    ]
    runs: Runs = {}
    for done, (task, layer, gates, seed) in enumerate(grid):
        label = f"{task.name}, {layer}, {TITLES[gates]}, seed {seed}"

        def tell(step: int, label: str = label, done: int = done, steps: int = task.steps) -> None:
            context.progress(f"{label}: step {step}/{steps}", done + step / steps, len(grid))

        own = images if task.name == "rows" else None
        key = f"{task.name}-{images.identity if own else 'made'}-{layer}-{gates}-seed{seed}"
        result = context.remember(
            key, lambda t=task, a=layer, g=gates, s=seed, d=own, w=tell: learning.train(t, a, g, s, d, w)
        )
        runs.setdefault((task.name, layer, gates), {})[seed] = result
    return runs


def _last(runs: Runs, task: str, layer: str, gates: str) -> dict[int, float]:
    """seed -> the score after the last step."""
    return {seed: run["score"][-1] for seed, run in runs[task, layer, gates].items()}


def _gates_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        Column("instruction set"),
        Column("cell"),
        Column("gates"),
        Column("ns per unit", "here", "{:.2f}", bar=True),
        Column("spread", "spread", "{:.1%}"),
        Column("times as fast as exact", "here", "{:.2f}"),
    ]
    caption = (
        f"The gates' kernel alone, float32, batch {bench.GATE_ROWS}, hidden {bench.GATE_HIDDEN}, forward, one thread"
    )
    cells = [[r["simd"], r["layer"], TITLES[r["gates"]], r["ns"], r["spread"], r["speedup"]] for r in rows]
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
        f"Layers of {bench.STEPS} steps, input as wide as hidden, {rows[0]['threads']} threads", columns, cells
    )


def _learning_table(runs: Runs, task: str) -> Table:
    form = "{:.2f}" if task == "rows" else "{:.4f}"
    columns = [
        Column("layer"),
        Column("gates"),
        Column(UNITS[task], "here", form),
        Column("± (95 %)", "spread", form),
        Column("runs", "here"),
    ]
    rows: list[list[Any]] = []
    for layer in learning.LAYERS:
        for gates in learning.GATES:
            mean = stats.mean(list(_last(runs, task, layer, gates).values()))
            rows.append([layer, TITLES[gates], mean.value, mean.half, mean.count])
    caption = {
        "rows": "MNIST row by row: after the last step",
        "adding": "Adding problem of 200 steps: after the last step",
    }
    return Table(caption[task], columns, rows)


def _curves(context: Context, runs: Runs, task: str, layer: str) -> Figure:
    made, axes = style.panel(f"{layer}, {'MNIST by rows' if task == 'rows' else 'adding problem'}", "step", UNITS[task])
    for gates in learning.GATES:
        members = list(runs[task, layer, gates].values())
        middle, low, high = stats.band([run["score"] for run in members])
        line = style.LINES[COLOURS[gates]]
        axes.plot(members[0]["steps"], middle, label=TITLES[gates], **line)
        axes.fill_between(members[0]["steps"], low, high, color=line["color"], alpha=0.2, linewidth=0)
    style.legend(axes)
    caption = f"{layer}: {UNITS[task]} in training, mean over seeds with its 95 % confidence band."
    alt = f"Two learning curves of {layer}, with ISRU and with exact gates."
    return context.figure(f"{task}-{layer}", made, caption=caption, alt=alt)


def _quality(context: Context, runs: Runs, images: data.Dataset) -> Claim:
    if not context.full or not images.is_mnist:
        return claim("rnn.quality", None, reason="Needs the full runs on MNIST: run it with --full.")
    texts, good = [], True
    for layer in learning.LAYERS:
        difference = stats.paired(_last(runs, "rows", layer, "isru"), _last(runs, "rows", layer, "exact"))
        errors = {g: stats.mean(list(_last(runs, "adding", layer, g).values())).value for g in learning.GATES}
        good &= difference.value > -MARGIN and (errors["isru"] < SOLVED or errors["exact"] >= SOLVED)
        texts.append(
            f"{layer} {difference.value:+.2f} points on MNIST, {errors['isru']:.4f} for {errors['exact']:.4f} at adding"
        )
    return claim("rnn.quality", good, f"ISRU against exact gates: {'; '.join(texts)}.", "ISRU learns less here.")


def _speed(gates: Sequence[Mapping[str, Any]]) -> Claim:
    own = [r for r in gates if r["simd"] == isrlu.simd() and r["gates"] == "isru"]
    texts = [f"{r['layer']} {r['speedup']:.1f} times" for r in own]
    fast = all(r["speedup"] > 1 for r in own)
    return claim(
        "rnn.speed", fast, f"All gates of a step on {isrlu.simd()}: {', '.join(texts)} as fast.", "Not faster here."
    )
