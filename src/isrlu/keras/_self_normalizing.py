"""`sisrlu`, `SISRLU` and `SISRLUDropout` for Keras.

On JAX and PyTorch `sisrlu` is the function of `isrlu.jax` or `isrlu.torch`, on TensorFlow the formula in Keras ops.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from isrlu import _formula
from isrlu._checks import check_alpha, refuse_alpha_array
from isrlu.keras import _activations
from isrlu.signal import SISRLU_ALPHA, dropout_constants


@keras.saving.register_keras_serializable("isrlu", "sisrlu")
def sisrlu(x: Any, alpha: float = SISRLU_ALPHA) -> Any:
    """lambda x for x >= 0, lambda beta x / sqrt(1 + alpha x^2) for x < 0: self-normalising ISRLU.

    lambda and beta follow from alpha (`isrlu.signal.sisrlu_constants`): for a standard normal x the result has mean 0
    and variance 1. x is as in `isrlu`, alpha a number >= 0.
    """
    if ops.is_tensor(alpha) or isinstance(alpha, (keras.Variable, np.ndarray)):
        refuse_alpha_array("sisrlu", "a tensor")
    alpha = check_alpha(alpha)
    if isinstance(x, keras.KerasTensor):
        return SISRLU(alpha, dtype=_activations._float_dtype(x))(x)
    x = _activations._floating(x)
    if _activations.native is not None:
        return _activations.native.sisrlu(x, alpha)
    wide = _activations._widened(x)
    numbers = _formula.sisrlu_scales(alpha, keras.backend.standardize_dtype(wide.dtype))
    return ops.cast(_in_ops(wide, *(ops.convert_to_tensor(number, wide.dtype) for number in numbers)), x.dtype)


def _in_ops(x: Any, alpha: Any, positive: Any, negative: Any) -> Any:
    """The formula in Keras ops, with the derivative scale r^3."""

    @ops.custom_gradient
    def activation(x: Any) -> tuple[Any, Callable[..., Any]]:
        f, r = _formula.isrlu(ops, x, alpha, _activations._far(x))
        scale = ops.where(x >= 0, positive, negative)
        # In this order: r^3 alone may underflow.
        return f * scale, lambda upstream: upstream * (scale * r * r * r)

    return activation(x)


@keras.saving.register_keras_serializable("isrlu", "SISRLU")
class SISRLU(keras.layers.Layer):
    """lambda x for x >= 0, lambda beta x / sqrt(1 + alpha x^2) for x < 0: self-normalising ISRLU.

    Use it with `kernel_initializer="lecun_normal"` and `SISRLUDropout`. alpha is not learnable: beta and lambda would
    have to follow it in every step.

    Args:
        alpha: a number >= 0. With the default the layer saturates at -1.7581, where SELU does.
        **kwargs: arguments of every layer, such as `name` and `dtype`.
    """

    def __init__(self, alpha: float = SISRLU_ALPHA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.alpha = check_alpha(alpha)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return ops.cast(sisrlu(inputs, self.alpha), self.compute_dtype)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"alpha": self.alpha}


@keras.saving.register_keras_serializable("isrlu", "SISRLUDropout")
class SISRLUDropout(keras.layers.Layer):
    """Dropout that keeps mean 0 and variance 1 after `SISRLU`, as `keras.layers.AlphaDropout` does after SELU.

    Args:
        rate: probability of dropping an element, 0 <= rate < 1. A dropped element becomes the saturation of `sisrlu`.
        alpha: that of the `SISRLU` before, a number > 0.
        noise_shape: shape of the mask, with None for a size of the input, such as (None, 1, 1, None) for channels.
        seed: an integer.
        **kwargs: arguments of every layer, such as `name` and `dtype`.
    """

    def __init__(
        self,
        rate: float,
        alpha: float = SISRLU_ALPHA,
        *,
        noise_shape: tuple[int | None, ...] | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.constants = dropout_constants(rate, alpha)
        self.supports_masking = True
        self.rate, self.alpha, self.seed = rate, float(alpha), seed
        if noise_shape is not None and not isinstance(noise_shape, (tuple, list)):
            raise TypeError(f"noise_shape must be a tuple of sizes, or None, got {noise_shape!r}")
        self.noise_shape = None if noise_shape is None else tuple(noise_shape)
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or self.rate == 0:
            return inputs
        sizes = ops.shape(inputs)
        shape = sizes if self.noise_shape is None else [n or sizes[i] for i, n in enumerate(self.noise_shape)]
        kept = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator) >= self.rate
        dropped, scale, shift = self.constants
        wide = _activations._widened(inputs)  # rounded once
        return ops.cast(ops.where(kept, wide * scale + shift, dropped), inputs.dtype)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        config = {"rate": self.rate, "alpha": self.alpha, "noise_shape": self.noise_shape, "seed": self.seed}
        return super().get_config() | config
