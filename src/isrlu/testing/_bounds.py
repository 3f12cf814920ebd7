"""The one table of tolerances: largest errors in ulps by framework, function, dtype, method and quantity.

The bounds hold for every input, not for the test vectors alone. `isrlu accuracy` measures the kernels on every float32.
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

    `flush`: the framework's own arithmetic turns results below the smallest normal number into zero.
    """

    f: float
    dfdx: float
    dfdalpha: float = math.nan  # isru_sigmoid has no alpha
    flush: bool = False


# (framework, function) -> errors in float32 and float64, by the method "full"
BOUNDS: dict[tuple[str, str], Bounds] = {
    (framework, function): found
    for frameworks, plain, sigmoid in (
        # The C++ kernels.
        (("numpy", "torch"), Bounds(1.5, 10, 10), Bounds(4, 10)),
        # PyTorch's operations in isrlu.torch: compiled with derivatives of our own; eager, where autograd's chain
        # rule rounds at every factor.
        (("torch.compile",), Bounds(4, 10, 10), Bounds(6, 10)),
        (("torch formula",), Bounds(4, 12, 26), Bounds(7, 12)),
        # Array operations (_formula.py). XLA and TensorFlow flush what they compute; isru_sigmoid's far tail is 0.
        (("jax", "onnxruntime", "keras-tensorflow", "keras-jax"), Bounds(3, 8, 10, True), Bounds(5, 8, flush=True)),
        # Keras on PyTorch takes isrlu.torch where it can, else the array operations.
        (("keras-torch",), Bounds(3, 10, 10, True), Bounds(5, 10, flush=True)),
    )
    for framework in frameworks
    for function, found in (("isrlu", plain), ("isru", plain), ("isru_sigmoid", sigmoid))
}
KERNELS = ("numpy", "torch")  # who takes a method

# instruction set -> largest relative error of its estimate of 1 / sqrt(d), by the makers' word
ESTIMATE = {"scalar": 0.0, "sse2": 2**-11.4, "avx2": 2**-11.4, "avx512": 2.0**-14, "neon": 2.0**-8}
# Other methods than "full" round the root and its product with x: ulps on top of the root's error.
ROUNDINGS = Bounds(f=5, dfdx=12, dfdalpha=17)


def root_error(method: str, simd: str | None = None) -> float:
    """The largest relative error of 1 / sqrt(d) by `method` without rounding, per instruction set (default: in use)."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: known are {', '.join(METHODS)}")
    estimate = ESTIMATE[simd or current_simd()]
    exact = {"approx": estimate, "newton1": _newton(estimate), "newton2": _newton(_newton(estimate))}
    return (exact | {"kinney": 0.0017524, "table": 2.0**-12}).get(method, 0.0)


def _newton(error: float) -> float:
    """What a Newton step leaves of a relative error."""
    return 1.5 * error * error * (1 + error)


def bounds(
    framework: str, function: str, dtype: str, method: str = "full", simd: str | None = None, *, product: bool = False
) -> Bounds:
    """The table's entry for one function, dtype and method; methods differ by instruction set (default: in use).

    df/dalpha is counted in the ulps of alpha's dtype, which is float32 for the 16-bit dtypes. With `product`, the
    derivatives are multiplied by an incoming gradient: the product's ulps may be half as large, and it is rounded.

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
    share = 2.0 ** (FORMATS[dtype].digits - FORMATS["float32"].digits)  # of an ulp, that float32's is
    return replace(found, f=0.5 + share * found.f, dfdx=0.5 + share * found.dfdx)  # rounded once, from float32


def computed(dtype: str) -> str:
    """The dtype in which `dtype` is computed."""
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
    """Raise unless the given `results` (f, dfdx, dfdalpha) are within the table's bounds of the true ones.

    With `upstream`, the derivatives are those of a backward pass: multiplied by an incoming gradient, in float64 here.
    `vectors` are the stored ones (`load`), or the oracle's for inputs of your own (`expect`):

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
    """How `ulp_error` looks at a quantity.

    df/dalpha in the ulps of alpha's dtype, which is float32 for the small dtypes too. f with its sign, and never
    flushed: a subnormal x passes everywhere. (isru_sigmoid has nothing to pass: its
    subnormal results are computed ones.)
    """
    passes = quantity == "f" and vectors.function != "isru_sigmoid"
    dtype = computed(vectors.dtype) if quantity == "dfdalpha" else vectors.dtype
    return {"dtype": dtype, "signs": quantity == "f", "flush": flush and not passes}
