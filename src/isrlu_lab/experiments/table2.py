"""Table 2: cycles per element of InvSqrt, Exp and Tanh for each instruction set, and the ratios to InvSqrt."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import isrlu
from isrlu._checks import METHODS
from isrlu_lab.environment import cpu_name
from isrlu_lab.experiments import mkl, numbers
from isrlu_lab.experiments.accuracy import WORDS
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Claim, Column, Result, Table, claim
from isrlu_lab.measure import cycle_timer
from isrlu_lab.measure.kernel_bench import Contender, job, placed
from isrlu_lab.measure.timer import Sample, ratio

SIZE = 2048  # elements: 8 KiB in and 8 KiB out fit in the first-level cache, as in Intel's measurements
MKL_SIZE = 16384  # elements: enough to make the cost of a call from Python negligible
ROWS = ("InvSqrt", "Exp", "Tanh")
RATIOS = ("Exp/InvSqrt", "Tanh/InvSqrt")
CONTENDERS = {"InvSqrt": Contender("rsqrt"), "Exp": Contender("exp"), "Tanh": Contender("tanh")}
EXACT: dict[str, Callable[..., Any]] = {"InvSqrt": lambda x: 1 / np.sqrt(x), "Exp": np.exp, "Tanh": np.tanh}


def run(context: Context) -> Result:
    """Time the three functions in every instruction set of this CPU and in MKL, and each inverse square root method."""
    simds = list(isrlu.simd_available())
    best = simds[-1]
    runs = {f"{name} {simd}": job(simd, CONTENDERS[name], SIZE) for simd in simds for name in ROWS}
    runs |= {f"{method} {best}": job(best, Contender("rsqrt", method), SIZE) for method in METHODS}
    errors = {}
    if mkl.library() is not None:
        for name in ROWS:
            runs[f"{name} mkl"], errors[name] = _mkl(name)
    context.progress(f"{len(runs)} contenders")
    samples = cycle_timer.measure(runs, rounds=cycle_timer.ROUNDS[context.full])

    table = _table(samples, simds, best, mkl=bool(errors))
    return Result(
        [table, _methods(samples, best)],
        _claims(samples, simds, best, bool(errors)),
        notes=[*cycle_timer.remarks(samples), *_notes(errors)],
        seeds=[0],
        environment={
            "clock_ghz": cycle_timer.clock_ghz(samples),
            "largest_spread": cycle_timer.largest_spread(samples),
            "threads_used": 1,
            **({"mkl": mkl.version()} if errors else {}),
        },
    )


def _mkl(name: str) -> tuple[cycle_timer.Run, float]:
    """A timed run of MKL's function, and its largest relative error."""
    x = np.random.default_rng(0).standard_normal(MKL_SIZE)
    src = placed(np.abs(x) + 0.1 if name == "InvSqrt" else x, np.dtype(np.float32), 0)
    dst = placed(np.zeros(MKL_SIZE), src.dtype, 2048)
    call = mkl.function(name)
    call(src, dst)
    want = EXACT[name](src.astype(np.float64))
    np.testing.assert_allclose(dst, want, rtol=5e-3, err_msg=f"MKL's {name}")

    def run(loops: int) -> float:
        start = time.perf_counter()
        for _ in range(loops):
            call(src, dst)
        return time.perf_counter() - start

    return run, float(np.max(np.abs(dst / want - 1)))


def _cycles(samples: dict[str, Sample], name: str, where: str) -> float:
    """Cycles per element of a function, or the ratio of two functions ("Exp/InvSqrt")."""
    if "/" in name:
        slow, _, fast = name.partition("/")
        return ratio(samples, f"{slow} {where}", f"{fast} {where}")
    return cycle_timer.cycles(samples, f"{name} {where}", MKL_SIZE if where == "mkl" else SIZE)


