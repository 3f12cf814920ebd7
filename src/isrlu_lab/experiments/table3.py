"""Table 3: ns per element of ReLU, ISRU (approx.), ISRLU (approx.), ISRLU and ELU; half of the inputs are negative."""

from functools import partial
from typing import Any

import isrlu
from isrlu_lab.experiments import numbers
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Claim, Column, Result, Table, claim
from isrlu_lab.measure import cycle_timer
from isrlu_lab.measure.kernel_bench import Contender, job
from isrlu_lab.measure.timer import Sample, ratio

SIZES = {"in the cache": 1 << 14, "in memory": 1 << 22}
ROWS = {
    "ReLU": Contender("relu"),
    "ISRU (approx.)": Contender("isru", "approx"),
    "ISRLU (approx.)": Contender("isrlu", "approx"),
    "ISRLU": Contender("isrlu"),
    "ELU": Contender("elu"),
}
SLACK = 0.95  # a claim holds if the measured advantage is at least 95 % of the paper's


def run(context: Context) -> Result:
    """Time the five functions on AVX2 and on the best instruction set of this CPU, in the cache and in memory."""
    best = isrlu.simd_available()[-1]
    simds = ["avx2", best] if "avx2" in isrlu.simd_available() and best != "avx2" else [best]
    tables: list[Table] = []
    measured: dict[tuple[str, str], dict[str, Any]] = {}
    for simd in simds:
        for place, size in SIZES.items():
            context.progress(f"{simd}, {size:,} elements {place}", len(tables), len(simds) * len(SIZES))
            seconds = context.remember(f"{simd}-{size}", partial(_measure, simd, size, context.full))
            measured[simd, place] = {name: Sample(tuple(times)) for name, times in seconds.items()}
            tables.append(_table(measured[simd, place], simd, place, size))
    first = measured[simds[0], "in the cache"]
    return Result(
        tables,
        _claims(first, simds[0], measured[simds[0], "in memory"]),
        notes=[*cycle_timer.remarks(*measured.values()), *_notes(first)],
        seeds=[0],
        environment={
            "clock_ghz": cycle_timer.clock_ghz(first),
            "largest_spread": cycle_timer.largest_spread(*measured.values()),
            "threads_used": 1,
        },
    )


def _measure(simd: str, size: int, full: bool) -> dict[str, tuple[float, ...]]:
    """contender -> seconds of each round."""
    runs = {name: job(simd, contender, size) for name, contender in {**ROWS, "exp": Contender("exp")}.items()}
    samples = cycle_timer.measure(runs, rounds=cycle_timer.ROUNDS[full])
    return {name: sample.seconds for name, sample in samples.items()}


def _table(samples: dict[str, Sample], simd: str, place: str, size: int) -> Table:
    paper = numbers.table("table3")
    columns = [
        Column("activation"),
        Column("ns per element", "paper", "{:.3f}", bar=True),
        Column("ns per element", "here", "{:.3f}", bar=True),
        Column("ns per element", "spread", "± {:.1f} %"),
        Column("cycles per element", "here", "{:.2f}"),
        Column("ISRLU's advantage", "paper", "{:.2f}×"),
        Column("ISRLU's advantage", "here", "{:.2f}×"),
        Column("ISRLU (approx.)'s advantage", "paper", "{:.2f}×"),
        Column("ISRLU (approx.)'s advantage", "here", "{:.2f}×"),
        Column("as in the paper", "verdict"),
    ]
    rows: list[list[Cell]] = []
    for name in ROWS:
        known = (paper["isrlu_advantage"][name], paper["approx_advantage"][name])
        here = tuple(ratio(samples, name, base) for base in ("ISRLU", "ISRLU (approx.)"))
        rows.append(
            [
                name,
                paper["ns"][name],
                samples[name].median / size * 1e9,
                100 * samples[name].spread,
                cycle_timer.cycles(samples, name, size),
                known[0],
                here[0],
                known[1],
                here[1],
                "holds" if all(h >= SLACK * k for h, k in zip(here, known, strict=True)) else "does not",
            ]
        )
    source = f"paper: {paper['cpu']}, {paper['simd']}, size not stated"
    caption = f"Table 3 on {simd}: {size:,} elements {place} ({source})"
    return Table(caption, columns, rows)


def _claims(cache: dict[str, Sample], simd: str, memory: dict[str, Sample]) -> list[Claim]:
    def advantage(slow: str, fast: str, as_long: str = " as long") -> tuple[float, str]:
        inside, outside = (ratio(samples, slow, fast) for samples in (cache, memory))
        return inside, f"{inside:.2f} times{as_long} in the cache, {outside:.2f} times in memory ({simd})."

    elu, elu_text = advantage("ELU", "ISRLU", "")
    relu, relu_text = advantage("ISRLU (approx.)", "ReLU")
    isru, isru_text = advantage("ISRU (approx.)", "ReLU")
    approx, approx_text = advantage("ELU", "ISRLU (approx.)")
    full, full_text = advantage("ISRLU", "ISRLU (approx.)")
    memory_relu = ratio(memory, "ISRLU (approx.)", "ReLU")
    paper = numbers.table("table3")
    faster = paper["ns"]["ReLU"] / (cache["ReLU"].median / SIZES["in the cache"] * 1e9)
    why = (
        f"The paper's ReLU takes {paper['ns']['ReLU']:.3f} ns, {faster:.1f} times as long as in this project "
        "in the cache. Its data came from memory, or its loop was limited by something other than arithmetic, "
        "which hides the cost of the root. In the cache this cost is visible."
    )
    in_memory = " In memory, where all functions are limited by bandwidth, it holds." if memory_relu <= 1.02 else ""
    return [
        claim(
            "table3.elu",
            elu >= SLACK * paper["isrlu_advantage"]["ELU"],
            elu_text,
            "ISRLU is faster than ELU, but by less than in the paper. It is accurate to 1.5 ulp for every input, "
            "and xsimd's expm1 is faster than the exponential in the paper's ELU.",
        ),
        claim("table3.relu", relu <= 1.01, f"it takes {relu_text}", why + in_memory),
        claim("table3.isru", isru <= 1.01, f"it takes {isru_text}", why),
        claim(
            "table3.approx",
            approx >= SLACK * paper["approx_advantage"]["ELU"] and full >= SLACK * paper["approx_advantage"]["ISRLU"],
            f"ELU takes {approx_text} ISRLU takes {full_text}",
            "The faster the exact ISRLU and the exponential are, the smaller is the advantage of the bare estimate.",
        ),
    ]


def _notes(cache: dict[str, Sample]) -> list[str]:
    size = SIZES["in the cache"]
    exp = cache["exp"].median / size * 1e9
    return [
        "A row is as in the paper if both advantages are at least 95 % of the paper's. An advantage is the row's time "
        "divided by that of ISRLU (or ISRLU (approx.)): above 1, ISRLU is faster than the row.",
        "ELU uses xsimd's expm1, which is accurate near 0 where exp(x) - 1 is not. The exponential alone takes "
        f"{exp:.3f} ns, a lower bound for any ELU that calls it: "
        f"{exp / (cache['ISRLU'].median / size * 1e9):.2f} times ISRLU's time.",
        "The paper does not state its size. The smaller size stays in the second-level cache; the larger one is read "
        "from and written to memory, where every function takes about as long as ReLU.",
    ]
