"""The formula as Triton kernels: one forward and one backward kernel for all functions. `_triton` launches them.

    isru(x)         = x / sqrt(1 + alpha x^2)             isru'(x)  = (1 / sqrt(1 + alpha x^2))^3
    isrlu(x)        = x for x >= 0, else isru(x)          isrlu'(x) = 1 for x >= 0, else isru'(x)
    isru_sigmoid(x) = (1 + isru(x/2; alpha 1)) / 2        = 1/2 + isru(x; alpha 1/4) / 4
    sisrlu(x)       = isrlu(x) times POSITIVE for x >= 0, times NEGATIVE for x < 0; both are 1 in the other functions
    df/dalpha       = -f^3 / 2, for ISRLU only at x < 0

float16 and bfloat16 are computed in float32. No function divides: 1/sqrt is the hardware's estimate (rsqrt.approx.f32,
an error of 2 ulp; v_rsq_f32, 1 ulp), which FULL corrects by the residual, as core/activation/formula.hpp does. Without
FULL (method "approx") the estimate is taken as it is.
"""

import triton
import triton.language as tl

from isrlu.torch._triton_tiles import corner, is_whole, left_in_row, load


@triton.jit
def inverse_root(d, FULL: tl.constexpr):
    """1 / sqrt(d) for normal, finite d > 0."""
    r = tl.rsqrt(d)
    if FULL:
        r = tl.fma(0.5 * r, tl.fma(-(d * r), r, 1.0), r)
    return r


@triton.jit
def reciprocal(d):
    """1 / d for d > 0, from the inverse root: a division would take 8 instructions and more."""
    r = tl.rsqrt(d)
    q = r * r
    return tl.fma(q, tl.fma(-d, q, 1.0), q)


