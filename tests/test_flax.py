"""isrlu.flax: modules with a fixed and a learnable alpha."""

import math

import numpy as np
import pytest

jax = pytest.importorskip("jax")
nnx = pytest.importorskip("flax.nnx")
jnp = jax.numpy

import isrlu.jax as functions  # noqa: E402
from isrlu.flax import ISRLU, ISRU  # noqa: E402
from isrlu.testing import check, expect  # noqa: E402

PAIRS = [(ISRLU, functions.isrlu), (ISRU, functions.isru)]


@pytest.mark.parametrize(("module", "function"), PAIRS)
def test_module_is_the_function(module, function) -> None:
    x = jnp.linspace(-5, 5, 21)
    np.testing.assert_array_equal(module(3.0)(x), function(x, 3.0))
    assert not jax.tree.leaves(nnx.state(module(3.0), nnx.Param))


@pytest.mark.parametrize("num_parameters", [1, 4])
@pytest.mark.parametrize(("module", "function"), PAIRS)
def test_learnable_alpha_starts_at_the_given_value(module, function, num_parameters) -> None:
    layer = module(3.0, learnable=True, num_parameters=num_parameters)
    assert layer.alpha.shape == (num_parameters,)
    np.testing.assert_allclose(layer.alpha, 3.0, rtol=1e-6)  # exp(log 3): no bound of ours
    x = jax.random.normal(jax.random.key(0), (5, 4))
    check(expect(function.__name__, x, layer.alpha), "jax", f=layer(x))
    assert layer(x.astype("bfloat16")).dtype == "bfloat16"


def test_a_learned_alpha_of_16_bits_without_promotion() -> None:
    with jax.numpy_dtype_promotion("strict"):
        layer = ISRLU(3.0, learnable=True, param_dtype=jnp.bfloat16)
        assert layer.alpha.dtype == "float32" and layer(jnp.ones(2, "bfloat16")).dtype == "bfloat16"


def test_shapes_are_kept_or_refused() -> None:
    layer = ISRLU(learnable=True)
    assert layer(-1.0).shape == () and jax.vmap(layer)(jnp.ones(7)).shape == (7,)
    assert functions.isru(jnp.ones((5, 1)), layer.log_alpha).shape == (5, 1)
    for shape in ((5, 1), (4, 3), ()):
        with pytest.raises(ValueError, match="4 alphas, one per feature, do not fit x of shape"):
            ISRLU(learnable=True, num_parameters=4)(jnp.ones(shape))


def test_alpha_is_learned_and_stays_positive() -> None:
    x = jax.random.normal(jax.random.key(1), (256, 2)) * 3
    target = functions.isrlu(x, jnp.array([0.2, 5.0]))
    layer = ISRLU(1.0, learnable=True, num_parameters=2)
    optax = pytest.importorskip("optax")
    optimizer = nnx.Optimizer(layer, optax.adam(0.05), wrt=nnx.Param)

    @nnx.jit
    def step(layer, optimizer):
        gradients = nnx.grad(lambda layer: jnp.mean((layer(x) - target) ** 2))(layer)
        optimizer.update(layer, gradients)

    for _ in range(300):
        step(layer, optimizer)
    np.testing.assert_allclose(layer.alpha, [0.2, 5.0], rtol=0.02)
    layer.log_alpha[...] = layer.log_alpha[...] - 50
    assert np.all(np.asarray(layer.alpha) > 0)


def test_split_and_merge_keep_alpha() -> None:
    graph, state = nnx.split(ISRLU(0.5, learnable=True))
    np.testing.assert_allclose(nnx.merge(graph, state).alpha, 0.5, rtol=1e-6)


@pytest.mark.parametrize("module", [ISRLU, ISRU])
def test_bad_arguments(module) -> None:
    for alpha in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="alpha must be a finite number >= 0, got "):
            module(alpha)
    with pytest.raises(ValueError, match="a learnable alpha must start above 0, got 0"):
        module(0, learnable=True)
    with pytest.raises(ValueError, match="num_parameters=3 needs learnable=True"):
        module(num_parameters=3)
    with pytest.raises(ValueError, match="num_parameters must be an integer >= 1, got 0"):
        module(learnable=True, num_parameters=0)
