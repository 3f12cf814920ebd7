"""What a GPU executes for the Triton kernels, beside ReLU and ELU written the same way: read from the machine code.

Triton compiles for a GPU that is not there. Counted are the instructions of the path for whole tiles.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from isrlu.signal import SISRLU_ALPHA
from isrlu.torch import _formula, _triton, _triton_kernels, _triton_norm_kernels
from isrlu_lab.measure import gpu_rival_kernels
from isrlu_lab.measure.measurement import Measurement
from isrlu_lab.measure.printer import Column, Layout, Tables, label_columns

TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}
DTYPES = {"float32": ("fp32", 4), "float16": ("fp16", 2), "bfloat16": ("bf16", 2), "float64": ("fp64", 8)}
RIVALS = ("relu", "elu")
FUNCTIONS = (*RIVALS, *_triton.FUNCTIONS, "dyisru")
DIRECTIONS = ("forward", "backward")
THREADS_PER_SM, REGISTERS_PER_SM = 2048, 65536  # sm_80 and sm_90
WAVES_PER_SIMD, REGISTERS_PER_LANE = 8, 512  # gfx942

LAYOUT = Layout(
    title=lambda m: f"{m.target}, {m.dtype}, {m.direction}",
    labels=label_columns("contender"),
    figures=[
        Column("128-bit loads", lambda m: f"{m.loads:g}"),
        Column("128-bit stores", lambda m: f"{m.stores:g}"),
        Column("1/sqrt", lambda m: f"{m.rsqrt:g}"),
        Column("divisions", lambda m: f"{m.divisions:g}"),
        Column("arithmetic", lambda m: f"{m.arithmetic:g}"),
        Column("registers", lambda m: str(m.registers)),
        Column("spills", lambda m: str(m.spills)),
        Column("occupancy", lambda m: f"{m.occupancy:.0%}"),
    ],
)


def bench(*, progress: Callable[[str], None]) -> Tables:
    """`isrlu bench gpu-code`"""
    return [(LAYOUT, run(progress=progress))]


def run(
    targets: Iterable[str] = TARGETS,
    dtypes: Iterable[str] = ("float32", "float16"),
    progress: Callable[[str], None] = lambda _: None,
) -> list[Measurement]:
    """Every function in both directions.

    Loads and stores are those of a thread, whose share of a tile is 128 bits: 1 is one per element. Operations are per
    element.
    """
    found = []
    for target in targets:
        for dtype in dtypes:
            for direction in DIRECTIONS:
                for function in FUNCTIONS:
                    progress(f"{target}, {dtype}, {direction}, {function}")
                    labels = {"target": target, "dtype": dtype, "direction": direction, "contender": function}
                    found.append(Measurement(labels, count(compile_for(target, function, direction, dtype), dtype)))
    return found


def compile_for(target: str, function: str, direction: str, dtype: str, **options: Any) -> Any:
    """The kernel, compiled as it is launched: for a number as alpha, or with `options` as its constants or POINTERs."""
    made = GPUTarget(*TARGETS[target])
    name, size = DTYPES[dtype]
    wide = "fp64" if dtype == "float64" else "fp32"
    kernel = _kernel(function, direction)
    positive, negative = _formula.sisrlu_scales(SISRLU_ALPHA) if function == "sisrlu" else (1.0, 1.0)
    constants = {"FUNCTION": function.replace("sisrlu", "isrlu"), "POSITIVE": positive, "NEGATIVE": negative}
    constants |= {"FULL": True, "FROM_OUTPUT": False, "CHANNEL": "one", "alphas": None, "partials": None}
    strips = function == "dyisru" or options.get("CHANNEL") == "column"
    compiled_with = _triton.compiled_with(made.backend, size, _triton.ROWS if strips else 1)
    constants |= {**compiled_with, **options}
    types = dict.fromkeys(("x", "y", "saved", "grad", "out", "weight", "bias", "alpha", "shift"), f"*{name}")
    types |= dict.fromkeys(("alphas", "partials", "scales", "numbers"), f"*{wide}")
    types |= dict.fromkeys(("bits", "alpha_bits", "shift_bits"), "i64" if wide == "fp64" else "i32")
    types |= {"size": "i64", "columns": "i64"}
    names = kernel.arg_names
    known = {each: constants[each] for each in names if each in constants and constants[each] is not POINTER}
    signature = {each: "constexpr" if each in known else types.get(each, "i32") for each in names}
    aligned = {
        (at,): [["tt.divisibility", 16]]
        for at, each in enumerate(names)
        if signature[each].startswith("*") or each == "columns"
    }
    source = ASTSource(kernel, signature, {(names.index(each),): value for each, value in known.items()}, aligned)
    made_with = {each: value for each, value in compiled_with.items() if each not in ("ROWS", "TILE", "PART")}
    return triton.compile(source, target=made, options=made_with)


def _kernel(function: str, direction: str) -> Any:
    if function == "dyisru":
        return getattr(_triton_norm_kernels, f"norm_{direction}_kernel")
    return getattr(gpu_rival_kernels if function in RIVALS else _triton_kernels, f"{direction}_kernel")


POINTER = object()  # for `alphas` and `partials` of compile_for: a tensor, not None


def count(compiled: Any, dtype: str) -> dict[str, float]:
    """Figures of one kernel."""
    backend = compiled.metadata.target.backend
    threads = 4 * compiled.metadata.target.warp_size
    elements = _triton.TILE_BYTES[backend] // DTYPES[dtype][1] / threads  # of one thread
    return (_count_ptx if backend == "cuda" else _count_amdgcn)(compiled, elements)


def _count_ptx(compiled: Any, elements: float) -> dict[str, float]:
    path = _whole_tiles(compiled.asm["ptx"], r"^\$L__BB|^\s+(?:@\S+ )?bra", r"ld\.global\.v", r"st\.global\.v")
    registers, spills = _resources(compiled.asm["cubin"])
    threads = min(THREADS_PER_SM, REGISTERS_PER_SM // (-(-registers // 8) * 8) // 128 * 128)
    return {
        "loads": _number(path, r"ld\.global\.(v4\.b32|v2\.b64)"),
        "stores": _number(path, r"st\.global\.(v4\.b32|v2\.b64)"),
        "rsqrt": _number(path, r"rsqrt\.approx\S*") / elements,
        "divisions": _number(path, r"\bdiv\.\S+\.f\d\d|\brcp\.\S+") / elements,
        "arithmetic": _number(path, r"^\s+\w+\.(?:\w+\.)*(?:f32|f64|f32x2|bf16|bf16x2|f16|f16x2)\s") / elements,
        "registers": registers,
        "spills": spills,
        "occupancy": threads / THREADS_PER_SM,
    }


def _count_amdgcn(compiled: Any, elements: float) -> dict[str, float]:
    code = compiled.asm["amdgcn"]
    path = _whole_tiles(
        code,
        r"^\.LBB|^\s+s_cbranch|^\s+s_branch",
        r"(?:global|buffer)_load_dwordx4",
        r"(?:global|buffer)_store_dwordx4",
    )
    registers = int(_value(code, "vgpr_count"))
    waves = min(WAVES_PER_SIMD, REGISTERS_PER_LANE // (-(-registers // 8) * 8))
    return {
        "loads": _number(path, r"(?:global|buffer)_load_dwordx4"),
        "stores": _number(path, r"(?:global|buffer)_store_dwordx4"),
        "rsqrt": _number(path, r"v_rsq_f\d\d") / elements,
        "divisions": _number(path, r"v_div_fixup_f\d\d|v_rcp_f\d\d") / elements,
        "arithmetic": _number(path, r"^\s+v_\w+_(?:f32|f64|f16)\w*\s") / elements,
        "registers": registers,
        "spills": int(_value(code, "vgpr_spill_count")) + int(_value(code, "sgpr_spill_count")),
        "occupancy": waves / WAVES_PER_SIMD,
    }


def _whole_tiles(code: str, boundary: str, load: str, store: str) -> str:
    """The basic block that loads and stores 128 bits at a time: of an unrolled loop, the one for the last tile."""
    blocks = [""]
    for line in code.splitlines():
        if re.match(boundary, line):
            blocks.append("")
        blocks[-1] += line + "\n"
    found = [block for block in blocks if re.search(f"{load}(?s:.)*{store}", block)]
    if not 1 <= len(found) <= 2:
        raise AssertionError(f"{len(found)} blocks load and store 128 bits at a time, expected 1, or 2 where unrolled")
    return min(found, key=lambda block: _number(block, store))


def _number(code: str, pattern: str) -> float:
    return float(len(re.findall(pattern, code, re.MULTILINE)))


def _value(code: str, name: str) -> str:
    found = re.search(rf"\.{name}:\s+(\d+)", code)
    assert found, f"no {name} in the code"
    return found[1]


def _resources(cubin: bytes) -> tuple[int, int]:
    """(registers, bytes of local memory, where spilled registers go), by the tool that comes with Triton."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text)
    assert found, text
    return int(found[1]), int(found[2]) + int(found[3])
