"""`isrlu`, `isru`, `isru_sigmoid` and their layers `ISRLU`, `ISRU`, with a fixed or a learnable alpha.

Implementations:
- On JAX and PyTorch, the functions of `isrlu.jax` and `isrlu.torch`, which are faster and have more derivatives.
- On TensorFlow with a number as alpha, a short formula in TensorFlow ops.
- In all other cases, such as a tensor as alpha on PyTorch or TensorFlow, the formula in Keras ops.
"""

import importlib
import math
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras
import numpy as np
from keras import ops

from isrlu import _formula
from isrlu._checks import check_alpha, check_learnable_alpha

BACKEND = keras.backend.backend()
native: ModuleType | None = importlib.import_module(f"isrlu.{BACKEND}") if BACKEND in ("jax", "torch") else None


@keras.saving.register_keras_serializable("isrlu", "isrlu")
def isrlu(x: Any, alpha: Any = 1.0) -> Any:
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0.

    Args:
        x: tensor; float16 and bfloat16 are computed in float32 and rounded once, integers become the default float.
        alpha: a number >= 0, or a tensor that broadcasts to x's shape. Differentiable.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        ValueError: if alpha is a negative or non-finite number. The values of a tensor are not checked.
    """
    return _with_alpha("isrlu", ISRLU, x, alpha)


@keras.saving.register_keras_serializable("isrlu", "isru")
def isru(x: Any, alpha: Any = 1.0) -> Any:
    """x / sqrt(1 + alpha x^2), a replacement for tanh; arguments as in `isrlu`."""
    return _with_alpha("isru", ISRU, x, alpha)


@keras.saving.register_keras_serializable("isrlu", "isru_sigmoid")
def isru_sigmoid(x: Any) -> Any:
    """(1 + isru(x/2)) / 2, a replacement for the logistic sigmoid with the same slope 1/4 at 0."""
    if isinstance(x, keras.KerasTensor):
        return keras.layers.Activation(isru_sigmoid, dtype=_float_dtype(x))(x)
    x = _floating(x)
    if native is not None:
        return native.isru_sigmoid(x)

    @ops.custom_gradient
    def sigmoid(x: Any) -> tuple[Any, Callable[..., Any]]:
        value, r = _formula.isru_sigmoid(ops, x, _far(x))
        return value, lambda *args, upstream=None: _upstream(args, upstream) * (0.25 * r * r * r)

    return ops.cast(sigmoid(_widened(x)), x.dtype)


class _WithAlpha(keras.layers.Layer):
    """An activation with alpha. A learnable alpha is stored as its logarithm, so it stays positive.

    Args:
        alpha: a number >= 0, or the initial value > 0 if learnable.
        learnable: whether alpha is a weight, of the input's shape without the batch axis, as in `keras.layers.PReLU`.
        shared_axes: axes that share one learnable alpha, such as [1, 2] for one per channel of an image.
        **kwargs: arguments of every layer, such as `name` and `dtype`.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        learnable: bool = False,
        shared_axes: int | list[int] | tuple[int, ...] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.initial_alpha = check_learnable_alpha(alpha, learnable)
        self.learnable = learnable
        axes = shared_axes if isinstance(shared_axes, (list, tuple)) else () if shared_axes is None else (shared_axes,)
        self.shared_axes = [operator.index(axis) for axis in axes]  # a model is saved as JSON: no integers of NumPy
        if self.shared_axes and not learnable:
            raise ValueError(f"shared_axes={shared_axes!r} needs learnable=True")
        self.log_alpha = None
        self.built = not learnable  # without weights there is nothing to build

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        if self.learnable:
            shape = self._alpha_shape(input_shape)
            # autocast=False: alpha stays in float32 in a mixed-precision model.
            start = keras.initializers.Constant(math.log(self.initial_alpha))
            self.log_alpha = self.add_weight(name="log_alpha", shape=shape, initializer=start, autocast=False)
        self.built = True

    def _alpha_shape(self, input_shape: tuple[int | None, ...]) -> list[int | None]:
        axes = range(1, len(input_shape))
        unknown = [axis for axis in self.shared_axes if axis not in axes]
        if unknown:
            raise ValueError(
                f"shared_axes contains {unknown[0]}: an input of shape {input_shape} can share axes {[*axes]}"
            )
        shape = [1 if axis in self.shared_axes else input_shape[axis] for axis in axes]
        if None in shape:
            raise ValueError(
                f"axis {shape.index(None) + 1} of the input {input_shape} has no fixed size: add it to shared_axes"
            )
        return shape

    @property
    def alpha(self) -> Any:
        """The number, or the learned values."""
        return self.initial_alpha if self.log_alpha is None else ops.exp(self.log_alpha)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        config = {"alpha": self.initial_alpha, "learnable": self.learnable, "shared_axes": self.shared_axes or None}
        return super().get_config() | config


