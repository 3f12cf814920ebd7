"""Table 1: cycles per output element of 5x5, 3x3 and 3x1 filters, and their numbers of multiplies and adds."""

import importlib.util
import time

import numpy as np

import isrlu
import isrlu_lab._measure as _measure
from isrlu_lab.experiments import numbers
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Claim, Column, Result, Table, claim
from isrlu_lab.measure import cycle_timer, kernel_bench

SIDE = 132  # pixels; input and output take 68 KiB each and stay in the cache, so memory speed is not measured
CHANNELS = 32
IN_STEP = 1 / 3  # a row is "in step" if its cycles per multiply differ by at most this fraction from those of 5x5


def run(context: Context) -> Result:
    """Time the direct convolution in every instruction set, the exponential in the best one, and torch's conv2d."""
    paper = numbers.table("table1")["filters"]
    simds = [name for name in isrlu.simd_available() if name != "scalar"] or ["scalar"]
    best = simds[-1]
    context.progress("convolutions")
    runs = {f"{name} {simd}": _direct(name, simd) for name in paper for simd in simds}
    runs["exp"] = kernel_bench.job(best, kernel_bench.Contender("exp"), SIDE * SIDE)
    outputs = {name: (SIDE - int(name[0]) + 1) * (SIDE - int(name[2]) + 1) for name in paper}
    torch = importlib.util.find_spec("torch") is not None
    if torch:
        for name in paper:
            runs[f"{name} torch"], runs[f"{name} channels"] = _torch(name, 1), _torch(name, CHANNELS)
    samples = cycle_timer.measure(runs, rounds=cycle_timer.ROUNDS[context.full])

    def cpe(name: str, what: str, share: int = 1) -> float:
        return cycle_timer.cycles(samples, f"{name} {what}", outputs[name] * share)

    exponential = cycle_timer.cycles(samples, "exp", SIDE * SIDE)
    columns = [
        Column("convolution"),
        Column("multiplies", "paper"),
        Column("adds", "paper"),
        Column("cycles per output element", "paper", "{:.2f}", bar=True),
        *(Column(f"direct, {simd}", "here", "{:.2f}", bar=True) for simd in simds),
        Column(f"direct, {best}", "spread", "± {:.1f} %"),
    ]
    if torch:
        columns.append(Column("torch, 1 channel", "here", "{:.2f}"))
        columns.append(Column(f"torch, {CHANNELS}→{CHANNELS} channels, per pair", "here", "{:.3f}"))
    columns += [Column("cycles per multiply", "here", "{:.3f}"), Column("in step", "verdict")]
    rows: list[list[Cell]] = []
    step = cpe("5x5", best) / paper["5x5"]["multiplies"]
    for name, known in paper.items():
        each = cpe(name, best) / known["multiplies"]
        row: list[Cell] = [name, known["multiplies"], known["adds"], known["cycles"]]
        row += [cpe(name, simd) for simd in simds]
        row.append(100 * samples[f"{name} {best}"].spread)
        if torch:
            row += [cpe(name, "torch"), cpe(name, "channels", CHANNELS * CHANNELS)]
        rows.append([*row, each, "holds" if abs(each / step - 1) <= IN_STEP else "does not"])
    cpu = numbers.table("table1")["cpu"]
    caption = f"Table 1: cycles per output element, one thread, {SIDE} x {SIDE} image (paper: {cpu})"
    return Result(
        [Table(caption, columns, rows)],
        _claims(rows, cpe("3x1", best), exponential, best),
        notes=[*cycle_timer.remarks(samples), *_notes(rows, simds, torch)],
        environment={
            "clock_ghz": cycle_timer.clock_ghz(samples),
            "largest_spread": cycle_timer.largest_spread(samples),
            "threads_used": 1,
        },
    )


