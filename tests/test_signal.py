"""isrlu.signal: the theory against mpmath, closed forms and networks of 100 layers."""

import math
import subprocess
import sys

import numpy as np
import pytest

from isrlu import signal
from isrlu.signal import (
    check_domain,
    dropout_constants,
    jacobian,
    moments,
    rms_gain,
    second_moment,
    second_moment_slope,
    sisrlu_constants,
    std_gain,
    variance_slope,
)

mpmath = pytest.importorskip("mpmath")
ALPHAS = [0.01, 0.70832, 3.0]
CLOSE = 2e-14


def _by_mpmath(f, mean: float = 0.0, variance: float = 1.0):
    """E[f(x)] for a normal x, with 30 digits."""
    with mpmath.workdps(30):
        mu, sigma = mpmath.mpf(mean), mpmath.sqrt(variance)
        inner = [-1, -0.1, -0.01, 0, 0.01, 0.1, 1]
        points = [-12 * sigma, -5 * sigma, *inner, 5 * sigma, 12 * sigma]
        density = lambda x: mpmath.npdf(x, mu, sigma)  # noqa: E731
        return mpmath.quad(lambda x: f(x) * density(x), points)


def _curve(function: str, alpha: float):
    def isru(x):
        return x / mpmath.sqrt(1 + mpmath.mpf(alpha) * x * x)

    return isru if function == "isru" else lambda x: x if x >= 0 else isru(x)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("function", ["isrlu", "isru"])
def test_moments_are_those_of_mpmath(function: str, alpha: float) -> None:
    f = _curve(function, alpha)
    first, second = _by_mpmath(f), _by_mpmath(lambda x: f(x) ** 2)
    assert moments(function, alpha).mean == pytest.approx(float(first), rel=CLOSE, abs=CLOSE)
    assert moments(function, alpha).variance == pytest.approx(float(second - first**2), rel=CLOSE)
    assert second_moment(function, alpha) == pytest.approx(float(second), rel=CLOSE)
    assert std_gain(function, alpha) == pytest.approx(float(1 / mpmath.sqrt(second - first**2)), rel=CLOSE)
    assert rms_gain(function, alpha) == pytest.approx(float(1 / mpmath.sqrt(second)), rel=CLOSE)


def test_moments_away_from_the_standard_normal() -> None:
    f = _curve("isrlu", 2.0)
    first, second = _by_mpmath(f, 0.3, 2.0), _by_mpmath(lambda x: f(x) ** 2, 0.3, 2.0)
    found = moments("isrlu", 2.0, mean=0.3, variance=2.0)
    assert found.mean == pytest.approx(float(first), rel=CLOSE)
    assert found.variance == pytest.approx(float(second - first**2), rel=CLOSE)


def _with_slope(function: str, alpha: float):
    """The function and its derivative, in mpmath."""
    one, a = mpmath.mpf(1), mpmath.mpf(alpha)
    scale, gain = one, one
    if function == "sisrlu":
        gain = 1 / mpmath.quad(lambda x: x / mpmath.sqrt(1 + a * x * x) * mpmath.exp(-x * x / 2), [0, 1, 5, 12])
        square = mpmath.quad(lambda x: x * x / (1 + a * x * x) * mpmath.npdf(x), [0, 1, 5, 12])
        scale = 1 / mpmath.sqrt(one / 2 + gain**2 * square)
    if function == "selu":
        scale, gain = mpmath.mpf("1.0507009873554804934"), mpmath.mpf("1.6732632423543772848")
        return (
            lambda x: scale * (x if x >= 0 else gain * mpmath.expm1(x)),
            lambda x: scale * (one if x >= 0 else gain * mpmath.exp(x)),
        )
    return (
        lambda x: scale * (x if x >= 0 else gain * x / mpmath.sqrt(1 + a * x * x)),
        lambda x: scale * (one if x >= 0 else gain / mpmath.sqrt(1 + a * x * x) ** 3),
    )