def _table(samples: dict[str, Sample], simds: list[str], best: str, *, mkl: bool) -> Table:
    paper = {key: value for key, value in numbers.table("table2").items() if isinstance(value, dict)}
    places = [*simds, *(["mkl"] if mkl else [])]
    columns = [
        Column("cycles per element"),
        *(Column(f"{key.capitalize()} {cpu['simd']}", "paper", "{:.2f}") for key, cpu in paper.items()),
        *(Column("MKL, EP" if place == "mkl" else place, "here", "{:.2f}") for place in places),
        Column(best, "spread", "± {:.1f} %"),
        Column("InvSqrt is faster", "verdict"),
    ]
    rows: list[list[Cell]] = []
    for name in (*ROWS, *RATIOS):
        here = [_cycles(samples, name, place) for place in places]
        slow, _, fast = name.partition("/")
        if fast:
            spread = cycle_timer.ratio_spread(samples, f"{slow} {best}", f"{fast} {best}")
            verdict = "holds" if here[simds.index(best)] * (1 - spread) > 1 else "does not"
        else:
            spread, verdict = samples[f"{name} {best}"].spread, None
        rows.append([name, *(cpu[name] for cpu in paper.values()), *here, 100 * spread, verdict])
    return Table("Table 2: vector inverse square root, exponential and tanh, single precision", columns, rows)


def _methods(samples: dict[str, Sample], best: str) -> Table:
    columns = [
        Column("1/sqrt(x) by"),
        Column("method"),
        Column("cycles per element", "here", "{:.2f}", bar=True),
        Column("cycles per element", "spread", "± {:.1f} %"),
        Column("time of Exp", "here", "{:.1f}×"),
        Column("time of Tanh", "here", "{:.1f}×"),
    ]
    rows: list[list[Cell]] = []
    for method in METHODS:
        name = f"{method} {best}"
        ratios = [ratio(samples, f"{slow} {best}", name) for slow in ("Exp", "Tanh")]
        rows.append(
            [WORDS[method], method, cycle_timer.cycles(samples, name, SIZE), 100 * samples[name].spread, *ratios]
        )
    return Table(f"Beyond the paper: methods for the inverse square root on {best}", columns, rows)


def _claims(samples: dict[str, Sample], simds: list[str], best: str, mkl: bool) -> list[Claim]:
    vector = [simd for simd in simds if simd != "scalar"] or simds
    exp = {simd: _cycles(samples, "Exp/InvSqrt", simd) for simd in vector}
    tanh = {simd: _cycles(samples, "Tanh/InvSqrt", simd) for simd in vector}
    also = {name: f"; MKL {_cycles(samples, name, 'mkl'):.2f}" if mkl else "" for name in RATIOS}
    estimate = ratio(samples, f"Tanh {best}", f"approx {best}")
    spread = cycle_timer.ratio_spread(samples, f"Exp {best}", f"InvSqrt {best}")
    return [
        claim(
            "table2.exp",
            exp[best] * (1 - spread) > 1,
            ", ".join(f"{simd} {value:.2f} times" for simd, value in exp.items()) + also["Exp/InvSqrt"] + ".",
            "Here 1/sqrt(x) is accurate to the last bits for every float32, subnormal numbers, 0 and infinity among "
            "them. The methods with fewer accurate bits are faster: see the ways to the inverse square root.",
        ),
        claim(
            "table2.tanh",
            tanh[best] >= 3,
            ", ".join(f"{simd} {value:.2f} times" for simd, value in tanh.items()) + also["Tanh/InvSqrt"] + ".",
            "The inverse square root is faster, but less than 3 times as fast. The paper's numbers are those of MKL's "
            "mode EP, in which half of the bits are accurate; in this project both are accurate to the last bits. "
            f"Compared with the hardware's estimate, which is closest to EP, tanh takes {estimate:.1f} times as long.",
        ),
    ]


def _notes(errors: dict[str, float]) -> list[str]:
    notes = [
        "The paper's numbers are Intel's published figures for MKL's vector functions in mode EP, in which "
        "about half of a result's bits are accurate. The columns of instruction sets time this project's 1/sqrt(x) and "
        f"xsimd's exp and tanh, all accurate to the last bits, on {SIZE} elements in the first-level cache.",
    ]
    if not errors:
        return [*notes, "There is no MKL column because the PyPI package `mkl` is not installed."]
    worst = max(errors.values())
    text = f"MKL {mkl.version()} was asked for mode EP; its largest relative error is {worst:.0e}."
    if "intel" not in cpu_name().lower():
        text += (
            " On this CPU, which is not from Intel, MKL uses a generic code path instead of its tuned ones"
            + (", and that path is accurate to the last bits even in mode EP" if worst < 1e-6 else "")
            + ". The column does not show MKL's speed on an Intel CPU."
        )
    return [*notes, text]