def _direct(name: str, simd: str) -> cycle_timer.Run:
    """A timed run of this project's convolution, after a check against a float64 convolution."""
    height, width = int(name[0]), int(name[2])
    random = np.random.default_rng(1)
    shape = (SIDE - height + 1, SIDE - width + 1)
    weights = random.standard_normal((height, width), dtype=np.float32)
    image = kernel_bench.placed(random.standard_normal(SIDE * SIDE), np.dtype(np.float32), 0)
    out = kernel_bench.placed(np.zeros(shape[0] * shape[1]), np.dtype(np.float32), 2048).reshape(shape)

    def run(loops: int) -> float:
        arrays = [array.ctypes.data for array in (image, weights, out)]
        return _measure.time_convolution(simd, name, *arrays, SIDE, SIDE, loops)

    run(1)
    windows = np.lib.stride_tricks.sliding_window_view(image.reshape(SIDE, SIDE).astype(np.float64), (height, width))
    want = np.einsum("yxij,ij->yx", windows, weights.astype(np.float64))
    if not np.allclose(out, want, rtol=1e-4, atol=1e-4):
        raise RuntimeError(f"the {name} convolution in {simd} is wrong, so it is not timed")
    return run


def _torch(name: str, channels: int) -> cycle_timer.Run:
    """A timed run of torch's conv2d on an image of the same size, on one thread."""
    import torch

    image = torch.randn(1, channels, SIDE, SIDE)
    weights = torch.randn(channels, channels, int(name[0]), int(name[2]))

    def run(loops: int) -> float:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.inference_mode():
                start = time.perf_counter()
                for _ in range(loops):
                    torch.nn.functional.conv2d(image, weights)
                return time.perf_counter() - start
        finally:
            torch.set_num_threads(threads)

    return run


def _claims(rows: list[list[Cell]], filter3x1: float, exponential: float, best: str) -> list[Claim]:
    each = [_number(row[-2]) for row in rows]
    quotient = exponential / filter3x1
    return [
        claim(
            "table1.work",
            all(row[-1] == "holds" for row in rows),
            f"{each[0]:.3f}, {each[1]:.3f} and {each[2]:.3f} cycles per multiply ({best}).",
            f"A smaller filter does less work per value that it loads and stores, so its cycles fall by less than its "
            f"multiplies do, by up to {max(each) / each[0] - 1:.0%}.",
        ),
        claim(
            "table1.elu3x1",
            2 / 3 <= quotient <= 3 / 2,
            f"{filter3x1:.2f} cycles for the filter, {exponential:.2f} for the exponential ({best}): {quotient:.1f}×.",
            "The paper compares MKL's exponential in mode EP on AVX-512 (0.52 cycles, half of the bits accurate) with "
            "its 3x1 filter (0.51). In this project both run in the same instruction set. xsimd's exponential is "
            "accurate to the last bits and takes longer than the filter, so the activation has an even larger share of "
            "the time than the paper says."
            if quotient > 1
            else "The exponential is cheaper than the filter.",
        ),
    ]


def _number(cell: Cell) -> float:
    assert isinstance(cell, (int, float))
    return cell


def _notes(rows: list[list[Cell]], simds: list[str], torch: bool) -> list[str]:
    notes = [
        "The direct convolution keeps eight batches of sums in registers and takes its weights from memory: one "
        "load serves one multiply-add. A row is in step if its cycles per multiply are within a third of those of 5x5.",
    ]
    narrow = [_number(row[4 + simds.index("sse2")]) for row in rows] if "sse2" in simds[:-1] else []
    if narrow and all(abs(here / _number(row[3]) - 1) < 0.3 for here, row in zip(narrow, rows, strict=True)):
        notes.append(
            "The paper does not name its convolution. SSE2 (four lanes, separate multiply and add) takes "
            f"{', '.join(f'{here:.2f}' for here in narrow)} cycles; the paper's are 4.25, 1.53 and 0.51. "
            "Wider registers with fused multiply-add take fewer."
        )
    if torch:
        notes.append(
            "torch's conv2d uses a memory layout for many channels, which makes one channel slow. With "
            f"{CHANNELS} channels the cost per pair of channels is that of a matrix product."
        )
    return notes
