"""isrlu and isru against the functions of jax.nn, under jit."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import numpy as np
from numpy.typing import NDArray

from isrlu import jax as ours
from isrlu_lab.measure import framework_bench
from isrlu_lab.measure.printer import Tables


def bench(*, size: list[int] | None, rounds: int, progress: Callable[[str], None]) -> Tables:
    """`isrlu bench jax`."""
    found = framework_bench.run(Jax(), size or framework_bench.SIZES, rounds=rounds, progress=progress)
    return [(framework_bench.LAYOUT, found)]


class Jax:
    """Each activation is compiled alone; a call waits for its result."""

    name = "jax"
    activations: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "relu": jax.nn.relu,
        "elu": jax.nn.elu,
        "silu": jax.nn.silu,
        "gelu": jax.nn.gelu,
        "tanh": jax.nn.tanh,
        "isrlu": ours.isrlu,
        "isru": ours.isru,
    }

    def forward(self, function: Callable[..., Any], x: NDArray[np.float32]) -> Callable[[], Any]:
        compiled, array = jax.jit(function), jax.numpy.asarray(x)
        return lambda: compiled(array).block_until_ready()

    def gradient(
        self, function: Callable[..., Any], x: NDArray[np.float32], upstream: NDArray[np.float32]
    ) -> Callable[[], Any]:
        compiled = jax.jit(lambda x, upstream: jax.vjp(function, x)[1](upstream)[0])
        arrays = jax.numpy.asarray(x), jax.numpy.asarray(upstream)
        return lambda: compiled(*arrays).block_until_ready()
