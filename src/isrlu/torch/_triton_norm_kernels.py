"""DyISRU as Triton kernels: weight u / sqrt(1 + u^2) + bias, u = alpha x + shift. `_triton_norm` launches them.

    df/du = weight r^3, r = 1 / sqrt(1 + u^2)

Contiguous data are rows of `columns` elements, whole groups of channels, as in `_triton_kernels` for small channels.
Infinite x counts as the largest number, and u is clamped to 2^62 (float32) or 2^500 (float64), where f is +-1.
"""

import triton
import triton.language as tl

from isrlu.torch._triton_kernels import clamp, load


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
def forward_tile(x, y, weight, bias, alpha, shift, inside):
    f, _, _ = value_and_root(load(x, inside), alpha, shift)
    tl.store(y, tl.fma(weight, f, bias).to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward_tile(x, grad, out, weight, alpha, shift, inside):
    """Stores the gradient of x. Returns those of weight, bias, alpha and shift, element by element."""
    g = load(grad, inside)
    f, r, finite = value_and_root(load(x, inside), alpha, shift)
    of_u = g * weight * r * r * r
    tl.store(out, (of_u * alpha).to(out.dtype.element_ty), mask=inside)
    return g * f, g, of_u * finite, of_u


@triton.jit(do_not_specialize=["alpha_bits", "shift_bits", "size"])
def norm_forward_kernel(
    x, y, weight, bias, alpha, shift, alpha_bits, shift_bits, size, rows, columns, blocks, channels,
    ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    lane = tl.arange(0, TILE)
    row, start = tl.program_id(0) // blocks * ROWS, (tl.program_id(0) % blocks).to(tl.int64) * TILE
    weights = per_channel(weight, start, lane, columns, channels, 1.0, dtype)
    biases = per_channel(bias, start, lane, columns, channels, 0.0, dtype)
    a, s = number(alpha, alpha_bits, dtype), number(shift, shift_bits, dtype)
    for k in range(tl.minimum(rows - row, ROWS)):
        first = (row + k).to(tl.int64) * columns
        left = tl.minimum(size - first, columns) - start
        x_at, y_at = x + first + start + lane, y + first + start + lane
        if left >= TILE:
            forward_tile(x_at, y_at, weights, biases, a, s, None)
        else:
            forward_tile(x_at, y_at, weights, biases, a, s, lane < left)


@triton.jit(do_not_specialize=["alpha_bits", "shift_bits", "size"])
def norm_backward_kernel(
    x, grad, out, scales, numbers, weight, alpha, shift, alpha_bits, shift_bits,
    size, rows, columns, blocks, channels, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """out: of x. scales [2, strips, columns]: sums for weight and bias. numbers [2, programs]: for alpha and shift."""
    dtype: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    lane, strips = tl.arange(0, TILE), tl.num_programs(0) // blocks
    row, start = tl.program_id(0) // blocks * ROWS, (tl.program_id(0) % blocks).to(tl.int64) * TILE
    weights = per_channel(weight, start, lane, columns, channels, 1.0, dtype)
    a, s = number(alpha, alpha_bits, dtype), number(shift, shift_bits, dtype)
    of_weight, of_bias, of_alpha, of_shift = (tl.zeros((TILE,), dtype),) * 4
    for k in range(tl.minimum(rows - row, ROWS)):
        first = (row + k).to(tl.int64) * columns
        left = tl.minimum(size - first, columns) - start
        x_at, grad_at, out_at = x + first + start + lane, grad + first + start + lane, out + first + start + lane
        if left >= TILE:
            w, b, da, ds = backward_tile(x_at, grad_at, out_at, weights, a, s, None)
        else:
            w, b, da, ds = backward_tile(x_at, grad_at, out_at, weights, a, s, lane < left)
        of_weight, of_bias, of_alpha, of_shift = of_weight + w, of_bias + b, of_alpha + da, of_shift + ds
    if scales is not None:
        at, inside = scales + (row // ROWS).to(tl.int64) * columns + start + lane, lane < columns - start
        tl.store(at, of_weight, mask=inside)
        tl.store(at + strips.to(tl.int64) * columns, of_bias, mask=inside)
    if numbers is not None:
        tl.store(numbers + tl.program_id(0), tl.sum(of_alpha))
        tl.store(numbers + tl.num_programs(0) + tl.program_id(0), tl.sum(of_shift))
