"""Launch the Triton kernels for tensors on GPUs. The gate of all tensors, core/python/torch_activation.cpp, calls it.

Triton is imported at the first call. If it is missing or can't run, the gate stops taking tensors on GPUs: the formula
in torch ops then computes them, and one warning says so.
"""

import contextlib
import struct
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from isrlu import _core
from isrlu._checks import METHODS
from isrlu._missing import install_extra
from isrlu.signal import sisrlu_constants

DEVICES = {"cuda": 2, "rocm": 10, "xpu": 14}  # DLPack's numbers (DLDeviceType)
OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}  # a product and a sum are rounded as written
TILE_BYTES = {"cuda": 2048, "hip": 4096, "xpu": 2048}  # 128 bits for each of 4 x 32 or 4 x 64 threads
ROWS = 16  # tiles below each other that one program takes where channels are columns
REGISTERS = 56  # of a thread: 64 would halve the occupancy of NVIDIA's GPUs
MOST_PROGRAMS = {"cuda": 2**31 - 1, "hip": 2**24 - 1, "xpu": 2**31 - 1}  # HIP: below 2^32 threads, 256 in a program
LARGEST = torch.finfo(torch.float32).max
WIDEST = 2**31 - 2**16  # columns that are counted in 32 bits
FUNCTIONS = ("isrlu", "isru", "isru_sigmoid", "sisrlu")
# the kernel's number in the C++ core -> (function, whether the estimate of 1/sqrt is corrected)
KERNELS = {
    _core.activation_kernel(name, method): (name, method != "approx") for name in FUNCTIONS for method in METHODS
}

_state = {"launched": False}  # whether a launch has succeeded


def forward(x: Tensor, y: Tensor, kernel: int, alpha: float | Tensor) -> bool:
    """y = f(x), for dense x and y of one layout; y may be x. False if the kernels can't run here."""

    def launch() -> bool:
        from isrlu.torch import _triton_kernels as kernels

        tiles = divide(x, alpha, tile_of(x), ROWS)
        if tiles.programs > most_programs(x):
            return False
        kernels.forward_kernel[(tiles.programs,)](
            x, y, *_alpha(alpha, x, kernel), *tiles.sizes, *_constants(kernel, alpha),
            tiles.channel, **options(x, tiles),
        )  # fmt: skip
        return True

    return first_or_raise(x, launch)


def backward(
    saved: Tensor, grad: Tensor, out: Tensor, kernel: int, alpha: float | Tensor, from_output: bool, wants_alpha: bool
) -> Tensor | None:
    """out = grad f'(x), from `saved` = x or, if from_output, f(x). Returns the gradient of alpha, if it is wanted.

    Each program stores a sum of its own, and a second kernel adds these: the order of the terms depends on the shape
    alone.
    """
    from isrlu.torch import _triton_kernels as kernels

    tiles = divide(saved, alpha, tile_of(saved), ROWS)
    partials = None
    if wants_alpha and isinstance(alpha, Tensor):
        partials = torch.empty(tiles.partials, dtype=alpha.dtype, device=alpha.device)
    with on_device_of(saved):
        kernels.backward_kernel[(tiles.programs,)](
            saved, grad, out, partials, *_alpha(alpha, saved, kernel), *tiles.sizes, *_constants(kernel, alpha),
            from_output, tiles.channel, **options(saved, tiles),
        )  # fmt: skip
    return None if partials is None else partials.sum((0, 2)).view_as(alpha)  # type: ignore[arg-type]


def first_or_raise(x: Tensor, launch: Callable[[], bool]) -> bool:
    """launch() on the device of x. If Triton is missing, or the first launch fails: a warning, and False ever after."""
    if not _state["launched"] and "tensorflow" in sys.modules and "triton" not in sys.modules:
        return _give_up("Triton can't be imported after TensorFlow; import triton first")  # the process would be killed
    try:
        with on_device_of(x):
            done = launch()
    except Exception as error:
        if _state["launched"]:
            raise
        if isinstance(error, ImportError):
            return _give_up(f"Triton is missing ({error}); {install_extra('gpu')}")
        return _give_up(f"Triton can't run here ({type(error).__name__}: {str(error).strip().partition(chr(10))[0]})")
    _state["launched"] = _state["launched"] or done
    return done


def _give_up(reason: str) -> bool:
    """False, said once: from now on the gate takes no tensor on a GPU."""
    _core.set_launch_devices([])
    warnings.warn(f"isrlu.torch computes on this GPU by the slower formula in torch ops: {reason}", stacklevel=4)
    return False


def on_device_of(x: Tensor) -> Any:
    """Triton launches on the current stream of the current device."""
    index = x.get_device()
    if index < 0 or index == torch.accelerator.current_device_index():
        return contextlib.nullcontext()
    return torch.accelerator.device_index(index)


