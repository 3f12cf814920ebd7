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

from isrlu.torch import _triton
from isrlu_lab.measure import gpu_code_bench
from isrlu_lab.measure.gpu_code_bench import POINTER, compile_for, count

TARGETS = gpu_code_bench.TARGETS
LOADS = {"forward": 1, "backward": 2}


def check(figures: dict[str, float], direction: str, dtype: str) -> None:
    """One load and one store of 128 bits per thread (backward: two and one), no division, no spill."""
    assert figures["loads"] == LOADS[direction] and figures["stores"] == 1
    assert figures["divisions"] == 0 or dtype == "float64"
    assert figures["spills"] == 0


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("target", TARGETS)
def test_memory_traffic_is_that_of_relu(target, dtype) -> None:
    for row in gpu_code_bench.run((target,), (dtype,)):
        check(row.figures, row.direction, dtype)
        sums = row.contender == "dyisru" and row.direction == "backward"  # four sums are kept beside the data
        assert row.occupancy >= 0.25 if sums else row.occupancy > 0.5
        assert (row.rsqrt >= 1) == (row.contender not in gpu_code_bench.RIVALS) and row.rsqrt < 3


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("target", TARGETS)
def test_other_dtypes(target, dtype) -> None:
    for direction in LOADS:
        figures = count(compile_for(target, "isrlu", direction, dtype), dtype)
        check(figures, direction, dtype)
        assert figures["occupancy"] > 0.5


@pytest.mark.parametrize("target", TARGETS)
def test_in_place_and_one_alpha(target) -> None:
    for options in ({"FROM_OUTPUT": True}, {"alphas": POINTER, "partials": POINTER}, {"FULL": False}):
        figures = count(compile_for(target, "isru", "backward", "float32", **options), "float32")
        check(figures, "backward", "float32")
        assert figures["occupancy"] > 0.5


@pytest.mark.parametrize("channel", ["row", "column"])
@pytest.mark.parametrize("target", TARGETS)
def test_alpha_per_channel(target, channel) -> None:
    options = {"alphas": POINTER, "partials": POINTER, "CHANNEL": channel, "ROWS": 16 if channel == "column" else 1}
    compiled = compile_for(target, "isrlu", "backward", "float32", **options)
    code = compiled.asm["ptx" if target.startswith("sm") else "amdgcn"]
    assert not re.search(r"\batom|\bred\.global|_atomic_", code)  # the sums are deterministic
    wide = r"(?:ld\.global\.v4\.b32|(?:global|buffer)_load_dwordx4)"
    assert len(re.findall(wide, code)) == 2


def test_offsets_are_64_bits() -> None:
    code = compile_for("sm_80", "isrlu", "forward", "float16").asm["ttir"]
    assert re.search(r"arith\.muli .* : i64", code)
    assert re.search(r"tt\.addptr %x, .* : !tt\.ptr<f16>, i64", code)


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