@pytest.mark.parametrize(
    ("function", "alpha"),
    [
        *(("isrlu", alpha) for alpha in (0.5, 0.67, 1.0, 3.0)),
        *(("sisrlu", alpha) for alpha in (0.70832, 1.0)),
        ("selu", None),
    ],
)
def test_slopes_are_those_of_mpmath(function: str, alpha: float | None) -> None:
    """By f', which the code does not use: d E[g(sqrt(v) z)] / dv = E[z g'(z)] / 2 at v = 1."""
    f, slope = _with_slope(function, alpha or 0.0)
    first, second = _by_mpmath(f), _by_mpmath(lambda x: f(x) ** 2)
    of_first, of_second = _by_mpmath(lambda x: x * slope(x)) / 2, _by_mpmath(lambda x: x * f(x) * slope(x))
    of_variance = of_second - 2 * first * of_first
    assert variance_slope(function, alpha) == pytest.approx(float(of_variance / (second - first**2)), rel=CLOSE)
    assert second_moment_slope(function, alpha) == pytest.approx(float(of_second / second), rel=CLOSE)
    assert std_gain(function, alpha) == pytest.approx(float(1 / mpmath.sqrt(second - first**2)), rel=CLOSE)
    if function != "isrlu":  # self-normalising
        assert float(first) == pytest.approx(0, abs=CLOSE) and float(second) == pytest.approx(1, rel=CLOSE)


@pytest.mark.parametrize("alpha", [2.3e-308, 1e-6, 0.5, 1.0, *ALPHAS, 1e4, 1.7e308])
def test_sisrlu_constants_are_those_of_the_closed_form(alpha: float) -> None:
    """beta = 1 / g and lambda^-2 = 1/2 + (1 - g) / (2 alpha g^2): docs/signal.md."""
    with mpmath.workdps(700):  # digits: 1 - g cancels half of them at alpha = 1e-308
        s = 1 / mpmath.sqrt(2 * mpmath.mpf(alpha))
        g = mpmath.sqrt(mpmath.pi) * s * mpmath.exp(s**2) * mpmath.erfc(s)
        lambda_ = 1 / mpmath.sqrt(mpmath.mpf(1) / 2 + (1 - g) / (2 * mpmath.mpf(alpha) * g**2))
        expected = float(1 / g), float(lambda_)
    assert sisrlu_constants(alpha) == pytest.approx(expected, rel=4e-16)


@pytest.mark.parametrize(
    ("alpha", "beta", "lambda_", "slope"), [(1, 1.52514, 1.05383, 0.756), (0.70832, 1.41210, 1.04784, 0.778)]
)
def test_published_constants(alpha: float, beta: float, lambda_: float, slope: float) -> None:
    assert sisrlu_constants(alpha) == pytest.approx((beta, lambda_), abs=5e-6)
    assert variance_slope("sisrlu", alpha) == pytest.approx(slope, abs=5e-4)
    assert moments("sisrlu", alpha) == pytest.approx((0.0, 1.0), abs=CLOSE)


def test_default_alpha_saturates_where_selu_does() -> None:
    beta, lambda_ = sisrlu_constants()
    assert lambda_ * beta / math.sqrt(signal.SISRLU_ALPHA) == pytest.approx(
        1.0507009873554805 * 1.6732632423543772, abs=5e-6
    )


def test_alpha_0_is_the_identity() -> None:
    assert sisrlu_constants(0) == (1.0, 1.0)
    for function in ("isrlu", "isru", "sisrlu"):
        assert moments(function, 0.0) == pytest.approx((0.0, 1.0), abs=CLOSE)
        assert variance_slope(function, 0.0) == pytest.approx(1.0, abs=CLOSE)


def test_published_gains() -> None:
    assert [round(std_gain("isrlu", alpha), 4) for alpha in (0.5, 1, 3)] == [1.1682, 1.2372, 1.3563]
    assert rms_gain("relu") == pytest.approx(math.sqrt(2), rel=CLOSE)
    assert moments("selu") == pytest.approx((0.0, 1.0), abs=CLOSE)
    assert jacobian("selu")[0][1] == pytest.approx(0.088834, abs=1e-6)  # of Klambauer et al.
    assert variance_slope("selu") == pytest.approx(0.782648, abs=1e-6)


def test_the_second_moment_contracts_fastest_at_0_670() -> None:
    slopes = {
        alpha: second_moment_slope("isrlu", alpha) for alpha in (1e-6, 0.01, 0.6695, 0.67, 0.6705, 1.0, 1e4, 1e12)
    }
    assert max(slopes.values()) < 1
    assert min(slopes, key=lambda alpha: slopes[alpha]) == 0.67
    assert slopes[0.67] == pytest.approx(0.856, abs=5e-4)


def test_the_mean_of_isrlu_is_positive_for_every_alpha() -> None:
    for alpha in (1e-12, 1e-3, 1.0, 1e3, 1e12):
        assert 0 < moments("isrlu", alpha).mean < 1 / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("function", ["isrlu", "sisrlu", "selu", "centered_isrlu", "tanh", lambda x: np.maximum(x, -1)])
