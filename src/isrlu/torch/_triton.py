"""Launch the Triton kernels for tensors on GPUs. The gate for all tensors, core/python/torch_activation.cpp, calls this.

Triton is imported at the first call. If it is missing or can't run, the gate stops taking tensors on GPUs: the formula
in torch ops then computes them, and one warning says so.
"""

import contextlib
import struct
import sys
import warnings
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from isrlu import _core
from isrlu._checks import METHODS

DEVICES = {"cuda": 2, "rocm": 10, "xpu": 14}  # DLPack's numbers (DLDeviceType)
OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}  # a product and a sum are rounded as written
MOST_PROGRAMS = 2**31 - 1
LARGEST = torch.finfo(torch.float32).max
WIDEST = 2**31 - 2**16  # columns that are counted in 32 bits
FUNCTIONS = ("isrlu", "isru", "isru_sigmoid")
# the kernel's number in the C++ core -> (function, whether the estimate of 1/sqrt is corrected)
TILES = "hip" if torch.version.hip else "cuda"
KERNELS = {_core.activation_kernel(name, method): (name, method != "approx") for name in FUNCTIONS for method in METHODS}

_state: dict[str, Any] = {"kernels": None, "launched": False}


def forward(x: Tensor, y: Tensor, kernel: int, alpha: float | Tensor) -> bool:
    """y = f(x), for dense x and y of one layout; y may be x. False if the kernels can't run here."""
    kernels = _load()
    if kernels is None:
        return False
    tiles = divide(x, alpha, kernels.TILE_BYTES[TILES] // x.element_size(), kernels.ROWS)
    if tiles.programs > MOST_PROGRAMS:
        return False
    function, full = KERNELS[kernel]
    try:
        with _on_device_of(x):
            kernels.forward_kernel[(tiles.programs,)](
                x, y, *_alpha(function, alpha, x), *tiles.sizes, function, full, tiles.channel, tiles.rows, tiles.tile, **OPTIONS
            )
    except Exception as error:
        if _state["launched"]:
            raise
        _give_up(f"Triton can't run here ({type(error).__name__}: {str(error).strip().partition(chr(10))[0]})")
        return False
    _state["launched"] = True
    return True


def backward(
    saved: Tensor, grad: Tensor, out: Tensor, kernel: int, alpha: float | Tensor, from_output: bool, wants_alpha: bool
) -> Tensor | None:
    """out = grad f'(x), from `saved` = x or, if from_output, f(x). Returns the gradient of alpha, if it is wanted.

    Each program stores a sum of its own, and a second kernel adds these: the order of the terms depends on the shape
    alone.
    """
    kernels = _load()
    assert kernels is not None  # it was there in the forward pass
    tiles = divide(saved, alpha, kernels.TILE_BYTES[TILES] // saved.element_size(), kernels.ROWS)
    partials = torch.empty(tiles.partials, dtype=alpha.dtype, device=alpha.device) if wants_alpha else None  # type: ignore[union-attr]
    function, full = KERNELS[kernel]
    with _on_device_of(saved):
        kernels.backward_kernel[(tiles.programs,)](
            saved, grad, out, partials, *_alpha(function, alpha, saved), *tiles.sizes,
            function, full, from_output, tiles.channel, tiles.rows, tiles.tile, **OPTIONS
        )  # fmt: skip
    return None if partials is None else partials.sum((0, 2)).view(alpha.shape)  # type: ignore[union-attr]


class Tiles(NamedTuple):
    """How dense data [outer, channels, inner] are divided among programs. See `load_alpha` of the kernels."""

    channel: str  # "one", "row" or "column"
    programs: int
    rows: int  # tiles below each other that one program takes
    tile: int  # elements
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
        return Tiles("one", blocks, 1, tile, (size, 1, blocks * tile, blocks, 1, 1), (1, 1, blocks))
    inner = x.stride(1)
    period = channels * inner
    if inner >= tile or period > WIDEST:
        blocks = -(-inner // tile)
        outer = size // period
        sizes = (size, outer * channels, inner, blocks, inner, channels)
        return Tiles("row", outer * channels * blocks, 1, tile, sizes, (outer, channels, blocks))
    groups = 1 if period >= 16 * tile else 16 * -(-tile // period)
    columns = min(groups * period, size)
    blocks = -(-columns // tile)
    height = -(-size // columns)
    strips = -(-height // rows)
    sizes = (size, height, columns, blocks, inner, channels)
    return Tiles("column", strips * blocks, rows, tile, sizes, (strips * columns // period, channels, inner))


def _alpha(function: str, alpha: float | Tensor, x: Tensor) -> tuple[Tensor | None, int]:
    """(tensor, bits of a number), of which the kernels use one."""
    if isinstance(alpha, Tensor):
        return alpha, 0
    if function == "isru_sigmoid":
        alpha = 0.25
    if x.dtype is torch.float64:
        return None, struct.unpack("q", struct.pack("d", alpha))[0]
    return None, struct.unpack("i", struct.pack("f", min(alpha, LARGEST)))[0]


def _on_device_of(x: Tensor) -> Any:
    """Triton launches on the current stream of the current device."""
    index = x.get_device()
    if index < 0 or index == torch.accelerator.current_device_index():
        return contextlib.nullcontext()
    return torch.accelerator.device_index(index)


def _load() -> ModuleType | None:
    if _state["kernels"] is None:
        if "tensorflow" in sys.modules and "triton" not in sys.modules:  # both register LLVM's options: the process ends
            _give_up("Triton can't be imported after TensorFlow; import triton first")
            return None
        try:
            from isrlu.torch import _triton_kernels
        except ImportError as error:
            _give_up(f"Triton is missing ({error}); pip install 'isrlu[gpu]'")
            return None
        _state["kernels"] = _triton_kernels
    return _state["kernels"]


def _give_up(reason: str) -> None:
    _core.set_launch_devices([])
    warnings.warn(f"isrlu.torch computes on this GPU by the slower formula in torch ops: {reason}", stacklevel=4)


_core.set_launch_devices(list(DEVICES.values()))