@triton.jit
def clamp(x, limit):
    """x within +-limit; NaN stays NaN. Triton 3.9 can't compile tl.clamp for float64 on sm_90."""
    above = tl.maximum(x, -limit, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(above, limit, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def limit_of(alpha):
    """Of |x|, beyond which f is saturated and f' rounds to 0: 2^62 / sqrt(alpha), 2^500 / sqrt(alpha) in float64."""
    if alpha.dtype == tl.float64:
        limit = tl.rsqrt(tl.maximum(alpha, 2.2250738585072014e-308)) * 3.273390607896142e150
    else:
        limit = tl.rsqrt(tl.maximum(alpha, 1.1754943508222875e-38)) * 4.611686018427388e18
    return limit


@triton.jit
def isru(x, alpha, FULL: tl.constexpr):
    """x / sqrt(1 + alpha x^2). The residual 1 - d r^2 is (1 - r^2) - alpha y^2: the rounding of d does not enter."""
    r = tl.rsqrt(tl.fma(alpha * x, x, 1.0))
    y = x * r
    if FULL:
        y = tl.fma(0.5 * y, tl.fma(-(alpha * y), y, tl.fma(-r, r, 1.0)), y)
    return y


@triton.jit
def is_identity(x, alpha, FUNCTION: tl.constexpr):
    """Where f(x) = x by definition: ISRLU at x >= 0, x = -0.0 (else its sign may be lost), alpha = 0. Never for NaN."""
    if FUNCTION == "isru_sigmoid":
        return x < x  # nowhere
    else:
        straight = (x >= 0.0) if FUNCTION == "isrlu" else (x == 0.0)
        return straight | ((alpha == 0.0) & (x == x))


@triton.jit
def sigmoid_from_isru(x, y):
    """1/2 + y/4, y = isru(x; 1/4). It cancels for x < 0: there 1 / (2 d (1 - y/2)), d = 1 + x^2/4, scaled by 2^-64."""
    if x.dtype == tl.float64:
        h = tl.maximum(x, -3.599131035634557e162) * 1.1641532182693481e-10  # 2^540, 2^-33
    else:
        h = tl.maximum(x, -1.2089258196146292e24) * 1.1641532182693481e-10  # 2^80, 2^-33
    d = tl.fma(h, h, 5.421010862427522e-20)  # 2^-64
    tail = reciprocal(tl.fma(d, -0.5 * y, d)) * 2.710505431213761e-20  # 2^-65
    return tl.where(x < 0.0, tail, tl.fma(y, 0.25, 0.5))


@triton.jit
def forward(x, alpha, FUNCTION: tl.constexpr, FULL: tl.constexpr):
    """f(x)"""
    y = isru(clamp(x, limit_of(alpha)), alpha, FULL)
    if FUNCTION != "isru_sigmoid":
        y = tl.where(is_identity(x, alpha, FUNCTION), x, y)
    elif FULL:
        y = sigmoid_from_isru(x, y)
    else:
        y = tl.fma(y, 0.25, 0.5)
    return y


@triton.jit
def backward(x, grad, alpha, FUNCTION: tl.constexpr, FULL: tl.constexpr):
    """(grad f'(x), f(x)): f' is the cube r^3 of the inverse root. grad comes first: r^3 alone may underflow."""
    slope_at_0: tl.constexpr = 0.25 if FUNCTION == "isru_sigmoid" else 1.0
    m = clamp(x, limit_of(alpha))
    r = inverse_root(tl.fma(alpha * m, m, 1.0), FULL)
    identity = is_identity(x, alpha, FUNCTION)
    return tl.where(identity, grad, grad * r * r * r * slope_at_0), tl.where(identity, x, m * r)


@triton.jit
def backward_from_output(y, grad, alpha, FUNCTION: tl.constexpr, FULL: tl.constexpr):
    """(grad f'(x), f(x)) from y = f(x), by 1/sqrt(1 + alpha x^2) = sqrt(1 - alpha y^2). Cancels near saturation."""
    slope_at_0: tl.constexpr = 0.25 if FUNCTION == "isru_sigmoid" else 1.0
    s = 4.0 * y * (1.0 - y) if FUNCTION == "isru_sigmoid" else tl.fma(-(alpha * y), y, 1.0)
    s = tl.maximum(s, 0.0, propagate_nan=tl.PropagateNan.ALL)
    root = s * inverse_root(tl.maximum(s, 1.1754943508222875e-38), FULL)  # sqrt(s); s may be 0
    return tl.where(is_identity(y, alpha, FUNCTION), grad, grad * (s * root) * slope_at_0), y


@triton.jit
def alpha_gradient(f, grad, FUNCTION: tl.constexpr):
    """grad df/dalpha times -2, from f = f(x)"""
    g = grad * (f * f * f)
    if FUNCTION == "isrlu":
        g = tl.where(f >= 0.0, 0.0, g)
    return g


@triton.jit
def load_alpha(alphas, bits, row, start, lane, columns, inner, channels, DTYPE: tl.constexpr, CHANNEL: tl.constexpr):
    """The number that has these bits, one tensor element, or one per channel: dense data are [.., channels, inner].

    CHANNEL "one": a single alpha. "row": a row of the data is a channel. "column": a row has whole groups of channels.
    An infinite alpha is replaced by the largest number: infinity times 0 would be NaN.
    """
    if alphas is None:
        alpha = tl.full((1,), bits, tl.int64 if tl.float64 == DTYPE else tl.int32).to(DTYPE, bitcast=True)
    elif CHANNEL == "column":
        at = start.to(tl.int32) + lane
        alpha = tl.load(alphas + (at // inner) % channels, mask=lane < columns - start, other=1.0)
    else:
        alpha = tl.load(alphas + row % channels + tl.arange(0, 1))
    largest: tl.constexpr = 1.7976931348623157e308 if tl.float64 == DTYPE else 3.4028234663852886e38
    return tl.where(alpha > largest, largest, alpha)


@triton.jit
def scaled(value, x, POSITIVE: tl.constexpr, NEGATIVE: tl.constexpr):
    """value times POSITIVE where x >= 0, times NEGATIVE where x < 0."""
    if POSITIVE != 1.0:
        value *= tl.where(x >= 0.0, tl.full((1,), POSITIVE, x.dtype), tl.full((1,), NEGATIVE, x.dtype))
    return value


@triton.jit
def forward_strip(
    x, y, alphas, bits, row, start, size, rows, columns, inner, channels,
    FUNCTION: tl.constexpr, FULL: tl.constexpr, POSITIVE: tl.constexpr, NEGATIVE: tl.constexpr,
    CHANNEL: tl.constexpr, ROWS: tl.constexpr, WHOLE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """y = f(x) for ROWS tiles below each other."""
    lane = tl.arange(0, TILE)
    dtype: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    alpha = load_alpha(alphas, bits, row, start, lane, columns, inner, channels, dtype, CHANNEL)
    for k in range(1 if ROWS == 1 else tl.minimum(rows - row, ROWS)):
        at = (row + k).to(tl.int64) * columns + start
        inside = None if WHOLE else lane < left_in_row(row + k, start, size, columns)
        given = load(x + at + lane, inside)
        value = scaled(forward(given, alpha, FUNCTION, FULL), given, POSITIVE, NEGATIVE)
        tl.store(y + at + lane, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward_strip(
    saved, grad, out, partials, alphas, bits, row, start, size, rows, columns, inner, channels,
    FUNCTION: tl.constexpr, FULL: tl.constexpr, POSITIVE: tl.constexpr, NEGATIVE: tl.constexpr,
    FROM_OUTPUT: tl.constexpr, CHANNEL: tl.constexpr, ROWS: tl.constexpr, WHOLE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """out = grad f'(x) for ROWS tiles below each other; in `partials` the sum of grad df/dalpha, or one per column."""
    lane = tl.arange(0, TILE)
    dtype: tl.constexpr = tl.float64 if saved.dtype.element_ty == tl.float64 else tl.float32
    alpha = load_alpha(alphas, bits, row, start, lane, columns, inner, channels, dtype, CHANNEL)
    total = tl.zeros((TILE,), dtype)
    for k in range(1 if ROWS == 1 else tl.minimum(rows - row, ROWS)):
        at = (row + k).to(tl.int64) * columns + start
        inside = None if WHOLE else lane < left_in_row(row + k, start, size, columns)
        given = load(saved + at + lane, inside)
        g = scaled(load(grad + at + lane, inside), given, POSITIVE, NEGATIVE)
        if FROM_OUTPUT:
            g_in, f = backward_from_output(scaled(given, given, 1 / POSITIVE, 1 / NEGATIVE), g, alpha, FUNCTION, FULL)
        else:
            g_in, f = backward(given, g, alpha, FUNCTION, FULL)
        total += alpha_gradient(f, g, FUNCTION)  # before the store: after it, Triton 3.7.1 takes more registers
        tl.store(out + at + lane, g_in.to(out.dtype.element_ty), mask=inside)
    if partials is not None:
        total *= -0.5
        if CHANNEL == "column":
            at = (row // ROWS).to(tl.int64) * columns + start
            tl.store(partials + at + lane, total, mask=lane < columns - start)
        else:
            tl.store(partials + tl.program_id(0), tl.sum(total))


# `bits`: Triton passes a Python number as float32. A float64 argument would shut out GPUs that have no float64.
@triton.jit(do_not_specialize=["bits", "size"])
def forward_kernel(
    x, y, alphas, bits, size, rows, columns, blocks, inner, channels,
    FUNCTION: tl.constexpr, FULL: tl.constexpr, POSITIVE: tl.constexpr, NEGATIVE: tl.constexpr,
    CHANNEL: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """y = f(x): dense data as rows of `columns` elements, of which a program takes ROWS tiles below each other."""
    row, start = corner(blocks, CHANNEL, ROWS, TILE)
    if is_whole(row, start, size, rows, columns, ROWS, TILE):
        forward_strip(
            x, y, alphas, bits, row, start, size, rows, columns, inner, channels,
            FUNCTION, FULL, POSITIVE, NEGATIVE, CHANNEL, ROWS, True, TILE,
        )  # fmt: skip
    else:
        for at in range(0, TILE, PART):
            forward_strip(
                x, y, alphas, bits, row, start + at, size, rows, columns, inner, channels,
                FUNCTION, FULL, POSITIVE, NEGATIVE, CHANNEL, ROWS, False, PART,
            )  # fmt: skip


@triton.jit(do_not_specialize=["bits", "size"])
def backward_kernel(
    saved, grad, out, partials, alphas, bits, size, rows, columns, blocks, inner, channels,
    FUNCTION: tl.constexpr, FULL: tl.constexpr, POSITIVE: tl.constexpr, NEGATIVE: tl.constexpr,
    FROM_OUTPUT: tl.constexpr, CHANNEL: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """out = grad f'(x), and in `partials` the sum of grad df/dalpha: per program, or per column of its tiles."""
    row, start = corner(blocks, CHANNEL, ROWS, TILE)
    if is_whole(row, start, size, rows, columns, ROWS, TILE):
        backward_strip(
            saved, grad, out, partials, alphas, bits, row, start, size, rows, columns, inner, channels,
            FUNCTION, FULL, POSITIVE, NEGATIVE, FROM_OUTPUT, CHANNEL, ROWS, True, TILE,
        )  # fmt: skip
    else:
        for at in range(0, TILE, PART):
            backward_strip(
                saved, grad, out, partials, alphas, bits, row, start + at, size, rows, columns, inner, channels,
                FUNCTION, FULL, POSITIVE, NEGATIVE, FROM_OUTPUT, CHANNEL, ROWS, False, PART,
            )  # fmt: skip
