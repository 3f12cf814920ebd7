"""The table of all tolerances: largest errors in ulps by framework, function, dtype, method and quantity.

The bounds hold for every input, not only for the test vectors. `isrlu accuracy` measures the kernels on every float32.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isrlu import simd as current_simd
from isrlu._checks import METHODS
from isrlu.testing._ulps import FORMATS, assert_ulps
from isrlu.testing._vectors import QUANTITIES, Vectors


@dataclass(frozen=True)
class Bounds:
    """Largest error of f, df/dx and df/dalpha, in ulps.

    `flush`: the framework flushes subnormal results of its arithmetic to zero.
    """

    f: float
    dfdx: float
    dfdalpha: float = math.nan  # isru_sigmoid has no alpha, sisrlu no derivative by it
    flush: bool = False


BOUNDS: dict[tuple[str, str], Bounds] = {
    (framework, function): found
    for frameworks, plain, sigmoid, scaled in (
        # The C++ kernels.
        (("numpy", "torch"), Bounds(1.5, 10, 10), Bounds(4, 10), Bounds(4, 10)),
        # The formula in PyTorch operations. torch.compile uses explicit derivatives. The eager formula uses autograd,
        # whose chain rule rounds after every factor.
        (("torch.compile",), Bounds(4, 10, 10), Bounds(6, 10), Bounds(5, 12)),
        (("torch formula",), Bounds(4, 12, 26), Bounds(7, 12), Bounds(6, 14)),
        # Array operations (_formula.py). XLA and TensorFlow flush subnormals, so the far tail of isru_sigmoid is 0.
        (
            ("jax", "onnxruntime", "keras-tensorflow", "keras-jax"),
            Bounds(3, 8, 10, True),
            Bounds(5, 8, flush=True),
            Bounds(5, 10, flush=True),
        ),
        # Keras on PyTorch uses isrlu.torch if possible, else the array operations.
        (("keras-torch",), Bounds(3, 10, 10, True), Bounds(5, 10, flush=True), Bounds(4, 10, flush=True)),
    )
    for framework in frameworks
    for function, found in (("isrlu", plain), ("isru", plain), ("isru_sigmoid", sigmoid), ("sisrlu", scaled))
}
"""(framework, function) -> largest errors in float32 and float64 with method "full"."""
KERNELS = ("numpy", "torch")  # the frameworks with methods other than "full"

ESTIMATE = {
    "scalar": 0.0,
    "sse2": 2**-11.4,
    "avx2": 2**-11.4,
    "avx512": 2.0**-14,
    "neon": 2.0**-8,
    "rsqrt.approx": 2**-22.9,
}
"""Instruction set -> largest relative error of its estimate of 1 / sqrt(d), as specified by the vendors."""
# Methods other than "full": ulps for rounding the root and its product with x, added to the error of the root.
ROUNDINGS = Bounds(f=5, dfdx=12, dfdalpha=17)


def root_error(method: str, simd: str | None = None) -> float:
    """The largest relative error of 1 / sqrt(d) by `method`, without rounding. `simd` defaults to the one in use."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: known are {', '.join(METHODS)}")
    estimate = ESTIMATE[simd or current_simd()]
    exact = {"approx": estimate, "newton1": _newton(estimate), "newton2": _newton(_newton(estimate))}
    return (exact | {"kinney": 0.0017524, "table": 2.0**-12}).get(method, 0.0)


def _newton(error: float) -> float:
    """The relative error after a Newton step."""
    return 1.5 * error * error * (1 + error)


def bounds(
    framework: str, function: str, dtype: str, method: str = "full", simd: str | None = None, *, product: bool = False
) -> Bounds:
    """The bounds for one function, dtype, method and instruction set (default: the one in use).

    df/dalpha is in ulps of alpha's dtype, which is float32 for the 16-bit dtypes. `product` gives bounds for the
    derivatives times an incoming gradient: the product's ulp may be half as large, and the product is rounded.

    >>> bounds("numpy", "isrlu", "float32").f
    1.5
    >>> bounds("numpy", "isrlu", "float32", "kinney").f > 20_000  # 0.175 %
    True
    """
    found = BOUNDS[framework, function]
    if method != "full":
        if framework not in KERNELS:
            raise ValueError(f"{framework} has no method {method!r}: it has full alone")
        error = root_error(method, simd)
        if error and function == "isru_sigmoid":
            raise ValueError(f"isru_sigmoid by {method!r} has no bound in ulps: its tail is lost in 1 - isru")
        ulps = error * 2 ** FORMATS[computed(dtype)].digits
        found = replace(
            found, f=ROUNDINGS.f + ulps, dfdx=ROUNDINGS.dfdx + 3.01 * ulps, dfdalpha=ROUNDINGS.dfdalpha + 3.01 * ulps
        )
    if product:
        found = replace(found, dfdx=2 * found.dfdx + 1, dfdalpha=2 * found.dfdalpha + 1)
    if dtype == computed(dtype):
        return found
    share = 2.0 ** (FORMATS[dtype].digits - FORMATS["float32"].digits)  # float32's ulp in ulps of `dtype`
    return replace(found, f=0.5 + share * found.f, dfdx=0.5 + share * found.dfdx)  # one rounding from float32


def computed(dtype: str) -> str:
    """The dtype that the computation uses for inputs of `dtype`."""
    return "float64" if dtype == "float64" else "float32"


def check(
    vectors: Vectors,
    framework: str,
    method: str = "full",
    *,
    simd: str | None = None,
    upstream: ArrayLike | None = None,
    **results: ArrayLike,
) -> None:
    """Raise AssertionError unless the `results` (f, dfdx, dfdalpha) are within the bounds of the true values.

    With `upstream`, the derivatives are those of a backward pass: multiplied by this incoming gradient.
    `vectors` are the stored test vectors (`load`), or the oracle's values for your own inputs (`expect`):

    >>> import numpy, isrlu.numpy
    >>> from isrlu.testing import expect
    >>> x = numpy.float32([-2, -1, 3])
    >>> check(expect("isrlu", x, 3.0), "numpy", "approx", f=isrlu.numpy.isrlu(x, 3.0, method="approx"))
    """
    allowed = bounds(framework, vectors.function, vectors.dtype, method, simd, product=upstream is not None)
    if upstream is not None:
        grad = np.asarray(upstream).astype(np.float64)
        vectors = replace(vectors, dfdx=vectors.dfdx * grad, dfdalpha=vectors.dfdalpha * grad)
    for quantity, actual in results.items():
        if quantity not in QUANTITIES:
            raise ValueError(f"unknown quantity {quantity!r}: known are {', '.join(QUANTITIES)}")
        rules = judged(vectors, quantity, flush=allowed.flush) | {"x": vectors.x, "alpha": vectors.alpha}
        try:
            assert_ulps(actual, getattr(vectors, quantity), bound=getattr(allowed, quantity), **rules)
        except AssertionError as error:
            raise AssertionError(f"{framework}, {vectors.function} {method}, {quantity}: {error}") from None


def judged(vectors: Vectors, quantity: str, *, flush: bool) -> dict[str, Any]:
    """The arguments of `ulp_error` for a quantity.

    df/dalpha is in ulps of alpha's dtype, which is float32 for the 16-bit dtypes too. The sign of f counts. f of isrlu
    and isru may not be flushed: every framework returns a subnormal x unchanged. The others may be flushed.
    """
    passes = quantity == "f" and vectors.function in ("isrlu", "isru")
    dtype = computed(vectors.dtype) if quantity == "dfdalpha" else vectors.dtype
    return {"dtype": dtype, "signs": quantity == "f", "flush": flush and not passes}
