"""The paper's future work: deeper networks. Fully connected, without normalisation, with each activation's own
initialisation, on MNIST; and the signal in 100 layers before any training.

The learning rate is chosen for each activation and depth from one list, by the accuracy on held-out training images
after one epoch. Then every row is trained over the counted seeds and tested on the test set.
Full: 8, 16, 32 and 64 layers, 5 seeds. Quick: 8 layers, 1 seed, 100 steps.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from isrlu_lab.experiments import difference_table, figure_style, numbers, stats, study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Claim, Column, Figure, Result, Table, claim
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.training.depth.depth_spec import ACTIVATIONS, SIGNALS, DepthSpec

DEPTHS = {True: (8, 16, 32, 64), False: (8,)}  # full, quick
SEEDS = {True: 5, False: 1}
LENGTH: dict[bool, dict[str, Any]] = {True: {"epochs": 3}, False: {"epochs": 1, "steps": 100}}
RATES = {True: (0.003, 0.01, 0.03), False: (0.01,)}
HELD_OUT = {True: 10_000, False: 300}  # training images that choose the rate
MARGIN = 0.5  # percentage points of accuracy: smaller differences are negligible
DEEP = 32  # layers from which a network counts as deep
COMPARED = (  # first less second, at each depth
    ("isrlu", "relu"),
    ("isrlu", "elu"),
    ("isrlu3", "elu"),
    ("sisrlu", "selu"),
    ("sisrlu", "isrlu"),
    ("centred", "isrlu"),
)
UNTRAINED = {"depth": 100, "width": 256, "batch": 256}  # the network that is not trained
_BLUE, _RED = figure_style.LINES["blue"], figure_style.LINES["vermillion"]
LINES = {
    "relu": figure_style.LINES["ink"],
    "elu": figure_style.LINES["green"],
    "selu": figure_style.LINES["purple"],
    "isrlu": _BLUE,
    "isrlu3": {**_BLUE, "linestyle": ":"},
    "sisrlu": {**_RED, "linestyle": "-"},
    "centred": _RED,
}
Signals = Mapping[str, Sequence[Sequence[Sequence[float]]]]  # activation -> per seed the SIGNALS, each by layer
MEAN, VARIANCE, GRADIENT = range(len(SIGNALS))


def run(context: Context) -> Result:
    """Choose the rates, train every row over all seeds, and compare the activations at each depth."""
    tuned = _tune(context)
    found = study.run_study(context, rows(context.full, tuned), seeds=SEEDS[context.full])
    untrained = context.remember("untrained", lambda: _untrained(SEEDS[context.full]))
    return Result(
        [_accuracy_table(found), *_differences_table(found), _untrained_table(untrained)],
        _claims(found),
        [*_trained_figures(context, found), *_untrained_figures(context, untrained)],
        [*found.notes, _rates_note(context.full)],
        seeds=found.seeds,
        environment={**found.environment, "rates": tuned},
    )


def tuning_rows(full: bool) -> list[Row[DepthSpec]]:
    """Every activation at every depth with every rate of the list, for one epoch, tested on held-out images."""
    length = {**LENGTH[full], "epochs": 1, "held_out": HELD_OUT[full]}
    return [
        Row(DepthSpec(activation=activation, depth=depth, rate=rate, **length))
        for depth in DEPTHS[full]
        for activation in ACTIVATIONS
        for rate in RATES[full]
    ]


def rows(full: bool, rates: Mapping[str, float]) -> list[Row[DepthSpec]]:
    """Every activation at every depth, with the rate that was chosen for it: rates["isrlu 64"]."""
    return [
        Row(DepthSpec(activation=activation, depth=depth, rate=rates[f"{activation} {depth}"], **LENGTH[full]))
        for depth in DEPTHS[full]
        for activation in ACTIVATIONS
    ]


def is_current(environment: Mapping[str, Any], context: Context) -> bool:
    """Whether a stored result has the runs of these rows, with the rates that it recorded."""
    rates = environment.get("rates", {})
    names = {f"{activation} {depth}" for depth in DEPTHS[context.full] for activation in ACTIVATIONS}
    if set(rates) != names or not set(rates.values()) <= set(RATES[context.full]):
        return False
    return study.is_current(environment, context, rows=lambda full: rows(full, rates), seeds=SEEDS)


def _tune(context: Context) -> dict[str, float]:
    """ "activation depth" -> the rate with the best accuracy on held-out images; a diverged run is not chosen."""
    alone = {**context.options, "seeds": None, "shard": None}  # every shard needs all rates
    found = study.run_study(replace(context, options=alone), tuning_rows(context.full), seeds=1)
    best: dict[str, tuple[float, float]] = {}
    for row in found.rows:
        key = f"{row.spec.activation} {row.spec.depth}"
        accuracy = next(iter(found.values(row, "final_accuracy").values()), -1.0)
        best[key] = max(best.get(key, (-2.0, 0.0)), (accuracy, row.spec.rate))
    return {key: rate for key, (_, rate) in best.items()}


def _untrained(seeds: int) -> dict[str, list[list[list[float]]]]:
    """The signal of standard normal inputs in deep networks with their initial weights."""
    import torch

    from isrlu_lab.training.depth.deep_networks import build, layer_signal

    depth, width, batch = (UNTRAINED[name] for name in ("depth", "width", "batch"))
    found: dict[str, list[list[list[float]]]] = {}
    for activation in ACTIVATIONS:
        for seed in range(seeds):
            generator = torch.Generator().manual_seed(seed)
            x, labels = torch.randn(batch, width, generator=generator), torch.arange(batch) % 10
            network = build(activation, depth, width, inputs=width, seed=seed)
            found.setdefault(activation, []).append(layer_signal(network, x, labels))
    return found


def _accuracy_table(found: Study) -> Table:
    columns = [
        Column("layers"),
        Column("activation"),
        Column("rate", "here", "{:g}"),
        Column("test accuracy, %", "here", "{:.2f}", bar=True),
        Column("95 % CI", "spread", "± {:.2f}"),
        Column("training loss of the last epoch", "here", "{:.4f}"),
        Column("variance in the last layer, before training", "here", "{:.2g}"),
        Column("variance in the last layer, after training", "here", "{:.2g}"),
        Column("seeds"),
    ]
    cells: list[list[Cell]] = []
    for row in found.rows:
        runs = [run.result for run in found.of(row).values()]
        accuracy, half = stats.mean_or_none([each["final_accuracy"] for each in runs])
        averages = [
            statistics.mean(get(each) for each in runs) if runs else None
            for get in (
                lambda each: each["final_loss"],
                lambda each: each["history"]["initial"][VARIANCE][-1],
                lambda each: each["history"]["final"][VARIANCE][-1],
            )
        ]
        spec = row.spec
        cells.append([str(spec.depth), spec.name, spec.rate, accuracy, half, *averages, len(runs)])
    return Table(f"Fully connected networks of {found.rows[0].spec.width} units a layer{found.marks}", columns, cells)


def _differences(found: Study) -> dict[tuple[str, str, int], stats.Difference]:
    """(first, second, depth) -> difference in accuracy, paired by seed, with corrected p values."""
    values = {(row.spec.activation, row.spec.depth): found.values(row, "final_accuracy") for row in found.rows}
    depths = dict.fromkeys(row.spec.depth for row in found.rows)
    keys = [(first, second, depth) for first, second in COMPARED for depth in depths]
    pairs = [stats.paired(values[first, depth], values[second, depth]) for first, second, depth in keys]
    return dict(zip(keys, stats.corrected(pairs), strict=True))


def _differences_table(found: Study) -> list[Table]:
    compared = [
        (f"{ACTIVATIONS[first]} − {ACTIVATIONS[second]}", str(depth), each)
        for (first, second, depth), each in _differences(found).items()
    ]
    caption, unit = f"Differences, paired by seed{found.marks}", "difference in accuracy, points"
    return difference_table.table(caption, ("pair", "layers"), unit, compared, digits=2)


def _untrained_table(signals: Signals) -> Table:
    depth, width = UNTRAINED["depth"], UNTRAINED["width"]
    columns = [
        Column("activation"),
        Column(f"mean in layer {depth}", "here", "{:+.3f}"),
        Column(f"variance in layer {depth}", "here", "{:.3g}"),
        Column(f"gradient's norm, layer 1 / layer {depth}", "here", "{:.3g}"),
    ]
    cells: list[list[Cell]] = []
    for activation, seeds in signals.items():
        means = [statistics.mean(each[number][-1] for each in seeds) for number in (MEAN, VARIANCE)]
        ratio = statistics.median(each[GRADIENT][0] / each[GRADIENT][-1] for each in seeds)
        cells.append([ACTIVATIONS[activation], *means, ratio])
    return Table(f"Before training: standard normal inputs through {depth} layers of {width} units", columns, cells)


def _trained_figures(context: Context, found: Study) -> list[Figure]:
    deepest = max(row.spec.depth for row in found.rows)
    members = [row for row in found.rows if row.spec.depth == deepest]
    made = []
    for when in ("initial", "final"):
        signals = {row.spec.activation: [r.result["history"][when] for r in found.of(row).values()] for row in members}
        text = f"{deepest} layers, {'before' if when == 'initial' else 'after'} training{found.marks}"
        made += _signal_figures(context, when, {key: each for key, each in signals.items() if each}, text)
    return made


def _untrained_figures(context: Context, signals: Signals) -> list[Figure]:
    return _signal_figures(context, "untrained", signals, f"{UNTRAINED['depth']} layers, not trained")


def _signal_figures(context: Context, name: str, signals: Signals, text: str) -> list[Figure]:
    """Mean, variance and gradient norm by layer; mean over seeds."""
    figures = []
    for number, what, scale in (
        (MEAN, "mean of the outputs", "linear"),
        (VARIANCE, "variance of the outputs", "log"),
        (GRADIENT, "norm of the weights' gradient", "log"),
    ):
        made, axes = figure_style.panel(f"{what.capitalize()}\n{text}", "hidden layer", what)
        for activation, seeds in signals.items():
            curve = [statistics.mean(each) for each in zip(*(seed[number] for seed in seeds), strict=True)]
            axes.plot(range(1, len(curve) + 1), curve, label=ACTIVATIONS[activation], **LINES[activation])
        axes.set_yscale(scale)
        figure_style.legend(axes)
        caption = f"{what.capitalize()} by hidden layer, {text}: mean over seeds."
        alt = f"One line for each activation: the {what} from the first to the last hidden layer."
        figures.append(context.figure(f"{name}-{SIGNALS[number]}", made, caption=caption, alt=alt))
    return figures


def _rates_note(full: bool) -> str:
    rates = ", ".join(f"{each:g}" for each in RATES[full])
    return (
        f"The rate was chosen from {rates} for each activation and depth: best accuracy on {HELD_OUT[full]:,} held-out "
        "training images after one epoch."
    )


def _claims(found: Study) -> list[Claim]:
    if found.no_verdict:
        return [claim(f"depth.{key}", None, reason=found.no_verdict) for key in numbers.claims("depth")]
    differences = _differences(found)
    return [
        _ahead_of_relu(differences),
        _like_elu(differences),
        _self_normalising(differences),
    ]


def _texts(differences: Mapping[int, stats.Difference]) -> str:
    return ", ".join(f"{depth} layers {each}" for depth, each in differences.items())


def _pick(found: Mapping[tuple[str, str, int], stats.Difference], first: str, second: str) -> dict[int, Any]:
    return {depth: each for (a, b, depth), each in found.items() if (a, b) == (first, second)}


def _ahead_of_relu(found: Mapping[tuple[str, str, int], stats.Difference]) -> Claim:
    each = _pick(found, "isrlu", "relu")
    ahead = stats.all_of(stats.better(value, MARGIN) for depth, value in each.items() if depth >= DEEP)
    grows = each[max(each)].value > each[min(each)].value
    verdict = False if ahead and not grows else ahead
    reason = study.NEEDS_SEEDS if verdict is None else f"It must be ahead from {DEEP} layers on, and grow with depth."
    return claim("depth.relu", verdict, f"ISRLU − ReLU, points of accuracy: {_texts(each)}.", reason)


def _like_elu(found: Mapping[tuple[str, str, int], stats.Difference]) -> Claim:
    each = _pick(found, "isrlu", "elu")
    alike = stats.alike(list(each.values()), MARGIN)
    reason = f"Alike means within {MARGIN} points. {study.NEEDS_SEEDS}" if alike is None else "They differ."
    return claim("depth.elu", alike, f"ISRLU − ELU, points of accuracy: {_texts(each)}.", reason)


def _self_normalising(found: Mapping[tuple[str, str, int], stats.Difference]) -> Claim:
    each = _pick(found, "sisrlu", "selu")
    verdict = stats.all_of(stats.no_worse(value, MARGIN) for value in each.values())
    here = (
        "No alpha alone keeps a mean of 0: the negative side must be scaled too (SISRLU). With alpha 0.708, which "
        f"saturates where SELU does, SISRLU − SELU, points of accuracy: {_texts(each)}."
    )
    reason = f"Up to {MARGIN} points behind would do. {study.NEEDS_SEEDS}" if verdict is None else "SELU is ahead."
    return claim("depth.selfnorm", verdict, here, reason)
