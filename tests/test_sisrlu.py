"""Self-normalising ISRLU in NumPy, PyTorch, JAX and Flax: what it does otherwise than ISRLU, and its dropout.

Values: test_vectors.py, test_torch_values.py. Derivatives, modules, compilers: the tests of isrlu.torch.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

import isrlu.numpy as inp
from isrlu._checks import METHODS
from isrlu.signal import dropout_constants, moments, rms_gain, sisrlu_constants
from isrlu.testing import check, expect

torch = pytest.importorskip("torch")
import isrlu.torch as it  # noqa: E402

BETA, LAMBDA = sisrlu_constants()
SIZES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 65, 1000]


def _numbers(size: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(size).standard_normal(size) * 3).astype(dtype)


@pytest.mark.parametrize("alpha", [0.70832, 1.0, 1e-8, 1e20])
@pytest.mark.parametrize("method", METHODS)
def test_methods(method: str, alpha: float) -> None:
    x = _numbers(1000)
    expected = expect("sisrlu", x, alpha)
    check(
        expected, "numpy", method, f=inp.sisrlu(x, alpha, method=method), dfdx=inp.sisrlu_grad(x, alpha, method=method)
    )
    leaf = torch.tensor(x, requires_grad=True)
    y = it.sisrlu(leaf, alpha, method=method)
    y.backward(torch.ones_like(y))
    check(expected, "torch", method, f=y.detach(), dfdx=leaf.grad)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_a_result_depends_on_the_value_alone(size: int, dtype: str) -> None:
    x = _numbers(size + 3, dtype)
    whole = inp.sisrlu(x)
    for start in (1, 3):
        np.testing.assert_array_equal(inp.sisrlu(x[start:]), whole[start:])
    np.testing.assert_array_equal(inp.sisrlu(np.repeat(x, 2)[::2]), whole)
    np.testing.assert_array_equal(it.sisrlu(torch.tensor(x)).numpy(), whole)


def test_ufunc_keywords() -> None:
    x = _numbers(50)
    out = np.zeros_like(x)
    assert inp.sisrlu(x, 1.0, out=out, where=x > 0) is out
    np.testing.assert_array_equal(out, np.where(x > 0, inp.sisrlu(x, 1.0), 0))
    assert inp.sisrlu(x, dtype=np.float64).dtype == np.float64
    assert inp.sisrlu([1, 2]).dtype == np.float64
    assert inp.sisrlu(2.0, np.float32(1)) == pytest.approx(2 * sisrlu_constants(1.0).lambda_)
    np.testing.assert_array_equal(inp.sisrlu(x.astype(">f4")), inp.sisrlu(x))  # NumPy buffers x and alpha


def test_alpha_0_is_the_identity() -> None:
    x = np.float32([-np.inf, -3e38, -1, -1e-45, -0.0, 0, 2, np.inf])
    for y in (inp.sisrlu(x, 0), it.sisrlu(torch.tensor(x), 0.0).numpy()):
        np.testing.assert_array_equal(y.view(np.uint32), x.view(np.uint32))
    np.testing.assert_array_equal(inp.sisrlu_grad(x, 0), np.ones_like(x))


def test_derivative_at_0_is_lambda() -> None:
    np.testing.assert_allclose(inp.sisrlu_grad([0.0, -0.0]), LAMBDA, rtol=1e-15)
    np.testing.assert_allclose(inp.sisrlu_grad([-1e-30]), LAMBDA * BETA, rtol=1e-15)


REFUSED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: inp.sisrlu([1.0], [1.0, 2.0]), TypeError, "alpha of sisrlu must be a number, got an array"),
    (lambda: it.sisrlu(torch.ones(2), torch.ones(2)), TypeError, "alpha of sisrlu must be a number, got a tensor"),
    (lambda: it.SISRLU(alpha=math.nan), ValueError, "alpha must be a finite number >= 0, got nan"),
    (lambda: it.sisrlu(torch.ones(2), -1), ValueError, "alpha must be a finite number >= 0, got -1"),
    (lambda: inp.sisrlu([1.0], math.inf), ValueError, "alpha must be a finite number >= 0, got inf"),
    (lambda: it.sisrlu(torch.ones(2), method="fast"), ValueError, "unknown method 'fast'"),
    (lambda: it.SISRLUDropout(1.0), ValueError, "at least 0 and below 1, got 1.0"),
    (lambda: it.SISRLUDropout(0.1, alpha=0), ValueError, "alpha must be above 0, got 0"),
    (lambda: it.feature_sisrlu_dropout(torch.ones(3)), ValueError, r"\[batch, channels, ...\], got \(3,\)"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_bad_arguments(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_in_place_trains_from_its_output(dtype) -> None:
    x = torch.tensor(_numbers(200)).to(dtype)
    grads = []
    for inplace in (False, True):
        leaf = x.clone().requires_grad_()
        hidden = leaf * 1
        y = it.SISRLU(inplace=inplace)(hidden)
        assert (y.data_ptr() == hidden.data_ptr()) == inplace
        y.sum().backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(grads[0], grads[1], atol=1e-5 if dtype is torch.float32 else 2e-2, rtol=1e-4)


def test_autocast_keeps_the_dtype() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        y = it.SISRLU()(torch.nn.Linear(4, 4)(torch.ones(2, 4)))
    assert y.dtype is torch.bfloat16


@pytest.mark.slow
def test_a_new_alpha_is_compiled_again() -> None:
    x = torch.tensor(_numbers(40))
    compiled = torch.compile(lambda x, alpha: it.sisrlu_dropout(it.sisrlu(x, alpha), 0.0, alpha), fullgraph=True)
    for alpha in (0.5, 1.0, 3.0):
        check(expect("sisrlu", x, alpha), "torch.compile", f=compiled(x, alpha))


def test_calculate_gain() -> None:
    assert it.calculate_gain("isrlu", 3.0) == rms_gain("isrlu", 3.0)
    assert it.calculate_gain("isru") == rms_gain("isru", 1.0)
    assert it.calculate_gain("sisrlu") == pytest.approx(1.0, abs=1e-14)
    assert it.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain("leaky_relu", 0.2)
    with pytest.raises(ValueError, match="gelu"):
        it.calculate_gain("gelu")


@pytest.mark.parametrize("alpha", [0.70832, 2.0])
@pytest.mark.parametrize("p", [0.05, 0.5])
def test_dropout_keeps_mean_and_variance(p: float, alpha: float) -> None:
    torch.manual_seed(0)
    x = it.sisrlu(torch.randn(400_000, dtype=torch.float64), alpha)
    y = it.SISRLUDropout(p, alpha)(x)
    dropped, scale, shift = dropout_constants(p, alpha)
    is_dropped = y == dropped
    deviation = 1 / y.numel() ** 0.5
    assert abs(is_dropped.double().mean() - p) < 4 * (p * (1 - p)) ** 0.5 * deviation
    torch.testing.assert_close(y[~is_dropped], (x * scale + shift)[~is_dropped], rtol=0, atol=0)
    assert abs(y.mean()) < 4 * deviation
    spread = (y - y.mean()).square().std()  # of the square, whose mean is the variance
    assert abs(y.var() - 1) < 4 * spread * deviation


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dropout_is_rounded_once(dtype) -> None:
    x = it.sisrlu(torch.randn(1000)).to(dtype)
    results = []
    for dropout in (it.sisrlu_dropout, it.feature_sisrlu_dropout):
        for given in (x.reshape(10, 100), x.reshape(10, 100).float()):
            torch.manual_seed(0)
            results.append(dropout(given, 0.3))
    assert results[0].dtype is dtype
    assert torch.equal(results[0], results[1].to(dtype)) and torch.equal(results[2], results[3].to(dtype))


def test_dropout_keeps_its_probability_under_another_default_dtype() -> None:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        dropped = [
            dropout(torch.zeros(10, 10_000), 0.001) < 0 for dropout in (it.sisrlu_dropout, it.feature_sisrlu_dropout)
        ]
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(60 < each.sum() < 145 for each in dropped)  # 100 +- 4.5 deviations


def test_dropout_keeps_the_memory_format() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert it.sisrlu_dropout(x).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.slow
@pytest.mark.parametrize("p", [np.float32(0.25), torch.tensor(0.25)])
def test_dropout_with_a_number_of_another_kind_compiles(p: object) -> None:
    compiled = torch.compile(it.SISRLUDropout(p), fullgraph=True, backend="aot_eager")
    assert compiled(torch.ones(3)).shape == (3,)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "good", "bad", "message"),
    [
        (
            it.sisrlu_dropout,
            (0.1, 0.2, 0.3),
            1.5,
            "the probability of dropping must be at least 0 and below 1, got 1.5",
        ),
        (it.sisrlu_dropout, (), 1, "the probability of dropping must be at least 0 and below 1, got 1.0"),
        (lambda x, alpha: it.sisrlu_dropout(x, 0.5, alpha), (0.1, 0.2, 0.3), 0.0, "alpha must be above 0, got 0"),
        (it.sisrlu, (0.1, 0.2, 0.3), -1.5, "alpha must be a finite number >= 0, got -1.5"),
        (it.sisrlu, (1, 2, 3), -1, "alpha must be a finite number >= 0, got -1"),
    ],
)
def test_a_bad_number_in_a_compiled_function(
    call: Callable[..., torch.Tensor], good: tuple[float, ...], bad: float, message: str
) -> None:
    """After two different numbers the compiler makes the number an input of the graph."""
    torch.compiler.reset()
    compiled = torch.compile(lambda x, number: call(x, number), fullgraph=True, backend="aot_eager")
    for number in good:
        compiled(torch.ones(3), number)
    with pytest.raises(ValueError, match=message):
        compiled(torch.ones(3), bad)


def test_dropout_of_channels_in_place_and_in_evaluation() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 8, 5, 5)
    y = it.FeatureSISRLUDropout(0.3)(x)
    whole = (y == torch.tensor(dropout_constants(0.3).dropped)).flatten(2)
    assert torch.equal(whole.all(2), whole.any(2)) and 0.1 < whole.float().mean() < 0.5
    module = it.SISRLUDropout(0.3, inplace=True)
    assert repr(module) == "SISRLUDropout(p=0.3, alpha=0.70832, inplace=True)"
    assert module.eval()(x) is x
    assert module.train()(x) is x and not torch.equal(x, y)
    assert it.SISRLUDropout(0.0)(x) is x


@pytest.mark.parametrize("dropout", [it.sisrlu_dropout, it.feature_sisrlu_dropout])
def test_dropout_of_what_is_no_real_tensor_is_an_error(dropout) -> None:
    for x in (torch.arange(6).reshape(2, 3), torch.ones(2, 3, dtype=torch.bool), torch.ones(2, 3) + 1j):
        with pytest.raises(TypeError, match=f"x must be float16, bfloat16, float32 or float64, got {x.dtype}"):
            dropout(x)
    with pytest.raises(TypeError, match=r"x must be a torch.Tensor, got list"):
        dropout([1.0])
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(it.SISRLUDropout(0.5)))
    assert traced(torch.ones(2, 3)).shape == (2, 3)


def test_jax_and_flax() -> None:
    jax = pytest.importorskip("jax")
    import isrlu.flax
    import isrlu.jax

    x = jax.random.normal(jax.random.key(0), (100,)) * 3
    expected = expect("sisrlu", x, 1.0)
    check(expected, "jax", f=isrlu.flax.SISRLU(1.0)(x), dfdx=jax.vmap(jax.grad(lambda x: isrlu.jax.sisrlu(x, 1.0)))(x))
    second = jax.vmap(jax.grad(jax.grad(isrlu.jax.sisrlu)))(x)
    r2 = 1 / (1 + 0.70832 * np.asarray(x, "float64") ** 2)
    exact = np.where(x >= 0, 0, -3 * 0.70832 * LAMBDA * BETA * x * r2**2.5)
    np.testing.assert_allclose(second, exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(jax.jit(isrlu.jax.sisrlu)(x), isrlu.jax.sisrlu(x))
    before = isrlu.jax._scaled._cache_size()
    isrlu.jax.sisrlu(x, 2.0)
    assert isrlu.jax._scaled._cache_size() == before  # no second compilation
    with pytest.raises(TypeError, match="alpha of sisrlu must be a number, got an array"):
        isrlu.jax.sisrlu(x, jax.numpy.ones(()))


def test_samples_have_the_moments_of_the_theory() -> None:
    """400,000 samples of each function, against the quadrature."""
    z = np.random.default_rng(3).standard_normal(400_000)
    for function, alpha in ((inp.isrlu, 1.0), (inp.isru, 3.0), (inp.sisrlu, 0.70832)):
        y, (first, second) = function(z, alpha), moments(function.__name__, alpha)
        assert abs(y.mean() - first) < 4 * y.std() / len(z) ** 0.5
        assert abs(y.var() - second) < 4 * ((y - first) ** 2).std() / len(z) ** 0.5
