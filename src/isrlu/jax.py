"""ISRLU and ISRU for JAX: `isrlu`, `isru`, `isru_sigmoid` and `sisrlu`, used like the functions of `jax.nn`.

>>> import jax, jax.numpy as jnp
>>> isrlu(jnp.array([2.0, -1.0]))
Array([ 2.        , -0.70710677], dtype=float32)
>>> round(float(jax.grad(isrlu)(-1.0)), 4)
0.3536
"""

import functools
from typing import Any

from isrlu import _formula
from isrlu._checks import check_alpha, check_channels, check_finite, refuse_alpha_array, require
from isrlu.signal import SISRLU_ALPHA

with require("jax"):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.custom_derivatives import SymbolicZero

__all__ = ["dyisru", "isrlu", "isru", "isru_sigmoid", "sisrlu"]


def isrlu(x: Any, alpha: Any = 1.0) -> jax.Array:
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0.

    Args:
        x: array of any real dtype; float16 and bfloat16 are computed in float32 and rounded once.
        alpha: a number >= 0, or an array that broadcasts against x. Differentiable.

    Returns:
        An array of x's dtype (integers become the default float).

    Raises:
        ValueError: if alpha is a negative or non-finite number. The values of an array are not checked.
    """
    return _apply("isrlu", x, _checked(alpha))


def isru(x: Any, alpha: Any = 1.0) -> jax.Array:
    """x / sqrt(1 + alpha x^2), a replacement for tanh; arguments as in `isrlu`."""
    return _apply("isru", x, _checked(alpha))


@jax.jit
def isru_sigmoid(x: Any) -> jax.Array:
    """(1 + isru(x/2)) / 2, a replacement for the logistic sigmoid with the same slope 1/4 at 0.

    >>> isru_sigmoid(0.0)
    Array(0.5, dtype=float32)
    """
    x = _real(x)
    return _sigmoid(x.astype(_formula.computed(x.dtype.name))).astype(x.dtype)


def sisrlu(x: Any, alpha: float = SISRLU_ALPHA) -> jax.Array:
    """lambda x for x >= 0, lambda beta x / sqrt(1 + alpha x^2) for x < 0: self-normalising ISRLU.

    lambda and beta follow from alpha (`isrlu.signal.sisrlu_constants`): for a standard normal x the result has mean 0
    and variance 1. x is as in `isrlu`, alpha a number >= 0. The derivative at 0 is lambda.
    """
    if _is_array(alpha):
        refuse_alpha_array("sisrlu", "an array")
    x = _real(x)
    return _scaled(x, *_formula.sisrlu_scales(check_alpha(alpha), _formula.computed(x.dtype.name)))


@jax.jit
def _scaled(x: jax.Array, alpha: Any, positive: Any, negative: Any) -> jax.Array:
    """isrlu(x) times a number for x >= 0 and another for x < 0."""
    wide = x.astype(_formula.computed(x.dtype.name))
    alpha, positive, negative = (jnp.asarray(number, wide.dtype) for number in (alpha, positive, negative))
    return _product(wide, alpha, jnp.where(wide >= 0, positive, negative)).astype(x.dtype)


@jax.custom_jvp
def _product(x: jax.Array, alpha: jax.Array, scale: jax.Array) -> jax.Array:
    return _value_and_root("isrlu", x, alpha)[0] * scale


@_product.defjvp
def _product_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[jax.Array, jax.Array]:
    """scale r^3, multiplied in this order: r^3 alone may underflow. alpha and scale are constants."""
    x, alpha, scale = primals
    _, r = _value_and_root("isrlu", x, alpha)
    return _product(x, alpha, scale), scale * r * r * r * tangents[0]


def dyisru(x: Any, weight: Any = None, bias: Any = None, alpha: Any = 0.5, shift: Any = 0.0) -> jax.Array:
    """weight * u / sqrt(1 + u^2) + bias, u = alpha x + shift: the element-wise replacement of layer normalisation.

    Args:
        x: array of any real dtype; float16 and bfloat16 are computed in float32 and rounded once.
        weight: array of the shape of x's last dims; None stands for 1.
        bias: array of the shape of x's last dims; None stands for 0.
        alpha: a finite number, or an array with one value.
        shift: a finite number, or an array with one value. All arguments are differentiable.

    >>> dyisru(jnp.array([-1.5, 0.0, 1.5]))
    Array([-0.6,  0. ,  0.6], dtype=float32)
    """
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None:
            check_channels(jnp.shape(x), name, jnp.shape(given))
    alpha, shift = _one_number("alpha", alpha), _one_number("shift", shift)
    return _norm(x, weight, bias, alpha, shift)


@jax.jit
def _norm(x: Any, weight: Any, bias: Any, alpha: Any, shift: Any) -> jax.Array:
    x = _real(x)
    compute = _formula.computed(x.dtype.name)
    alpha, shift = (jnp.asarray(each).astype(compute).reshape(()) for each in (alpha, shift))
    u = _formula.norm_argument(jnp, x.astype(compute), alpha, shift, float(jnp.finfo(compute).max))
    y = _value_and_root("isru", u, jnp.ones((), compute))[0]
    y = y if weight is None else y * jnp.asarray(weight).astype(compute)
    return (y if bias is None else y + jnp.asarray(bias).astype(compute)).astype(x.dtype)


def _one_number(name: str, given: Any) -> Any:
    if not _is_array(given):
        return check_finite(name, given)
    if jnp.size(given) != 1:
        raise ValueError(f"{name} must be a number or an array with one value, got shape {jnp.shape(given)}")
    return given


@functools.partial(jax.jit, static_argnums=0)
def _apply(name: str, x: Any, alpha: Any) -> jax.Array:
    x, alpha = _real(x), _real(alpha)
    compute = _formula.computed(x.dtype.name)
    alpha = jnp.minimum(alpha.astype(compute), jnp.finfo(compute).max)  # infinity * 0 would be NaN
    return _value_and_root(name, x.astype(compute), alpha)[0].astype(x.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value_and_root(name: str, x: jax.Array, alpha: jax.Array) -> tuple[jax.Array, jax.Array]:
    """f and r of `_formula`. Their derivatives are products of f and r, so the rule below works to every order."""
    formula = {"isrlu": _formula.isrlu, "isru": _formula.isru}[name]
    return formula(jnp, x, alpha, _formula.far(x.dtype.name))


def _value_and_root_jvp(name: str, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    """df/dx = r^3, df/dalpha = -f^3 / 2, dr/dx = -alpha f r^2, dr/dalpha = -f^2 r / 2, with f = 0 where r = 1."""
    x, alpha = primals
    f, r = _value_and_root(name, x, alpha)
    bent = jnp.where(x >= 0, 0.0, f) if name == "isrlu" else f
    slopes_x = (r * r * r, -jnp.where(alpha == 0, 0.0, alpha * bent) * r * r)
    slopes_alpha = (-0.5 * bent * bent * bent, -0.5 * bent * bent * r)
    # Skip zero tangents: the derivative in alpha can be infinite, and its product with 0 is NaN.
    terms = [
        [slope * tangent for slope in slopes]
        for slopes, tangent in zip((slopes_x, slopes_alpha), tangents, strict=True)
        if not isinstance(tangent, SymbolicZero)
    ]
    df, dr = (sum(parts[1:], parts[0]) for parts in zip(*terms, strict=True))
    return (f, r), (jnp.broadcast_to(df, f.shape), jnp.broadcast_to(dr, r.shape))


_value_and_root.defjvp(_value_and_root_jvp, symbolic_zeros=True)


@jax.custom_jvp
def _sigmoid(x: jax.Array) -> jax.Array:
    return _formula.isru_sigmoid(jnp, x, _formula.far(x.dtype.name))[0]


@_sigmoid.defjvp
def _sigmoid_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """ds/dx = r^3 / 4, with the root r of isru(x/2), which has its own derivative rule."""
    (x,), (tangent,) = primals, tangents
    _, r = _value_and_root("isru", x * 0.5, jnp.ones_like(x))
    return _sigmoid(x), r * r * r * (0.25 * tangent)


def _checked(alpha: Any) -> Any:
    return alpha if _is_array(alpha) else check_alpha(alpha)


def _is_array(given: Any) -> bool:
    return isinstance(given, (jax.Array, np.ndarray)) or hasattr(given, "__jax_array__")  # an nnx.Param has it


def _real(x: Any) -> jax.Array:
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"isrlu takes real arrays, got {x.dtype}")
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)
