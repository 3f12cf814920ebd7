"""Which elements a program of the Triton kernels takes: dense data are rows of `columns` elements, cut into tiles.

A program takes a strip: ROWS tiles below each other, TILE elements wide. If the data fill all of them, its loads and
stores have no mask and are of 128 bits. Otherwise it takes the strip in parts, PART elements wide, with a mask.
"""

import triton
import triton.language as tl


@triton.jit
def corner(blocks, CHANNEL: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr):
    """(row, column) of the first element of this program."""
    row, block = tl.program_id(0) * 0, tl.program_id(0)
    if CHANNEL != "one":
        row, block = block // blocks * ROWS, block % blocks
    return row, block.to(tl.int64) * TILE


@triton.jit
def left_in_row(row, start, size, columns):
    """Elements of the data from column `start` to the end of this row."""
    return tl.minimum(size - row.to(tl.int64) * columns, columns) - start


@triton.jit
def is_whole(row, start, size, rows, columns, ROWS: tl.constexpr, TILE: tl.constexpr):
    """Whether the data fill every tile of this program."""
    return left_in_row(tl.minimum(row + ROWS, rows) - 1, start, size, columns) >= TILE


@triton.jit
def load(pointer, inside):
    """Values in the dtype of the computation; 0 outside. `inside` is None for a whole tile: its loads are 128 bits."""
    values = tl.load(pointer) if inside is None else tl.load(pointer, mask=inside, other=0.0)
    return values if values.dtype == tl.float64 else values.to(tl.float32)
