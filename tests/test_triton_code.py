"""What Triton's compiler makes of the kernels, for GPUs that are not here: read from PTX and AMDGCN.

pytest tests/test_triton_code.py      where triton is installed and TensorFlow is not (.ci/run does it)
"""

import importlib.util
import os
import re

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs triton: pip install 'isrlu[gpu]', without tensorflow", allow_module_level=True)
if importlib.util.find_spec("tensorflow") is not None:
    pytest.skip("triton and tensorflow in one process abort", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter compiles nothing", allow_module_level=True)

import triton

from isrlu.torch import _triton
from isrlu_lab.measure import gpu_code_bench
from isrlu_lab.measure.gpu_code_bench import POINTER, compile_for, count

TARGETS = gpu_code_bench.TARGETS
LOADS = {"forward": 1, "backward": 2}
OLDER = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)


def check(figures: dict[str, float], direction: str, dtype: str) -> None:
    """One load and one store of 128 bits per thread (backward: two and one), no division, no spill, few registers."""
    assert figures["loads"] == LOADS[direction] and figures["stores"] == 1
    assert figures["divisions"] == 0 or dtype == "float64"
    assert figures["spills"] == 0
    assert figures["occupancy"] > 0.5


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("target", TARGETS)
def test_memory_traffic_is_that_of_relu(target, dtype) -> None:
    for row in gpu_code_bench.run((target,), (dtype,)):
        check(row.figures, row.direction, dtype)
        assert (row.rsqrt >= 1) == (row.contender not in gpu_code_bench.RIVALS) and row.rsqrt < 3


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("target", TARGETS)
def test_other_dtypes(target, dtype) -> None:
    for function in ("isrlu", "dyisru"):
        for direction in LOADS:
            figures = count(compile_for(target, function, direction, dtype), dtype)
            if (target, function, direction, dtype) == ("sm_80", "dyisru", "backward", "float64") and OLDER:
                assert figures.pop("spills") <= 8  # one number, which tiles with a mask load once per part
            check({"spills": 0, **figures}, direction, dtype)


@pytest.mark.parametrize("target", TARGETS)
def test_in_place_and_one_alpha(target) -> None:
    for options in ({"FROM_OUTPUT": True}, {"alphas": POINTER, "partials": POINTER}, {"FULL": False}):
        check(count(compile_for(target, "isru", "backward", "float32", **options), "float32"), "backward", "float32")


@pytest.mark.parametrize(
    ("channel", "dtype"), [("row", "float32"), *(("column", each) for each in ("float16", "float32", "float64"))]
)
@pytest.mark.parametrize("target", TARGETS)
def test_alpha_per_channel(target, channel, dtype) -> None:
    options = {"alphas": POINTER, "CHANNEL": channel}
    kernels = [("forward", compile_for(target, "isrlu", "forward", dtype, **options))]
    for from_output in (False, True):
        options |= {"partials": POINTER, "FROM_OUTPUT": from_output}
        kernels.append(("backward", compile_for(target, "isrlu", "backward", dtype, **options)))
    for direction, compiled in kernels:
        figures = count(compiled, dtype)
        if channel == "row":  # AMD divides integers by a reciprocal: once in a thread, for the channel's number
            assert figures.pop("divisions") <= 0.25
        check({"divisions": 0, **figures}, direction, dtype)
        assert no_atomics(compiled)


def no_atomics(compiled) -> bool:
    """Then the order of a sum is that of the code: the same in every run."""
    code = compiled.asm["ptx" if "ptx" in compiled.asm else "amdgcn"]
    return not re.search(r"\batom|\bred\.global|_atomic_", code)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_dyisru_are_deterministic(target) -> None:
    assert no_atomics(compile_for(target, "dyisru", "backward", "float32"))


@pytest.mark.parametrize("direction", LOADS)
@pytest.mark.parametrize(
    ("function", "channel"), [("isrlu", "one"), ("isrlu", "row"), ("isrlu", "column"), ("dyisru", "")]
)
def test_offsets_are_64_bits(function, channel, direction) -> None:
    """The first element of every tile of data or of sums is found by a 64-bit number; 32 bits count within a row."""
    options = {} if function == "dyisru" else {"CHANNEL": channel}
    if channel in ("row", "column"):
        options |= {"alphas": POINTER, "partials": POINTER}
    code = compile_for("sm_80", function, direction, "float16", **options).asm["ttir"]
    large = ["x", "y"] if direction == "forward" else ["grad", "out", "x" if function == "dyisru" else "saved"]
    large += ["scales"] if (function, direction) == ("dyisru", "backward") else []
    large += ["partials"] if (channel, direction) == ("column", "backward") else []
    for name in large:
        widths = re.findall(rf"tt\.addptr %{name}, .* : !tt\.ptr<\w+>, (i\d+)", code)
        assert widths and {*widths} == {"i64"}, name
    assert not re.search(r"arith\.muli .*%columns.* : i32", code)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_subnormals(target) -> None:
    """Only the estimate flushes subnormals, and its argument is never one. Products and sums keep them."""
    for function in _triton.FUNCTIONS:
        for direction in LOADS:
            code = compile_for(target, function, direction, "float32").asm["ptx"]
            assert {*re.findall(r"\S+\.ftz\S*", code)} == {"rsqrt.approx.ftz.f32"}
    narrow = compile_for(target, "isrlu", "forward", "bfloat16").asm["ptx"]
    assert re.search(r"cvt\.rn\.bf16(x2)?\.f32", narrow)


def test_nothing_is_fused_but_what_is_written() -> None:
    """So the interpreter, in which the values are tested, rounds as the hardware does."""
    code = compile_for("sm_80", "isrlu", "forward", "float32").asm["ptx"]
    elements, paths = 4, 2
    assert len(re.findall(r"\bfma\.rn\.f32", code)) == 4 * elements * paths
    assert not re.search(r"\s(mul|add|sub)\.f32", code)  # without .rn, ptxas may fuse
