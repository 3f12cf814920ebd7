"""DyISRU as Triton kernels: weight u / sqrt(1 + u^2) + bias, u = alpha x + shift. `_triton_norm` launches them.

    df/du = weight r^3, r = 1 / sqrt(1 + u^2)

Contiguous data are rows of `columns` elements, whole groups of channels, as in `_triton_kernels` for small channels.
Infinite x counts as the largest number, and u is clamped to 2^62 (float32) or 2^500 (float64), where f is +-1.
"""

import triton
import triton.language as tl

from isrlu.torch._triton_kernels import clamp
from isrlu.torch._triton_tiles import corner, is_whole, left_in_row, load


@triton.jit
def number(tensor, bits, DTYPE: tl.constexpr):
    """alpha or shift: the number that has these bits, or the value of a tensor."""
    if tensor is None:
        return tl.full((1,), bits, tl.int64 if tl.float64 == DTYPE else tl.int32).to(DTYPE, bitcast=True)
    else:
        return tl.load(tensor + tl.arange(0, 1)).to(DTYPE)


@triton.jit
def per_channel(tensor, start, lane, columns, channels, DEFAULT: tl.constexpr, DTYPE: tl.constexpr):
    """weight or bias at the columns of a tile; 1 or 0 where there is none."""
    if tensor is None:
        return tl.full((1,), DEFAULT, DTYPE)
    else:
        at = (start.to(tl.int32) + lane) % channels
        return tl.load(tensor + at, mask=lane < columns - start, other=0.0).to(DTYPE)


@triton.jit
def value_and_root(x, alpha, shift):
    """(f, r, x): f = u / sqrt(1 + u^2) and r = 1 / sqrt(1 + u^2), corrected by the same residual; the finite x."""
    largest: tl.constexpr = 1.7976931348623157e308 if x.dtype == tl.float64 else 3.4028234663852886e38
    far: tl.constexpr = 3.273390607896142e150 if x.dtype == tl.float64 else 4.611686018427388e18
    x = clamp(x, tl.full((1,), largest, x.dtype))
    u = clamp(tl.fma(alpha, x, shift), tl.full((1,), far, x.dtype))
    r = tl.rsqrt(tl.fma(u, u, 1.0))
    f = u * r
    half = 0.5 * tl.fma(-f, f, tl.fma(-r, r, 1.0))
    return tl.fma(f, half, f), tl.fma(r, half, r), x


