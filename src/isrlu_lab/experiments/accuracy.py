"""Sections 3.1 and 3.2: accurate bits of 1/sqrt(x) by estimate, one and two Newton steps, and Kinney's bit trick."""

import math

import numpy as np

import isrlu
import isrlu_lab._measure as _measure
from isrlu._checks import METHODS
from isrlu_lab.experiments import numbers
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Claim, Column, Result, Table, claim

MANTISSAS = np.arange(1 << 24, dtype=np.uint32)  # every float32 in [1, 4): one even and one odd exponent
WORDS = {
    "approx": "estimate",
    "newton1": "estimate and one Newton step",
    "newton2": "estimate and two Newton steps",
    "full": "this project's default",
    "ieee": "square root and division",
    "kinney": "bit trick and one Newton step",
    "table": "table look-up",
}


def run(context: Context) -> Result:
    """Find the largest relative error of 1/sqrt(x) over all float32 in [1, 4), per method and instruction set."""
    simds = list(isrlu.simd_available())
    paper = numbers.table("accuracy")
    errors: dict[tuple[str, str], float] = {}
    for count, simd in enumerate(simds):
        for step, method in enumerate(METHODS):
            context.progress(f"{simd}, {method}", count * len(METHODS) + step, len(simds) * len(METHODS))
            errors[simd, method] = _largest_error(simd, method)
    best = simds[-1]
    known = {"approx": paper["approx_bits"], "newton1": paper["newton1_bits"], "newton2": paper["mantissa_bits"]}
    known["kinney"] = -math.log2(paper["kinney_error"])
    columns = [
        Column("1/sqrt(x) by"),
        Column("method"),
        Column("accurate bits", "paper", "{:.1f}"),
        *(Column(f"accurate bits, {simd}", "here", "{:.1f}") for simd in simds),
        Column(f"largest relative error, {best}", "here", "{:.2e}"),
        Column("as in the paper", "verdict"),
    ]
    claims = _claims({method: errors[best, method] for method in METHODS}, best)
    verdicts = dict(zip(("approx", "newton1", "newton2", "kinney"), (c.verdict for c in claims), strict=True))
    rows: list[list[Cell]] = [
        [
            WORDS[method],
            method,
            known.get(method),
            *(_bits(errors[simd, method]) for simd in simds),
            errors[best, method],
            verdicts.get(method),
        ]
        for method in METHODS
    ]
    caption = "Sections 3.1 and 3.2: accurate bits of the inverse square root, over every float32 of [1, 4)"
    return Result([Table(caption, columns, rows)], claims, notes=[NOTE])


NOTE = (
    "Accurate bits are -log2 of the largest relative error against float64. A correctly rounded float32 has at least "
    "24: its error is at most half a unit in the last place. The estimate is the CPU's own instruction (rsqrtps on "
    "x86). The x86 architecture guarantees 1.5 * 2^-12, which is 11.4 bits. CPUs are more accurate than that, and they "
    "differ. The scalar build has no such instruction and uses square root and division instead."
)


def _largest_error(simd: str, method: str) -> float:
    """max |r sqrt(x) - 1| over [1, 4), in 64 blocks that fit in the cache."""
    work = _measure.TimedKernel(simd, "rsqrt", method)
    worst = 0.0
    for low in np.array_split(MANTISSAS, 64):
        x = (low + np.uint32(0x3F800000)).view(np.float32)
        r = np.empty_like(x)
        work.run(x.ctypes.data, 0, r.ctypes.data, x.size, 1.0, 1)
        worst = max(worst, float(np.max(np.abs(r * np.sqrt(x.astype(np.float64)) - 1))))
    return worst


def _bits(error: float) -> float:
    return -math.log2(error)


def _claims(error: dict[str, float], best: str) -> list[Claim]:
    """The paper's statements in the order approx, newton1, newton2, kinney."""
    bits = {method: _bits(value) for method, value in error.items()}
    paper = numbers.table("accuracy")
    return [
        claim(
            "accuracy.approx",
            bits["approx"] >= paper["approx_bits"] - 0.1,
            f"{error['approx']:.2e}, {bits['approx']:.1f} bits ({best}).",
            "The estimate is an instruction of the CPU, and this CPU's is less accurate than that of the paper's.",
        ),
        claim(
            "accuracy.newton1",
            bits["newton1"] >= paper["newton1_bits"] - 0.1,
            f"{bits['newton1']:.1f} bits ({best}).",
            "A Newton step squares the estimate's error (times 1.5), which would leave "
            f"{2 * bits['approx'] - math.log2(1.5):.1f} bits, but the operations of the step round as well. "
            "The paper's number does not include this rounding.",
        ),
        claim(
            "accuracy.newton2",
            bits["newton2"] >= bits["ieee"] - 0.1,
            f"{bits['newton2']:.1f} bits ({best}); square root and division, {bits['ieee']:.1f}.",
            "After the first step rounding limits the accuracy: r (1.5 - 0.5 x r r) rounds several times, and a second "
            "step rounds as often. A small correction that is added to r rounds once: this project's default, which "
            f"does that, has {bits['full']:.1f} bits.",
        ),
        claim(
            "accuracy.kinney",
            abs(error["kinney"] / paper["kinney_error"] - 1) < 0.02,
            f"{100 * error['kinney']:.3f} % ({best}).",
            "The error depends on the constant of the bit trick.",
        ),
    ]
