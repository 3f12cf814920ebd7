"""The error bounds that the docs publish and the tests enforce: ulps per framework, method, dtype and quantity."""

from dataclasses import dataclass

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

BOUNDS: dict[tuple[str, str], dict[str, Bounds]] = {
    ("numpy", "full"): FULL,
    ("torch", "full"): FULL,
    ("torch.compile", "full"): FULL | {"float64": FORMULA, "float32": FORMULA},
    ("jax", "full"): FULL,
    ("keras-tensorflow", "full"): FULL,
    ("keras-jax", "full"): FULL,
    ("keras-torch", "full"): FULL,
    ("onnxruntime", "full"): FULL,
}


def check(vectors: Vectors, framework: str, method: str = "full", **results: ArrayLike) -> None:
    """Raise unless the given `results` (f, dfdx, dfdalpha) are within the bounds published for the framework and dtype.

    df/dalpha is judged as a number of alpha's dtype: float64 for float64, else float32.
    """
    bounds = BOUNDS[framework, method][vectors.dtype]
    for quantity, actual in results.items():
        if quantity not in QUANTITIES:
            raise ValueError(f"unknown quantity {quantity!r}: known are {', '.join(QUANTITIES)}")
        try:
            assert_ulps(
                actual,
                getattr(vectors, quantity),
                judged_as(vectors.dtype, quantity),
                getattr(bounds, quantity),
                signs=quantity == "f",
                flush=bounds.flush,
                x=vectors.x,
                alpha=vectors.alpha,
            )
        except AssertionError as error:
            raise AssertionError(f"{framework}, {vectors.function}, {quantity}: {error}") from None


def judged_as(dtype: str, quantity: str) -> str:
    """The dtype whose ulps count: alpha, and so its gradient, is float32 for the small dtypes too."""
    return "float32" if quantity == "dfdalpha" and dtype != "float64" else dtype
