"""Activations of one framework against each other, forward and gradient: shared by `isrlu bench jax|keras|onnx`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from isrlu import testing
from isrlu_lab.measure.kernel_bench import ends
from isrlu_lab.measure.measurement import Measurement, seconds_figures
from isrlu_lab.measure.printer import OF_RELU, SPREAD, Column, Layout, label_columns, ratio_column
from isrlu_lab.measure.timer import measure

SIZES = (1_000, 16_000, 256_000, 4_000_000, 16_000_000)


class Framework(Protocol):
    """A framework: its activations, and how to call them on given arrays."""

    name: str
    activations: ClassVar[Mapping[str, Callable[..., Any]]]

    def forward(self, function: Callable[..., Any], x: NDArray[np.float32]) -> Callable[[], Any]:
        """A call that runs the compiled function, waits for the result and returns it."""

    def gradient(
        self, function: Callable[..., Any], x: NDArray[np.float32], upstream: NDArray[np.float32]
    ) -> Callable[[], Any]:
        """A call that computes the gradient with respect to x from the upstream gradient."""


def _size(m: Measurement) -> str:
    return f"{m.size:,} elements" if m.direction in ("forward", "gradient") else f"batch of {m.size}"


LAYOUT = Layout(
    title=lambda m: f"{m.framework}, {_size(m)}, {m.direction}",
    labels=label_columns("contender"),
    figures=[Column("us", lambda m: f"{m.seconds * 1e6:,.1f}"), OF_RELU, ratio_column("of ELU", "of_elu"), SPREAD],
)


def run(
    framework: Framework,
    sizes: Iterable[int] = SIZES,
    *,
    rounds: int = 25,
    progress: Callable[[str], object] = lambda _: None,
) -> list[Measurement]:
    """Measure all activations, interleaved; isrlu and isru are checked first."""
    found: list[Measurement] = []
    for size in sizes:
        x, upstream = np.random.default_rng(0).standard_normal((2, size)).astype(np.float32)
        for direction in ("forward", "gradient"):
            progress(f"{framework.name}, {size:,} elements, {direction}")
            given = (x,) if direction == "forward" else (x, upstream)
            calls = {name: getattr(framework, direction)(f, *given) for name, f in framework.activations.items()}
            check(calls, direction, x, upstream)
            found += compare(framework.name, direction, size, calls, rounds=rounds)
    return found


def compare(
    framework: str, direction: str, size: int, calls: Mapping[str, Callable[[], object]], *, rounds: int
) -> list[Measurement]:
    """Time contenders in the same rounds."""
    samples = measure(calls, rounds=rounds, slice_seconds=4e-3)
    labels = {"framework": framework, "direction": direction, "size": size}
    rivals = {"of_relu": "relu", "of_elu": "elu"}
    return [
        Measurement({**labels, "contender": name}, seconds_figures(samples, name, relative_to=rivals))
        for name in samples
    ]


def check(
    calls: Mapping[str, Callable[[], Any]], direction: str, x: NDArray[np.float32], upstream: NDArray[np.float32]
) -> None:
    """Raise unless isrlu and isru are within the bounds that isrlu.testing has for array operations."""
    for name in ("isru", "isrlu"):
        y = ends(np.asarray(calls[name]()))
        results: dict[str, Any] = {"f": y} if direction == "forward" else {"dfdx": y, "upstream": ends(upstream)}
        try:
            testing.check(testing.expect(name, ends(x)), "keras-torch", **results)
        except AssertionError as error:
            raise AssertionError(f"{name}, {direction}: {error}") from None
