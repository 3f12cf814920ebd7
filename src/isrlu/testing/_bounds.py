"""The error bounds on the test vectors that the tests enforce: ulps per framework, method, dtype and quantity."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from isrlu.testing._ulps import assert_ulps
from isrlu.testing._vectors import QUANTITIES, Vectors


@dataclass(frozen=True)
class Bounds:
    """Largest error of f, df/dx and df/dalpha, in ulps.

    `flush`: the framework's own arithmetic turns results below the smallest normal number into zero.
    """

    f: float
    dfdx: float
    dfdalpha: float
    flush: bool = False


# Half an ulp is the one rounding from the float32 result; the rest is what that result is off by.
HALF = Bounds(f=0.502, dfdx=0.502, dfdalpha=8.0)
FLOAT = Bounds(f=4.0, dfdx=6.0, dfdalpha=8.0)
FORMULA = Bounds(f=4.0, dfdx=8.0, dfdalpha=8.0)  # autograd's chain rule rounds at every factor
FULL = {"float64": FLOAT, "float32": FLOAT, "float16": HALF, "bfloat16": HALF}

# The array formula (_formula.py). XLA and TensorFlow flush what they compute; isru_sigmoid's far tail is 0 everywhere.
ARRAY_HALF = Bounds(f=0.501, dfdx=0.501, dfdalpha=6.0, flush=True)
ARRAY_FLOAT = Bounds(f=3.0, dfdx=4.0, dfdalpha=6.0, flush=True)
ARRAY = {"float64": ARRAY_FLOAT, "float32": ARRAY_FLOAT, "float16": ARRAY_HALF, "bfloat16": ARRAY_HALF}
FLOAT_OR_ARRAY = Bounds(f=4.0, dfdx=6.0, dfdalpha=8.0, flush=True)  # isrlu.torch where it can, else the array formula

BOUNDS: dict[tuple[str, str], dict[str, Bounds]] = {
    ("numpy", "full"): FULL,
    ("torch", "full"): FULL,
    ("torch.compile", "full"): FULL,
    ("torch formula", "full"): FULL | {"float64": FORMULA, "float32": FORMULA},
    ("jax", "full"): ARRAY,
    ("keras-tensorflow", "full"): ARRAY,
    ("keras-jax", "full"): ARRAY,
    ("keras-torch", "full"): ARRAY | {"float64": FLOAT_OR_ARRAY, "float32": FLOAT_OR_ARRAY},
    ("onnxruntime", "full"): ARRAY,
}


def check(vectors: Vectors, framework: str, method: str = "full", **results: ArrayLike) -> None:
    """Raise unless the given `results` (f, dfdx, dfdalpha) are within the published bounds."""
    bounds = BOUNDS[framework, method][vectors.dtype]
    for quantity, actual in results.items():
        if quantity not in QUANTITIES:
            raise ValueError(f"unknown quantity {quantity!r}: known are {', '.join(QUANTITIES)}")
        rules = judged(vectors, quantity, flush=bounds.flush) | {"x": vectors.x, "alpha": vectors.alpha}
        try:
            assert_ulps(actual, getattr(vectors, quantity), bound=getattr(bounds, quantity), **rules)
        except AssertionError as error:
            raise AssertionError(f"{framework}, {vectors.function}, {quantity}: {error}") from None


def judged(vectors: Vectors, quantity: str, *, flush: bool) -> dict[str, Any]:
    """How `ulp_error` looks at a quantity.

    df/dalpha in the ulps of alpha's dtype, which is float32 for the small dtypes too. f with its sign, and never
    flushed: a subnormal x passes everywhere. (isru_sigmoid has nothing to pass: its
    subnormal results are computed ones.)
    """
    wide = "float64" if vectors.dtype == "float64" else "float32"
    passes = quantity == "f" and vectors.function != "isru_sigmoid"
    dtype = wide if quantity == "dfdalpha" else vectors.dtype
    return {"dtype": dtype, "signs": quantity == "f", "flush": flush and not passes}
