"""The test vectors: inputs and true values for every function and dtype, including corner cases."""

import csv
import functools
import importlib.resources
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrlu.testing._oracle import alpha_derivative, derivative, reference

FUNCTIONS = ("isrlu", "isru", "isru_sigmoid", "sisrlu")
WITH_ALPHA_DERIVATIVE = ("isrlu", "isru")
DTYPES = ("float64", "float32", "float16", "bfloat16")
QUANTITIES = ("f", "dfdx", "dfdalpha")


@dataclass(frozen=True)
class Vectors:
    """Inputs and true values for one function and one dtype, as float64 arrays of one length.

    `x` is exact in the dtype. `alpha` is exact in float32, or in float64 for the dtype float64. The other arrays are
    mpmath's results, rounded to float64. isru_sigmoid has no alpha: its `alpha` and `dfdalpha` are NaN. sisrlu has no
    derivative by alpha: its `dfdalpha` is NaN.
    """

    function: str
    dtype: str
    alpha: NDArray[np.float64]
    x: NDArray[np.float64]
    f: NDArray[np.float64]
    dfdx: NDArray[np.float64]
    dfdalpha: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: NDArray[np.bool_]) -> "Vectors":
        columns = (self.alpha, self.x, self.f, self.dfdx, self.dfdalpha)
        return Vectors(self.function, self.dtype, *(column[rows] for column in columns))

    def by_alpha(self) -> Iterator[tuple[float, "Vectors"]]:
        """(alpha, vectors with this alpha) for each alpha, for functions that take alpha as a number."""
        for alpha in np.unique(self.alpha):
            yield float(alpha), self[np.isnan(self.alpha) if np.isnan(alpha) else self.alpha == alpha]


def expect(function: str, x: ArrayLike, alpha: ArrayLike = 1.0, dtype: str | None = None) -> Vectors:
    """The oracle's values for your own inputs of any shape. `dtype` defaults to the dtype of x.

    alpha is rounded to float32 unless the dtype is float64, as in the frameworks.

    >>> expect("isrlu", [-1.0, 2.0], 3.0).f.tolist()
    [-0.5, 2.0]
    """
    dtype = dtype or np.asarray(x).dtype.name
    if function not in FUNCTIONS or dtype not in DTYPES:
        raise ValueError(f"no true values for {function!r} in {dtype!r}: there are {FUNCTIONS} in {DTYPES}")
    x = np.asarray(x).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):  # results are rounded to float64, alpha to float32
        alpha = np.asarray(alpha).astype("float64" if dtype == "float64" else "float32").astype(np.float64)
        alpha = np.broadcast_to(alpha, x.shape)
        extended = dtype == "float64"  # for the other dtypes a float64 result is accurate enough
        f, dfdx = (of(function, x, alpha, extended=extended).astype(np.float64) for of in (reference, derivative))
        if function in WITH_ALPHA_DERIVATIVE:
            dfdalpha = alpha_derivative(function, x, alpha, extended=extended).astype(np.float64)
        else:
            dfdalpha = np.full_like(x, np.nan)
        if function == "isru_sigmoid":
            alpha = dfdalpha
    return Vectors(function, dtype, alpha, x, f, dfdx, dfdalpha)


@functools.cache
def load(function: str, dtype: str) -> Vectors:
    """All vectors of `function` for `dtype`.

    >>> vectors = load("isrlu", "float32")
    >>> float(vectors[vectors.x == -float("inf")].dfdx.min())
    0.0
    """
    if function not in FUNCTIONS or dtype not in DTYPES:
        raise ValueError(f"no vectors for {function!r} in {dtype!r}: there are {FUNCTIONS} in {DTYPES}")
    rows = [row for row in _table() if (row["function"], row["dtype"]) == (function, dtype)]
    columns = (np.array([float(row[name] or "nan") for row in rows]) for name in ("alpha", "x", *QUANTITIES))
    return Vectors(function, dtype, *columns)


@functools.cache
def _table() -> list[dict[str, str]]:
    with importlib.resources.files("isrlu.testing").joinpath("vectors.csv").open() as file:
        return list(csv.DictReader(file))
