"""Activations of an array framework against each other, forward and gradient: what `isrlu bench jax|keras` share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from isrlu import testing
from isrlu_lab.measure.kernel_bench import ends
from isrlu_lab.measure.timer import measure, ratio

SIZES = (1_000, 16_000, 256_000, 4_000_000, 16_000_000)


class Framework(Protocol):
    """What the benchmark needs to know of a framework: its activations, and how to call them on given arrays."""

    name: str
    activations: ClassVar[Mapping[str, Callable[..., Any]]]

    def forward(self, function: Callable[..., Any], x: NDArray[np.float32]) -> Callable[[], Any]:
        """A call that computes the function compiled, to the end, and returns the result."""

    def gradient(
        self, function: Callable[..., Any], x: NDArray[np.float32], upstream: NDArray[np.float32]
    ) -> Callable[[], Any]:
        """A call that computes the gradient for x, given the one for the function's result."""


@dataclass(frozen=True)
class Row:
    """One contender at one size: seconds per call, their spread, and quotients over the same rounds."""

    framework: str
    direction: str
    size: int
    contender: str
    seconds: float
    spread: float
    of_relu: float
    of_elu: float


def run(
    framework: Framework,
    sizes: Iterable[int] = SIZES,
    *,
    rounds: int = 25,
    progress: Callable[[str], object] = lambda _: None,
) -> list[Row]:
    """Measure all activations, interleaved; ours are compared with float64 first."""
    rows: list[Row] = []
    for size in sizes:
        x, upstream = np.random.default_rng(0).standard_normal((2, size)).astype(np.float32)
        for direction in ("forward", "gradient"):
            progress(f"{framework.name}, {size:,} elements, {direction}")
            given = (x,) if direction == "forward" else (x, upstream)
            calls = {name: getattr(framework, direction)(f, *given) for name, f in framework.activations.items()}
            check(calls, direction, x, upstream)
            rows += compare(framework.name, direction, size, calls, rounds=rounds)
    return rows


def compare(
    framework: str, direction: str, size: int, calls: Mapping[str, Callable[[], object]], *, rounds: int
) -> list[Row]:
    """Rows of contenders that are measured together."""
    samples = measure(calls, rounds=rounds, slice_seconds=4e-3)
    return [
        Row(
            framework,
            direction,
            size,
            name,
            sample.median,
            sample.spread,
            of_relu=ratio(samples, name, "relu"),
            of_elu=ratio(samples, name, "elu"),
        )
        for name, sample in samples.items()
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