def test_jacobian_is_the_difference_quotient(function) -> None:
    def at(mean: float, variance: float) -> np.ndarray:
        return np.array(moments(function, mean=mean, variance=variance))

    step = 1e-5
    by_mean = (at(0.2 + step, 1.3) - at(0.2 - step, 1.3)) / (2 * step)
    by_variance = (at(0.2, 1.3 + step) - at(0.2, 1.3 - step)) / (2 * step)
    found = np.array(jacobian(function, mean=0.2, variance=1.3))
    # A kink away from 0, as that of the last function, is seen by the quadrature to about 1e-3.
    np.testing.assert_allclose(
        found, np.stack([by_mean, by_variance], 1), atol=1e-8 if isinstance(function, str) else 1e-2
    )


@pytest.mark.parametrize("function", ["selu", "sisrlu"])
def test_conditions_of_klambauer_et_al(function: str) -> None:
    found = check_domain(function)
    assert -0.1 < found.mean[0] < found.mean[1] < 0.1
    assert 0.8 < found.variance[0] < found.variance[1] < 1.5
    assert found.norm < 1
    if function == "selu":  # the paper's ranges of the mean
        assert found.mean == pytest.approx((-0.03106, 0.06773), abs=1e-5)


def test_the_conditions_can_fail() -> None:
    assert check_domain("isrlu", points=3).variance[0] < 0.8  # it shrinks the signal
    assert check_domain("sisrlu", 0.0, points=3).norm > 1  # the identity keeps every error


@pytest.mark.parametrize("alpha", [0.5, 0.70832, 3.0])
@pytest.mark.parametrize("p", [0.0, 0.05, 0.5, 0.9])
def test_dropout_keeps_mean_and_variance(p: float, alpha: float) -> None:
    dropped, scale, shift = dropout_constants(p, alpha)
    kept_mean, kept_square = shift, scale * scale + shift * shift  # of scale x + shift, x of mean 0 and variance 1
    assert (1 - p) * kept_mean + p * dropped == pytest.approx(0, abs=CLOSE)
    assert (1 - p) * kept_square + p * dropped**2 == pytest.approx(1, abs=CLOSE)
    beta, lambda_ = sisrlu_constants(alpha)
    assert (dropped - shift) / scale == pytest.approx(-lambda_ * beta / math.sqrt(alpha))


def _deep(f, layers: int = 100, width: int = 256) -> np.ndarray:
    """Activations after many layers with LeCun's initialisation, for 128 inputs."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(128, width))
    for _ in range(layers):
        x = f(x @ rng.normal(size=(width, width)) / math.sqrt(width))
    return x


def test_100_layers_keep_their_moments_with_sisrlu_and_lose_them_with_isrlu() -> None:
    from isrlu.numpy import isrlu, sisrlu

    kept, lost = _deep(sisrlu), _deep(isrlu)
    # Weights at random: each layer multiplies the variance by 1 + noise of sqrt(2 / 256), and the slope 0.78 damps it.
    assert abs(kept.mean()) < 0.15
    assert 0.7 < kept.var() < 1.4
    assert lost.var() < 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: moments("gelu"), "unknown function 'gelu': known are isrlu, isru, sisrlu, centered_isrlu, relu"),
        (lambda: moments("isrlu", -1), "alpha must be a finite number >= 0, got -1"),
        (lambda: moments("relu", 1.0), "relu has no alpha, got 1.0"),
        (lambda: moments(np.tanh, 1.0), "alpha=1.0 needs the name of a function with an alpha"),
        (lambda: moments("isrlu", variance=0), "variance > 0, got mean=0.0, variance=0"),
        (lambda: sisrlu_constants(math.inf), "alpha must be a finite number >= 0, got inf"),
        (lambda: dropout_constants(1.0), "at least 0 and below 1, got 1.0"),
        (lambda: dropout_constants(0.5, 0), "alpha must be above 0, got 0"),
    ],
)
def test_bad_arguments(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_arguments_of_other_types() -> None:
    with pytest.raises(TypeError, match="function must be a name or a callable, got None"):
        moments(None)
    with pytest.raises(TypeError, match="the probability of dropping must be a real number, got 'a'"):
        dropout_constants("a")
    assert {type(each) for each in dropout_constants(np.float32(0.5))} == {float}


def test_tables_of_the_docs() -> None:
    done = subprocess.run([sys.executable, "-m", "isrlu.signal"], capture_output=True, text=True, check=True)
    assert "| 1 | 0.13736 | 0.65329 | 1.2372 | 1.2197 | 0.8295 | 0.8597 |" in done.stdout
    assert "| sisrlu 0.70832 | -0.0305..0.0676 | 0.805..1.477 | 0.928 | yes |" in done.stdout
