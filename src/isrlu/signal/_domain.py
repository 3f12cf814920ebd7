"""The conditions of Klambauer et al. (2017) for a self-normalising network, checked over a domain."""

from typing import NamedTuple

import numpy as np

from isrlu.signal._moments import Function, jacobian, moments


class DomainCheck(NamedTuple):
    """The ranges of mean and variance after one layer, and the largest norm of its Jacobian, over a domain."""

    mean: tuple[float, float]
    variance: tuple[float, float]
    norm: float


def check_domain(
    function: Function,
    alpha: float | None = None,
    *,
    mean: tuple[float, float] = (-0.1, 0.1),
    variance: tuple[float, float] = (0.8, 1.5),
    weight_sum: tuple[float, float] = (-0.1, 0.1),
    weight_square_sum: tuple[float, float] = (0.95, 1.1),
    points: int = 17,
) -> DomainCheck:
    """Map a domain of (mean, variance) through one layer, on a grid. The defaults are those of Klambauer et al. (2017).

    A unit whose weights have the sum omega and the sum of squares tau has the input mean omega mu and the input
    variance tau nu. If the results lie inside the domain and the norm (the largest singular value) is below 1, the
    layer is a contraction of the domain: every (mean, variance) in it goes to one fixed point in it.
    """
    largest_mean = max(map(abs, mean)) * max(map(abs, weight_sum))
    means = np.linspace(-largest_mean, largest_mean, points)
    variances = np.linspace(variance[0] * weight_square_sum[0], variance[1] * weight_square_sum[1], points)
    grid = [{"mean": float(m), "variance": float(v)} for m in means for v in variances]
    found = [moments(function, alpha, **at) for at in grid]
    # By the chain rule the columns are multiplied by omega and tau. The norm is largest for the largest of them.
    columns = np.array([max(map(abs, weight_sum)), weight_square_sum[1]])
    norms = [float(np.linalg.norm(np.array(jacobian(function, alpha, **at)) * columns, 2)) for at in grid]
    return DomainCheck(
        (min(m for m, _ in found), max(m for m, _ in found)),
        (min(v for _, v in found), max(v for _, v in found)),
        max(norms),
    )
