"""`dyisru` and the layer `DyISRU`, in place of layer normalisation."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from isrlu import _formula
from isrlu._checks import check_channels, check_finite
from isrlu.keras._activations import _floating, _in_x, _widened, native


@keras.saving.register_keras_serializable("isrlu", "dyisru")
def dyisru(x: Any, weight: Any = None, bias: Any = None, alpha: Any = 0.5, shift: Any = 0.0) -> Any:
    """weight * u / sqrt(1 + u^2) + bias, u = alpha x + shift: the element-wise replacement of layer normalisation.

    Args:
        x: tensor; float16 and bfloat16 are computed in float32 and rounded once, integers become the default float.
        weight: tensor of the shape of x's last dims; None stands for 1.
        bias: tensor of the shape of x's last dims; None stands for 0.
        alpha: a finite number, or a tensor with one value.
        shift: a finite number, or a tensor with one value. All arguments are differentiable.
    """
    if isinstance(x, keras.KerasTensor):
        raise TypeError("dyisru takes no symbolic tensor: use the layer DyISRU()")
    x = _floating(x)
    wide = _widened(x)
    scale = [None if each is None else ops.cast(ops.convert_to_tensor(each), wide.dtype) for each in (weight, bias)]
    for name, given in zip(("weight", "bias"), scale, strict=True):
        if given is not None:
            check_channels(tuple(x.shape), name, tuple(given.shape))
    a, s = _one_number("alpha", alpha, wide), _one_number("shift", shift, wide)
    if native is not None:
        return native.dyisru(x, *scale, a, s)
    largest = float(np.finfo(keras.backend.standardize_dtype(wide.dtype)).max)
    y = _in_x("isru", _formula.norm_argument(ops, wide, a, s, largest), 1.0)
    y = y if scale[0] is None else y * scale[0]
    return ops.cast(y if scale[1] is None else y + scale[1], x.dtype)


def _one_number(name: str, given: Any, x: Any) -> Any:
    if not (ops.is_tensor(given) or isinstance(given, (keras.Variable, np.ndarray))):
        return check_finite(name, given)
    given = ops.convert_to_tensor(given)
    if math.prod(given.shape) != 1:
        raise ValueError(f"{name} must be a number or a tensor with one value, got shape {tuple(given.shape)}")
    return ops.reshape(ops.cast(given, x.dtype), ())


@keras.saving.register_keras_serializable("isrlu", "DyISRU")
class DyISRU(keras.layers.Layer):
    """weight * u / sqrt(1 + u^2) + bias, u = alpha x + shift, in place of keras.layers.LayerNormalization.

    Args:
        alpha: alpha at the start. It is learned.
        shift: shift at the start. It is learned.
        center: whether there is a bias, one per feature (last axis).
        scale: whether there is a weight, one per feature.
        **kwargs: arguments of every layer, such as `name` and `dtype`.
    """

    def __init__(
        self, alpha: float = 0.5, shift: float = 0.0, *, center: bool = True, scale: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.start = check_finite("alpha", alpha), check_finite("shift", shift)
        self.center, self.scale = center, scale

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        features = input_shape[-1]
        if features is None:
            raise ValueError(f"the last axis of the input {input_shape} has no fixed size")

        def add(name: str, shape: tuple[int, ...], start: float) -> Any:
            # autocast=False: the weights stay in float32 in a mixed-precision model.
            start_at = keras.initializers.Constant(start)
            return self.add_weight(name=name, shape=shape, initializer=start_at, autocast=False)

        self.weight = add("weight", (features,), 1.0) if self.scale else None
        self.bias = add("bias", (features,), 0.0) if self.center else None
        self.alpha, self.shift = add("alpha", (), self.start[0]), add("shift", (), self.start[1])
        self.built = True

    def call(self, inputs: Any) -> Any:
        return ops.cast(dyisru(inputs, self.weight, self.bias, self.alpha, self.shift), self.compute_dtype)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        config = {"alpha": self.start[0], "shift": self.start[1], "center": self.center, "scale": self.scale}
        return super().get_config() | config
