"""Write the test vectors of all frameworks: x, alpha, f, df/dx, df/dalpha, computed with mpmath.

    python scripts/make_vectors.py        # rewrites src/isrlu/testing/vectors.csv, the same bytes on every machine

The formulas below are written as in the paper. mpmath computes with 1400 decimal digits, so that (1 + isru(x/2)) / 2 is
a correct float64 even at x = -1e308, where 616 digits cancel. Every x is exact in its dtype. Every alpha is exact in
the type of the arithmetic: float64 for float64, float32 for the other dtypes.
"""

import csv
import functools
import math
import random
from collections.abc import Iterator
from pathlib import Path

import mpmath
from mpmath import mpf

from isrlu.testing import FORMATS, Format

OUT = Path(__file__).parent.parent / "src" / "isrlu" / "testing" / "vectors.csv"
FIELDS = ("function", "dtype", "alpha", "x", "f", "dfdx", "dfdalpha")
RANDOM_PER_ALPHA = 16

mpmath.mp.dps = 1400


def rounded(value: float, form: Format) -> float:
    """The nearest number of the format, ties to even. Larger values give its largest finite number."""
    if value == 0.0 or not math.isfinite(value):
        return value
    exponent = max(math.frexp(value)[1] - 1, 1 - form.emax)
    spacing = exponent + 1 - form.digits
    nearest = math.ldexp(round(math.ldexp(value, -spacing)), spacing)
    return math.copysign(min(abs(nearest), form.largest), value)


def isru(x: mpf, alpha: mpf) -> tuple[mpf, mpf, mpf]:
    """x / sqrt(1 + alpha x^2), its derivative (the cube of the same inverse root) and -f^3 / 2."""
    if mpmath.isnan(x):
        return x, x, x
    if mpmath.isinf(x):
        if alpha == 0:
            return x, mpf(1), -x
        f = mpmath.sign(x) / mpmath.sqrt(alpha)
        return f, mpf(0), -(f**3) / 2
    root = mpmath.sqrt(1 + alpha * x**2)
    f = x / root
    return f, 1 / root**3, -(f**3) / 2


def isrlu(x: mpf, alpha: mpf) -> tuple[mpf, mpf, mpf]:
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0."""
    return (x, mpf(1), mpf(0)) if x >= 0 else isru(x, alpha)


def isru_sigmoid(x: mpf) -> tuple[mpf, mpf]:
    """(1 + isru(x/2)) / 2 and its derivative."""
    f, dfdx, _ = isru(x / 2, mpf(1))
    return (1 + f) / 2, dfdx / 4


@functools.cache
def sisrlu_scales(alpha: mpf) -> tuple[mpf, mpf]:
    """lambda and lambda beta, the integrals in closed form. s = 1 / sqrt(2 alpha), g = sqrt(pi) s exp(s^2) erfc(s),
    beta = 1 / g and E[z-^2 / (1 + alpha z^2)] = (1 - g) / (2 alpha)."""
    if alpha == 0:
        return mpf(1), mpf(1)
    s = 1 / mpmath.sqrt(2 * alpha)
    g = mpmath.sqrt(mpmath.pi) * s * mpmath.exp(s**2) * mpmath.erfc(s)
    scale = 1 / mpmath.sqrt(mpf(1) / 2 + (1 - g) / (2 * alpha * g**2))
    return scale, scale / g


def sisrlu(x: mpf, alpha: mpf) -> tuple[mpf, mpf]:
    """lambda x for x >= 0, lambda beta isru(x) for x < 0, and its derivative, which is lambda at 0."""
    positive, negative = sisrlu_scales(alpha)
    if x >= 0:
        return positive * x, positive
    f, dfdx, _ = isru(x, alpha)
    return negative * f, negative * dfdx


def alphas(dtype: str, rng: random.Random) -> list[float]:
    """0, the smallest normal number, common values, the largest number, and two random ones."""
    compute = FORMATS["float64" if dtype == "float64" else "float32"]
    edge = [0.0, compute.smallest_normal, 0.1, 1.0, 3.0, 1e4, compute.largest]
    return [rounded(value, compute) for value in (*edge, 10 ** rng.uniform(-4, 0), 10 ** rng.uniform(0, 4))]


def corners(form: Format, alpha: float) -> list[float]:
    """Magnitudes around the limits of the format, the overflow of x^2, the bend of f and saturation."""
    square = math.sqrt(form.largest)
    ends = [form.smallest, 3 * form.smallest, form.smallest_normal - form.smallest, form.smallest_normal]
    ends += [form.largest / 2, form.largest, math.inf]
    around_square = [square / 2, square * (1 - 2.0**-form.digits), square * (1 + 2.0 ** (1 - form.digits)), 2 * square]
    plain = [2.0 ** -(form.digits // 2), 0.5, 1.0 + 2.0 ** (1 - form.digits), 5.0, 240.0]
    bend = 1 / math.sqrt(alpha) if alpha else 1.0
    scaled = [bend * 2.0**power for power in (-1, 0, 1, form.digits // 2, form.digits, 30, 31, 60, 61)]
    return [rounded(value, form) for value in (*ends, *around_square, *plain, *scaled)]


def randoms(form: Format, alpha: float, rng: random.Random) -> Iterator[float]:
    """Half over all exponents, half around the bend, where the rounding errors are largest."""
    bend = 1 / math.sqrt(alpha) if alpha else 1.0
    for _ in range(RANDOM_PER_ALPHA // 2):
        anywhere = math.ldexp(rng.uniform(1, 2), rng.randint(2 - form.emax - form.digits, form.emax))
        yield rounded(-anywhere, form)
        yield rounded(-bend * 2.0 ** rng.uniform(-8, 8), form)


def inputs(dtype: str, alpha: float, rng: random.Random) -> list[float]:
    """Every x for one alpha, without repeats. One magnitude in five also as a positive x."""
    form = FORMATS[dtype]
    magnitudes = [value for value in corners(form, alpha) if value]
    found = [
        0.0,
        -0.0,
        math.nan,
        *(-value for value in magnitudes),
        *magnitudes[::5],
        math.inf,
        *randoms(form, alpha, rng),
    ]
    return list({repr(value): value for value in found}.values())


def rows() -> Iterator[tuple[str, ...]]:
    rng = random.Random(20260)
    for dtype in FORMATS:
        default = rounded(0.70832, FORMATS["float64" if dtype == "float64" else "float32"])
        for alpha in (*alphas(dtype, rng), default):
            only = (sisrlu,) if alpha == default else (isrlu, isru, sisrlu)
            for x in inputs(dtype, alpha, rng if alpha != default else random.Random(70832)):
                for function in only:
                    values = [float(value) for value in function(mpf(x), mpf(alpha))]
                    values[0] = math.copysign(values[0], x)  # mpmath has no -0.0
                    blank = [""] if len(values) == 2 else []  # no derivative by alpha
                    yield function.__name__, dtype, repr(alpha), repr(x), *map(repr, values), *blank
        for x in inputs(dtype, 0.25, rng):
            values = [float(value) for value in isru_sigmoid(mpf(x))]
            yield isru_sigmoid.__name__, dtype, "", repr(x), *map(repr, values), ""


def write(path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(sorted(rows(), key=lambda row: row[:2]))  # a stable sort


if __name__ == "__main__":
    write(OUT)
    print(f"{OUT.name}: {OUT.stat().st_size:,} bytes")