@triton.jit
def sums_of(values, COUNT: tl.constexpr):
    """The sums of COUNT neighbours each. If a thread holds just these, it adds them without the others."""
    return tl.sum(tl.reshape(values, (values.shape[0] // COUNT, COUNT)), 1)


@triton.jit
def forward_strip(
    x, y, weight, bias, alpha, shift, row, start, size, rows, columns, channels,
    ROWS: tl.constexpr, WHOLE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """y for ROWS tiles below each other. alpha and shift are values, weight and bias pointers."""
    lane = tl.arange(0, TILE)
    weights = per_channel(weight, start, lane, columns, channels, 1.0, alpha.dtype)
    biases = per_channel(bias, start, lane, columns, channels, 0.0, alpha.dtype)
    for k in range(tl.minimum(rows - row, ROWS)):
        at = (row + k).to(tl.int64) * columns + start
        inside = None if WHOLE else lane < left_in_row(row + k, start, size, columns)
        f, _, _ = value_and_root(load(x + at + lane, inside), alpha, shift)
        tl.store(y + at + lane, tl.fma(weights, f, biases).to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward_strip(
    x, grad, out, scales, weight, alpha, shift, row, start, size, rows, columns, blocks, channels,
    ROWS: tl.constexpr, WHOLE: tl.constexpr, TILE: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """The gradient of x for ROWS tiles below each other, and the sums for weight and bias. Returns those for alpha and
    shift, of which a thread keeps one for its EACH elements of a tile: 2 registers, where 16-bit data had 16.
    """
    lane = tl.arange(0, TILE)
    dtype: tl.constexpr = alpha.dtype
    weights = per_channel(weight, start, lane, columns, channels, 1.0, dtype)
    of_weight, of_bias = tl.zeros((TILE,), dtype), tl.zeros((TILE,), dtype)
    of_alpha, of_shift = tl.zeros((TILE // EACH,), dtype), tl.zeros((TILE // EACH,), dtype)
    for k in range(tl.minimum(rows - row, ROWS)):
        at = (row + k).to(tl.int64) * columns + start
        inside = None if WHOLE else lane < left_in_row(row + k, start, size, columns)
        g = load(grad + at + lane, inside)
        f, r, finite = value_and_root(load(x + at + lane, inside), alpha, shift)
        of_u = g * weights * r * r * r
        tl.store(out + at + lane, (of_u * alpha).to(out.dtype.element_ty), mask=inside)
        of_weight = tl.fma(g, f, of_weight)
        of_bias += g
        of_alpha += sums_of(of_u * finite, EACH)
        of_shift += sums_of(of_u, EACH)
    if scales is not None:
        strips = tl.num_programs(0) // blocks
        at, inside = scales + (row // ROWS).to(tl.int64) * columns + start + lane, lane < columns - start
        tl.store(at, of_weight, mask=inside)
        tl.store(at + strips.to(tl.int64) * columns, of_bias, mask=inside)
    return tl.sum(of_alpha), tl.sum(of_shift)


@triton.jit(do_not_specialize=["alpha_bits", "shift_bits", "size"])
def norm_forward_kernel(
    x, y, weight, bias, alpha, shift, alpha_bits, shift_bits, size, rows, columns, blocks, channels,
    ROWS: tl.constexpr, TILE: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    a, s = number(alpha, alpha_bits, dtype), number(shift, shift_bits, dtype)
    row, start = corner(blocks, "column", ROWS, TILE)
    if is_whole(row, start, size, rows, columns, ROWS, TILE):
        forward_strip(x, y, weight, bias, a, s, row, start, size, rows, columns, channels, ROWS, True, TILE)
    else:
        for at in range(0, TILE, PART):
            forward_strip(x, y, weight, bias, a, s, row, start + at, size, rows, columns, channels, ROWS, False, PART)


@triton.jit(do_not_specialize=["alpha_bits", "shift_bits", "size"])
def norm_backward_kernel(
    x, grad, out, scales, numbers, weight, alpha, shift, alpha_bits, shift_bits,
    size, rows, columns, blocks, channels, ROWS: tl.constexpr, TILE: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """out: of x. scales [2, strips, columns]: sums for weight and bias. numbers [2, programs]: for alpha and shift."""
    dtype: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    each: tl.constexpr = 128 // x.dtype.element_ty.primitive_bitwidth  # elements of a thread
    a, s = number(alpha, alpha_bits, dtype), number(shift, shift_bits, dtype)
    row, start = corner(blocks, "column", ROWS, TILE)
    if is_whole(row, start, size, rows, columns, ROWS, TILE):
        of_alpha, of_shift = backward_strip(
            x, grad, out, scales, weight, a, s, row, start, size, rows, columns, blocks, channels,
            ROWS, True, TILE, each,
        )  # fmt: skip
    else:
        of_alpha, of_shift = tl.zeros((), dtype), tl.zeros((), dtype)
        for at in range(0, TILE, PART):
            more = backward_strip(
                x, grad, out, scales, weight, a, s, row, start + at, size, rows, columns, blocks, channels,
                ROWS, False, PART, each * PART // TILE,
            )  # fmt: skip
            of_alpha += more[0]
            of_shift += more[1]
    if numbers is not None:
        tl.store(numbers + tl.program_id(0), of_alpha)
        tl.store(numbers + tl.num_programs(0) + tl.program_id(0), of_shift)