@keras.saving.register_keras_serializable("isrlu", "ISRLU")
class ISRLU(_WithAlpha):
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0."""

    def call(self, inputs: Any) -> Any:
        return ops.cast(isrlu(inputs, self.alpha), self.compute_dtype)


@keras.saving.register_keras_serializable("isrlu", "ISRU")
class ISRU(_WithAlpha):
    """x / sqrt(1 + alpha x^2), a replacement for tanh; arguments as in `ISRLU`."""

    def call(self, inputs: Any) -> Any:
        return ops.cast(isru(inputs, self.alpha), self.compute_dtype)


def _with_alpha(name: str, layer: type[_WithAlpha], x: Any, alpha: Any) -> Any:
    number = not (ops.is_tensor(alpha) or isinstance(alpha, (keras.Variable, np.ndarray)))
    alpha = check_alpha(alpha) if number else ops.convert_to_tensor(alpha)
    if isinstance(x, keras.KerasTensor):
        if not number:
            raise TypeError(
                f"on a symbolic tensor alpha must be a number: to learn alpha use {layer.__name__}(learnable=True)"
            )
        return layer(alpha, dtype=_float_dtype(x))(x)
    x = _floating(x)
    if native is not None and (number or BACKEND == "jax"):
        return getattr(native, name)(x, alpha)
    wide = _widened(x)
    if number and alpha > 0:
        return ops.cast(_in_x(name, wide, alpha), x.dtype)
    alpha = ops.convert_to_tensor(alpha, wide.dtype) if number else ops.cast(alpha, wide.dtype)
    return ops.cast(_in_both(name, wide, alpha), x.dtype)


def _in_x(name: str, x: Any, alpha: float) -> Any:
    """TensorFlow with a number > 0 as alpha. Few operators, because outside XLA each is a pass over memory."""
    import tensorflow as tf

    alpha = min(alpha, x.dtype.max)  # inf * 0 would be NaN
    far = min(_far(x) / math.sqrt(alpha), x.dtype.max)

    @tf.custom_gradient
    def activation(x: Any) -> tuple[Any, Callable[..., Any]]:
        # clip_by_value is two operators here. TFLite does not have the single operator ClipByValue.
        near = tf.clip_by_value(x, -far, 0.0 if name == "isrlu" else far)
        r = tf.sqrt(1.0 / (1.0 + (tf.square(near) if alpha == 1 else (alpha * near) * near)))
        passes = x >= 0 if name == "isrlu" else x == 0  # a subnormal compares equal to 0 and is not flushed
        # RsqrtGrad is -dy/2 y^3: one operator instead of the three of the product.
        return tf.where(passes, x, near * r), lambda upstream: tf.raw_ops.RsqrtGrad(y=r, dy=-2.0 * upstream)

    return activation(x)


def _in_both(name: str, x: Any, alpha: Any) -> Any:
    """A tensor as alpha: the formula with the derivatives df/dx = r^3 and df/dalpha = -f^3 / 2."""
    formula = {"isrlu": _formula.isrlu, "isru": _formula.isru}[name]

    @ops.custom_gradient
    def activation(x: Any, alpha: Any) -> tuple[Any, Callable[..., Any]]:
        f, r = formula(ops, x, alpha, _far(x))

        def gradients(*args: Any, upstream: Any = None) -> tuple[Any, Any]:
            upstream = _upstream(args, upstream)
            value, root = formula(ops, x, alpha, _far(x)) if _torch_differentiates() else (f, r)
            bent = ops.where(x >= 0, ops.zeros_like(value), value) if name == "isrlu" else value
            return upstream * (root * root * root), upstream * (-0.5 * bent * bent * bent)

        return f, gradients

    # Broadcast alpha to x, so that the framework sums alpha's gradient over the elements that share it.
    return activation(x, ops.broadcast_to(alpha, ops.shape(x)))


def _torch_differentiates() -> bool:
    """Whether PyTorch will differentiate the gradient. The forward values of its backend are not part of a graph."""
    if BACKEND != "torch":
        return False
    import torch

    return torch.is_grad_enabled()


def _upstream(args: tuple[Any, ...], upstream: Any) -> Any:
    """The incoming gradient. PyTorch's backend passes it by name, the others as the only positional argument."""
    return args[0] if upstream is None else upstream


def _float_dtype(x: Any) -> str:
    return x.dtype if keras.backend.is_float_dtype(x.dtype) else keras.config.floatx()


def _floating(x: Any) -> Any:
    x = ops.convert_to_tensor(x)
    dtype = keras.backend.standardize_dtype(x.dtype)  # no := here: TensorFlow's AutoGraph does not support it
    if "complex" in dtype:
        raise TypeError(f"isrlu takes real arrays, got {dtype}")
    return x if keras.backend.is_float_dtype(x.dtype) else ops.cast(x, keras.config.floatx())


def _widened(x: Any) -> Any:
    """x in the dtype of the computation."""
    dtype = keras.backend.standardize_dtype(x.dtype)
    wide = _formula.computed(dtype)
    return x if dtype == wide else ops.cast(x, wide)


def _far(x: Any) -> float:
    return _formula.far(keras.backend.standardize_dtype(x.dtype))
