"""ISRLU, ISRU and SISRLU as Flax nnx modules, with a fixed or a learnable alpha.

>>> from flax import nnx
>>> layers = nnx.Sequential(nnx.Linear(2, 8, rngs=nnx.Rngs(0)), ISRLU(), nnx.Linear(8, 1, rngs=nnx.Rngs(1)))
"""

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar

from isrlu import _formula
from isrlu import jax as functions
from isrlu._checks import check_alpha, check_finite, check_learnable_alpha, require
from isrlu.signal import SISRLU_ALPHA

with require("flax", "jax"):
    import jax
    import jax.numpy as jnp
    from flax import nnx

__all__ = ["ISRLU", "ISRU", "SISRLU", "DyISRU"]


class _WithAlpha(nnx.Module):
    """An activation with alpha. A learnable alpha is stored as its logarithm, so it stays positive.

    Args:
        alpha: a number >= 0, or the initial value > 0 if learnable.
        learnable: whether alpha is a parameter.
        num_parameters: 1 for a single learnable alpha, or the size of the last axis for one per feature.
        param_dtype: dtype of the parameter.
    """

    _function: ClassVar[Callable[..., jax.Array]]

    def __init__(
        self, alpha: float = 1.0, *, learnable: bool = False, num_parameters: int = 1, param_dtype: Any = jnp.float32
    ) -> None:
        self._fixed = check_learnable_alpha(alpha, learnable, num_parameters)
        if learnable:
            self.log_alpha = nnx.Param(jnp.full((num_parameters,), math.log(self._fixed), param_dtype))
        self.learnable = learnable

    @property
    def alpha(self) -> float | jax.Array:
        """The number, or the learned values, in float32 or better."""
        if not self.learnable:
            return self._fixed
        log_alpha = self.log_alpha[...]
        return jnp.exp(log_alpha.astype(_formula.computed(log_alpha.dtype.name)))

    def __call__(self, x: Any) -> jax.Array:
        alpha, shape = self.alpha, jnp.shape(x)
        if isinstance(alpha, jax.Array) and alpha.size == 1:
            alpha = alpha.reshape(())
        elif isinstance(alpha, jax.Array) and shape[-1:] != alpha.shape:
            raise ValueError(f"{alpha.size} alphas, one per feature, do not fit x of shape {shape}")
        return type(self)._function(x, alpha)


class ISRLU(_WithAlpha):
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0."""

    _function = staticmethod(functions.isrlu)


class ISRU(_WithAlpha):
    """x / sqrt(1 + alpha x^2), a replacement for tanh; arguments as in `ISRLU`."""

    _function = staticmethod(functions.isru)


class SISRLU(nnx.Module):
    """lambda x for x >= 0, lambda beta x / sqrt(1 + alpha x^2) for x < 0: self-normalising ISRLU.

    Use it with `kernel_init=nnx.initializers.lecun_normal()`. alpha, a number >= 0, is not learnable: beta and
    lambda would have to follow it in every step.
    """

    def __init__(self, alpha: float = SISRLU_ALPHA) -> None:
        self.alpha = check_alpha(alpha)

    def __call__(self, x: Any) -> jax.Array:
        return functions.sisrlu(x, self.alpha)


class DyISRU(nnx.Module):
    """weight * u / sqrt(1 + u^2) + bias, u = alpha x + shift, in place of nnx.LayerNorm. All four are learned.

    Args:
        num_features: the size of the last axis.
        alpha: alpha at the start.
        shift: shift at the start.
        use_bias: whether there is a bias.
        use_scale: whether there is a weight.
        param_dtype: dtype of the parameters.
        rngs: not used; accepted because nnx.LayerNorm takes it.
    """

    def __init__(
        self,
        num_features: int,
        *,
        alpha: float = 0.5,
        shift: float = 0.0,
        use_bias: bool = True,
        use_scale: bool = True,
        param_dtype: Any = jnp.float32,
        rngs: Any = None,
    ) -> None:
        given: Any = num_features  # mypy takes its type for granted
        if not isinstance(given, Integral) or isinstance(given, bool) or int(given) < 1:
            raise ValueError(f"num_features must be an integer >= 1, got {num_features!r}")
        self.num_features = num_features
        self.weight = nnx.Param(jnp.ones((num_features,), param_dtype)) if use_scale else None
        self.bias = nnx.Param(jnp.zeros((num_features,), param_dtype)) if use_bias else None
        self.alpha = nnx.Param(jnp.asarray(check_finite("alpha", alpha), param_dtype))
        self.shift = nnx.Param(jnp.asarray(check_finite("shift", shift), param_dtype))

    def __call__(self, x: Any) -> jax.Array:
        if jnp.shape(x)[-1:] != (self.num_features,):
            raise ValueError(f"x must be of shape [*, {self.num_features}], got {list(jnp.shape(x))}")
        weight, bias = (None if each is None else each[...] for each in (self.weight, self.bias))
        return functions.dyisru(x, weight, bias, self.alpha[...], self.shift[...])
