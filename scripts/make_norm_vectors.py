"""Write the test vectors of dyisru: x, weight, bias, alpha, shift, f(u), f'(u) and y, computed with mpmath.

    python scripts/make_norm_vectors.py  # rewrites src/isrlu/testing/norm_vectors.csv, the same bytes on every machine

u = alpha x + shift, f(u) = u / sqrt(1 + u^2), y = weight f(u) + bias. Every input is exact in its dtype.
"""

import csv
import math
import random

import mpmath
from make_vectors import OUT, rounded
from mpmath import mpf

from isrlu.testing import FORMATS, Format

FIELDS = ("dtype", "x", "weight", "bias", "alpha", "shift", "f", "slope", "y")
RANDOM = 12
# weight, bias, alpha, shift
PARAMETERS = (
    (1.0, 0.0, 0.5, 0.0),
    (1.5, -0.25, 0.7, 0.2),
    (-2.0, 3.0, -1.25, -0.5),
    (0.1, 0.0, 8.0, 1e-3),
    (1.0, 0.5, 0.0, 0.75),
    (3.0, 1.0, 1e30, 1.0),
    (2.0, 0.0, 1e-4, 100.0),
)


def exact(x: float, alpha: float, shift: float) -> tuple[mpf, mpf]:
    """f(u) and f'(u). Infinite x gives the limit, which is f(shift) for alpha = 0."""
    if math.isnan(x):
        return mpf("nan"), mpf("nan")
    if math.isinf(x) and alpha != 0:
        return mpf(math.copysign(1, x) * math.copysign(1, alpha)), mpf(0)
    u = (mpf(alpha) * mpf(x) if alpha else mpf(0)) + mpf(shift)
    root = mpmath.sqrt(1 + u**2)
    return u / root, 1 / root**3


def inputs(form: Format, draw: random.Random) -> list[float]:
    sizes = [form.smallest, form.smallest * 37, form.smallest_normal, 1e-3, 0.3, 1.0, 2.0, 5.0, 300.0]
    sizes += [2.0 ** (form.emax / 2), form.largest, math.inf]
    random_sizes = [draw.lognormvariate(0, 2) for _ in range(RANDOM)]
    signed = [sign * size for size in sizes + random_sizes for sign in (1, -1)]
    return [0.0, math.nan, *(rounded(x, form) for x in signed)]


def main() -> None:
    mpmath.mp.dps = 1400
    draw = random.Random(16)
    with OUT.with_name("norm_vectors.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for dtype, form in FORMATS.items():
            for parameters in PARAMETERS:
                weight, bias, alpha, shift = (rounded(each, form) for each in parameters)
                for x in inputs(form, draw):
                    f, slope = exact(x, alpha, shift)
                    y = mpf(weight) * f + mpf(bias)
                    results = [float(each) for each in (f, slope, y)]
                    writer.writerow([dtype, *(repr(each) for each in (x, weight, bias, alpha, shift, *results))])


if __name__ == "__main__":
    main()
