"""Each framework's answer to the test vectors, as float64 arrays: f, df/dx and (where there is an alpha) df/dalpha."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrlu.testing._vectors import QUANTITIES, Vectors

Results = dict[str, NDArray[np.float64]]


def evaluate(framework: str, vectors: Vectors) -> Results:
    """What `framework` computes for the vectors. Of Keras, only the backend that this process runs can answer."""
    return EVALUATORS[framework](vectors)


def _arguments(vectors: Vectors) -> list[NDArray[Any]]:
    """x in its dtype and alpha, if there is one. Converted by NumPy: where XLA converts, subnormals become 0."""
    import ml_dtypes

    x = vectors.x.astype(ml_dtypes.bfloat16 if vectors.dtype == "bfloat16" else vectors.dtype)
    alpha = vectors.alpha.astype("float64" if vectors.dtype == "float64" else "float32")
    return [x] if vectors.function == "isru_sigmoid" else [x, alpha]


def _named(results: list[Any]) -> Results:
    """The arrays by name, converted by NumPy for the same reason."""
    arrays = (np.asarray(result).astype(np.float64) for result in results)
    return dict(zip(QUANTITIES, arrays, strict=False))


def _jax(vectors: Vectors) -> Results:
    import jax
    import jax.numpy as jnp

    import isrlu.jax

    with jax.enable_x64(True):
        arguments = [jnp.asarray(array) for array in _arguments(vectors)]
        return _named(_jax_vjp(getattr(isrlu.jax, vectors.function), arguments))


def _keras(vectors: Vectors) -> Results:
    import keras
    from keras import ops

    import isrlu.keras

    gradients = {"tensorflow": _tensorflow_vjp, "jax": _jax_vjp, "torch": _torch_vjp}[keras.backend.backend()]
    arguments = [ops.convert_to_tensor(array) for array in _arguments(vectors)]
    return _named([ops.convert_to_numpy(part) for part in gradients(getattr(isrlu.keras, vectors.function), arguments)])


def _tensorflow_vjp(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(arguments)
        f = function(*arguments)
    return [f, *tape.gradient(f, arguments)]


def _jax_vjp(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    import jax

    f, pull = jax.vjp(function, *arguments)
    return [f, *pull(jax.numpy.ones_like(f))]


def _torch_vjp(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    f = function(*leaves)
    f.backward(f.new_ones(f.shape))
    return [f.detach(), *(leaf.grad for leaf in leaves)]


EVALUATORS: dict[str, Callable[[Vectors], Results]] = {
    "jax": _jax,
    "keras-tensorflow": _keras,
    "keras-jax": _keras,
    "keras-torch": _keras,
}
