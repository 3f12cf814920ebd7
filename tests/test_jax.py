"""isrlu.jax: transformations, dtypes, derivatives of every order, no second compilation. (Values: test_vectors.py.)"""

import math

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

import isrlu.jax as activations  # noqa: E402
from isrlu.testing import bounds, check, expect, ulp  # noqa: E402

FUNCTIONS = [activations.isrlu, activations.isru, activations.isru_sigmoid]
WITH_ALPHA = FUNCTIONS[:2]
DTYPES = ["float16", "bfloat16", "float32"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_dtype_and_shape_are_kept(function, dtype) -> None:
    x = jnp.ones((2, 3), dtype)
    assert function(x).dtype == dtype
    assert function(x).shape == (2, 3)
    assert jax.grad(lambda x: function(x).sum())(x).dtype == dtype
    assert function(jnp.arange(3)).dtype == jnp.float32
    if function in WITH_ALPHA:
        assert function(x, jnp.ones(3, "float32")).dtype == dtype
        assert function(x[0], jnp.ones((4, 1))).shape == (4, 3)


@pytest.mark.parametrize("dtype", [*DTYPES, "float8_e4m3fn"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_is_promoted_by_itself(function, dtype) -> None:
    with jax.numpy_dtype_promotion("strict"):
        x = jnp.array([-1.0, 2.0]).astype(dtype)
        np.testing.assert_array_equal(function(x), function(x.astype("float32")).astype(dtype))


def test_float64_is_float64() -> None:
    with jax.enable_x64(True):
        y = activations.isrlu(jnp.float64(-1.0), 0.1)
        assert y.dtype == "float64"
        check(expect("isrlu", -1.0, 0.1), "jax", f=y)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_jit_vmap_and_eager_agree(function) -> None:
    x = jax.random.normal(jax.random.key(0), (5, 7)) * 10
    expected = function(x)
    np.testing.assert_array_equal(jax.jit(function)(x), expected)
    np.testing.assert_array_equal(jax.vmap(function)(x), expected)
    with jax.disable_jit():
        check(expect(function.__name__, x), "jax", f=function(x))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_result_depends_on_the_value_alone(function) -> None:
    x = jax.random.normal(jax.random.key(1), (97,))
    whole = np.asarray(function(x))
    for size in (1, 7, 8, 9, 31, 33, 64, 65):
        np.testing.assert_array_equal(function(x[-size:]), whole[-size:])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("x", [-30.0, -2.0, -0.7, 0.3, 1.5])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_of_every_order(function, x, order) -> None:
    with jax.enable_x64(True):
        derived, lower = function, None
        for _ in range(order):
            derived, lower = jax.grad(derived), derived
        step = 1e-5 * max(1.0, abs(x))
        difference = (lower(x + step) - lower(x - step)) / (2 * step)
        assert float(derived(x)) == pytest.approx(float(difference), rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("function", WITH_ALPHA)
def test_hessian_in_x_and_alpha(function) -> None:
    with jax.enable_x64(True):
        x, alpha = -1.5, 0.7
        f = x / math.sqrt(1 + alpha * x * x)
        r = f / x
        hessian = jax.hessian(function, argnums=(0, 1))(x, alpha)
        assert float(hessian[0][0]) == pytest.approx(-3 * alpha * f * r**4)
        assert float(hessian[0][1]) == pytest.approx(-1.5 * f * f * r**3)
        assert float(hessian[1][0]) == pytest.approx(-1.5 * f * f * r**3)
        assert float(hessian[1][1]) == pytest.approx(0.75 * f**5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_jvp_and_vjp_agree(function) -> None:
    x = jax.random.normal(jax.random.key(2), (64,)) * 5
    _, forward = jax.jvp(function, (x,), (jnp.ones_like(x),))
    _, pull = jax.vjp(function, x)
    for slope in (forward, pull(jnp.ones_like(x))[0]):
        check(expect(function.__name__, x), "jax", dfdx=slope)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 1e-38, 1.0, 3e38, 1e300])
@pytest.mark.parametrize("function", WITH_ALPHA)
def test_no_nan_leaks_from_a_branch_not_taken(function, alpha, order) -> None:
    x = jnp.array([-jnp.inf, -3e38, -1e20, -1.0, -0.0, 0.0, 1e-40, 1.0, 1e20, 3e38, jnp.inf])
    derived = function
    for _ in range(order):
        derived = jax.grad(derived)
    values = jax.vmap(derived, (0, None))(x, alpha)
    assert not np.isnan(values).any()
    if order == 1 and function is activations.isrlu:
        np.testing.assert_array_equal(values[4:], 1.0)


def test_alpha_gradient_of_the_linear_half_is_zero_even_where_the_other_half_is_infinite() -> None:
    x = jnp.array([1e20, 3e38, jnp.inf])
    gradient = jax.grad(lambda alpha: activations.isrlu(x, alpha).sum())
    assert float(gradient(0.0)) == 0.0
    assert float(gradient(1.0)) == 0.0


@pytest.mark.parametrize("function", WITH_ALPHA)
def test_scalar_and_array_alpha_are_differentiable(function) -> None:
    x = jnp.array([-1.0, -2.0, 3.0])
    each = jax.grad(lambda alpha: function(x, alpha).sum())(jnp.ones(3))
    once = jax.grad(lambda alpha: function(x, alpha).sum())(1.0)
    assert float(once) == pytest.approx(float(each.sum()))
    check(expect(function.__name__, x), "jax", dfdalpha=each)


@pytest.mark.parametrize("function", WITH_ALPHA)
def test_no_second_compilation(function) -> None:
    x = jnp.linspace(-3, 3, 11)
    function(x, 1.0)
    before = activations._apply._cache_size()
    for alpha in (1.0, 0.5, 3, np.float32(2)):
        function(x + 1, alpha)
    assert activations._apply._cache_size() == before
    traced = []

    @jax.jit
    def step(x, alpha):
        traced.append(1)
        return jax.grad(lambda x: function(x, alpha).sum())(x)

    step(x, 1.0)
    step(x + 1, 2.0)
    assert len(traced) == 1


@pytest.mark.parametrize("function", WITH_ALPHA)
@pytest.mark.parametrize("alpha", [-1, -1e-300, math.nan, math.inf, np.float32(-1)])
def test_bad_alpha_is_refused(function, alpha) -> None:
    with pytest.raises(ValueError, match="alpha must be a finite number >= 0, got "):
        function(jnp.ones(3), alpha)
    with pytest.raises(ValueError, match="alpha must be a finite number >= 0, got "):
        jax.jit(lambda x: function(x, alpha))(jnp.ones(3))


@pytest.mark.parametrize("alpha", ["1", None, [1.0], True])
def test_alpha_that_is_no_number_is_refused(alpha) -> None:
    with pytest.raises(TypeError, match="alpha must be a real number or an array of them"):
        activations.isrlu(jnp.ones(3), alpha)


def test_complex_is_refused() -> None:
    with pytest.raises(TypeError, match="isrlu takes real arrays, got complex64"):
        activations.isrlu(jnp.ones(3, "complex64"))


def test_shape_is_a_property_of_the_function() -> None:
    x = jnp.sort(jax.random.normal(jax.random.key(3), (1000,)) * 100)
    for function in FUNCTIONS:
        y = np.asarray(function(x))
        assert np.all(np.diff(y) >= -2 * bounds("jax", function.__name__, "float32").f * ulp(y[1:], "float32"))
    np.testing.assert_array_equal(activations.isru(-x), -activations.isru(x))
    assert np.all(np.abs(activations.isru(x, 4.0)) <= 0.5)