def tile_of(x: Tensor) -> int:
    """Elements of a tile."""
    return TILE_BYTES[_backend(x)] // x.element_size()


def most_programs(x: Tensor) -> int:
    """The largest grid of this backend."""
    return MOST_PROGRAMS[_backend(x)]


def _backend(x: Tensor) -> str:
    """Triton's name for it. CPU tensors, which its interpreter takes, count as those of an NVIDIA GPU."""
    return "hip" if torch.version.hip else "xpu" if x.is_xpu else "cuda"


def options(x: Tensor, tiles: "Tiles") -> dict[str, Any]:
    """What the kernels are compiled with for these tiles."""
    return compiled_with(_backend(x), x.element_size(), tiles.rows)


def compiled_with(backend: str, item_bytes: int, rows: int) -> dict[str, Any]:
    """The same. Where a program takes several rows, it keeps channels and sums in registers, and room is short.

    Parts with a mask are then half a tile wide, because each of their elements has a load of its own. A limit of
    registers is for 16-bit data, of which a thread has 8 elements, and for float64. With it, float32 takes more: 48
    instead of 32 to 40.
    """
    tile, many = TILE_BYTES[backend] // item_bytes, rows > 1
    limit = {"maxnreg": REGISTERS} if many and backend == "cuda" and item_bytes != 4 else {}
    return {"ROWS": rows, "TILE": tile, "PART": tile // 2 if many else tile, **OPTIONS, **limit}


class Tiles(NamedTuple):
    """How dense data [outer, channels, inner] are divided among programs. See `load_alpha` of the kernels."""

    channel: str  # "one", "row" or "column"
    programs: int
    rows: int  # tiles below each other that one program takes
    sizes: tuple[int, int, int, int, int, int]  # size, rows, columns, blocks, inner, channels
    partials: tuple[int, int, int]  # the shape of the partial sums: all but the middle dim are summed


def divide(x: Tensor, alpha: float | Tensor, tile: int, rows: int) -> Tiles:
    """The tiles for x and a number, one alpha, or one per channel. `rows` is used where channels are columns.

    A channel of a tile or more is a row. Smaller ones are columns: 16 or more groups of channels make a row, so that
    every row starts at a multiple of 16 elements and few lanes of its last tile are idle.
    """
    size = x.numel()
    channels = alpha.numel() if isinstance(alpha, Tensor) else 1
    if channels == 1:
        blocks = -(-size // tile)
        return Tiles("one", blocks, 1, (size, 1, blocks * tile, blocks, 1, 1), (1, 1, blocks))
    inner = x.stride(1)
    period = channels * inner
    if inner >= tile or period > WIDEST:
        blocks = -(-inner // tile)
        outer = size // period
        sizes = (size, outer * channels, inner, blocks, inner, channels)
        return Tiles("row", outer * channels * blocks, 1, sizes, (outer, channels, blocks))
    return divide_columns(size, channels, inner, tile, rows)


def divide_columns(size: int, channels: int, inner: int, tile: int, rows: int) -> Tiles:
    """The same for small channels, which are columns."""
    period = channels * inner
    groups = 1 if period >= 16 * tile else 16 * -(-tile // period)
    columns = min(groups * period, size)
    blocks = -(-columns // tile)
    height = -(-size // columns)
    strips = -(-height // rows)
    sizes = (size, height, columns, blocks, inner, channels)
    return Tiles("column", strips * blocks, rows, sizes, (strips * columns // period, channels, inner))


def _alpha(alpha: float | Tensor, x: Tensor, kernel: int) -> tuple[Tensor | None, int]:
    """(tensor, bits of a number), of which the kernels use one."""
    if isinstance(alpha, Tensor):
        return alpha, 0
    return None, bits(0.25 if KERNELS[kernel][0] == "isru_sigmoid" else alpha, x)


def bits(number: float, x: Tensor) -> int:
    """The bits of a number in the dtype of the computation."""
    if x.dtype is torch.float64:
        return struct.unpack("q", struct.pack("d", number))[0]
    return struct.unpack("i", struct.pack("f", max(-LARGEST, min(number, LARGEST))))[0]


def _constants(kernel: int, alpha: float | Tensor) -> tuple[str, bool, float, float]:
    """FUNCTION, FULL, POSITIVE and NEGATIVE of the kernels. For another alpha of sisrlu they are compiled again."""
    function, full = KERNELS[kernel]
    if function == "sisrlu":
        assert not isinstance(alpha, Tensor)
        beta, scale = sisrlu_constants(float(alpha))
        return "isrlu", full, scale, scale * beta
    return function, full, 1.0, 1.0


_core.set_launch_devices(list(DEVICES.values()))
