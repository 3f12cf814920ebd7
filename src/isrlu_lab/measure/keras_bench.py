"""isrlu and isru against Keras' own activations, on the backend that this process runs, alone and in a train step."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
import numpy as np
from numpy.typing import NDArray

from isrlu import keras as ours
from isrlu_lab.measure import framework_bench
from isrlu_lab.measure.measurement import Measurement
from isrlu_lab.measure.printer import Tables

BATCH = 64
Floats = NDArray[np.float32]


def bench(*, backend: str, size: list[int] | None, rounds: int, progress: Callable[[str], None]) -> Tables:
    """`isrlu bench keras`. The command has set the backend before this module imported Keras."""
    assert keras.backend.backend() == backend
    found = framework_bench.run(Keras(), size or framework_bench.SIZES, rounds=rounds, progress=progress)
    return [(framework_bench.LAYOUT, found + train_step(rounds=rounds))]


class Keras:
    """Each activation is compiled alone, as Keras compiles a train step: by XLA on TensorFlow and JAX."""

    name = f"keras on {keras.backend.backend()}"
    activations: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "relu": keras.activations.relu,
        "elu": keras.activations.elu,
        "silu": keras.activations.silu,
        "gelu": keras.activations.gelu,
        "tanh": keras.activations.tanh,
        "isrlu": ours.isrlu,
        "isru": ours.isru,
    }

    def forward(self, function: Callable[..., Any], x: Floats) -> Callable[[], Any]:
        compiled, tensor = _compiled(function), keras.ops.convert_to_tensor(x)
        return lambda: _finished(compiled(tensor))

    def gradient(self, function: Callable[..., Any], x: Floats, upstream: Floats) -> Callable[[], Any]:
        compiled = _compiled(_gradient(function))
        tensors = keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(upstream)
        return lambda: _finished(compiled(*tensors))


def train_step(*, rounds: int = 25) -> list[Measurement]:
    """A compiled train step of a small CNN on a batch of images, the same with each activation.

    On TensorFlow it runs twice: as a graph, which is Keras' choice on a machine without GPU, and compiled by XLA.
    """
    rows = _train_step("train step", "auto", rounds)
    return rows + (_train_step("train step, XLA", True, rounds) if keras.backend.backend() == "tensorflow" else [])


def _train_step(direction: str, jit_compile: bool | str, rounds: int) -> list[Measurement]:
    random = np.random.default_rng(0)
    images = random.standard_normal((BATCH, 28, 28, 1)).astype(np.float32)
    labels = random.integers(0, 10, BATCH)
    calls = {}
    for name in ("relu", "elu", "isrlu"):
        model = _cnn(Keras.activations[name], jit_compile)
        calls[name] = lambda model=model: model.train_on_batch(images, labels)
    return framework_bench.compare(Keras.name, direction, BATCH, calls, rounds=rounds)


def _cnn(activation: Callable[..., Any], jit_compile: bool | str) -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 3, padding="same", activation=activation),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation=activation),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation=activation),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=jit_compile)
    return model


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    match keras.backend.backend():
        case "tensorflow":
            import tensorflow as tf

            return tf.function(function, jit_compile=True)
        case "jax":
            import jax

            return jax.jit(function)
    return function


def _gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    match keras.backend.backend():
        case "tensorflow":
            import tensorflow as tf

            def gradient(x: Any, upstream: Any) -> Any:
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = function(x)
                return tape.gradient(y, x, upstream)

        case "jax":
            import jax

            def gradient(x: Any, upstream: Any) -> Any:
                return jax.vjp(function, x)[1](upstream)[0]

        case _:
            import torch

            def gradient(x: Any, upstream: Any) -> Any:
                x = x.detach().requires_grad_()
                return torch.autograd.grad(function(x), x, upstream)[0]

    return gradient


def _finished(tensor: Any) -> Any:
    return tensor.block_until_ready() if hasattr(tensor, "block_until_ready") else tensor
