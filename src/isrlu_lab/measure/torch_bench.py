"""ISRLU and ISRU in PyTorch against PyTorch's own activations, the formula as written, and the formula compiled."""

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import isrlu.torch as it
from isrlu import testing
from isrlu_lab.measure.timer import measure, ratio

SIZES = (16, 256, 4096, 65_536, 262_144, 4_194_304, 16_777_216)
LARGE = 1_000_000  # elements from which a call takes milliseconds, and fewer rounds do
Function = Callable[[Tensor], Tensor]


def paper(x: Tensor) -> Tensor:
    """The paper's formula with alpha = 1, as one would write it: correct where x^2 does not overflow."""
    return torch.where(x >= 0, x, x * torch.rsqrt(1 + x * x))


def compiled_paper() -> Function:
    """The same under torch.compile, made when it is asked for: importing the compiler takes seconds."""
    return torch.compile(paper, dynamic=False)


# The function; or, where the name says compiled, what makes it.
CONTENDERS: dict[str, Any] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "formula": paper,
    "formula compiled": compiled_paper,
    "isrlu": it.isrlu,
    "isrlu approx": lambda x: it.isrlu(x, 1.0, False, "approx"),
    "isru": it.isru,
    "isru_sigmoid": it.isru_sigmoid,
}
# What is held to isrlu.testing's oracle: its function, and its method where the kernels compute it. PyTorch's own
# functions are compared with themselves in float64.
HELD: dict[str, tuple[str, str | None]] = {
    "formula": ("isrlu", None),
    "formula compiled": ("isrlu", None),
    "isrlu": ("isrlu", "full"),
    "isrlu approx": ("isrlu", "approx"),
    "isru": ("isru", "full"),
    "isru_sigmoid": ("isru_sigmoid", "full"),
}


@dataclass(frozen=True)
class Row:
    """A measured contender: seconds per call, and relative to relu in the same rounds."""

    size: int
    threads: int
    direction: str  # "forward", or "forward and backward"
    contender: str
    seconds: float
    spread: float  # half the interquartile range, relative
    of_relu: float

    @property
    def ns_per_element(self) -> float:
        return self.seconds / self.size * 1e9


def run(
    sizes: Iterable[int] = SIZES,
    threads: Iterable[int] | None = None,
    *,
    rounds: int = 25,
    contenders: Iterable[str] = tuple(CONTENDERS),
    progress: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Time every contender on every size, forward alone and with backward, on one and on all threads."""
    rows: list[Row] = []
    chosen = {name: _function(name) for name in dict.fromkeys(["relu", *contenders])}
    for name, function in chosen.items():
        check(name, function)
    for count in threads or sorted({1, torch.get_num_threads()}):
        with using_threads(count):
            for size in sizes:
                torch.compiler.reset()  # so that the compiled formula is made for this size and number of threads
                for direction, prepare in (("forward", forward), ("forward and backward", forward_and_backward)):
                    progress(f"{size:,} elements, {direction}, threads: {count}")
                    calls = {name: prepare(f, size) for name, f in chosen.items()}
                    samples = measure(calls, rounds=rounds if size < LARGE else max(5, rounds // 3))
                    for name, sample in samples.items():
                        cells = (name, sample.median, sample.spread, ratio(samples, name, "relu"))
                        rows.append(Row(size, count, direction, *cells))
    return rows


def _function(name: str) -> Function:
    return CONTENDERS[name]() if name.endswith("compiled") else CONTENDERS[name]


def forward(f: Function, size: int) -> Callable[[], object]:
    """A call of f on `size` normal numbers."""
    x = torch.randn(size, generator=torch.Generator().manual_seed(size))
    return lambda: f(x)


def forward_and_backward(f: Function, size: int) -> Callable[[], object]:
    """A call of f, and of the backward pass from a given gradient of its output."""
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(size, generator=generator, requires_grad=True)
    grad = torch.randn(size, generator=generator)

    def call() -> None:
        x.grad = None
        f(x).backward(grad)

    return call


def check(name: str, f: Function) -> None:
    """Raise unless f and its gradient agree with the oracle, or with float64 where f is PyTorch's own."""
    x = torch.randn(10_000, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = f(x)
    y.backward(torch.ones_like(y))
    assert x.grad is not None
    if name in HELD:
        function, method = HELD[name]
        vectors = testing.expect(function, x.detach().numpy())
        if method:
            try:
                return testing.check(vectors, "torch", method, f=y.detach(), dfdx=x.grad)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None
        expected, slope = torch.from_numpy(vectors.f), torch.from_numpy(vectors.dfdx)
    else:
        exact = x.detach().double().requires_grad_()
        expected = f(exact)
        (slope,) = torch.autograd.grad(expected, exact, torch.ones_like(expected))
    for got, want in ((y.detach(), expected.detach()), (x.grad, slope)):
        torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-6, msg=lambda text: f"{name}: {text}")


@contextmanager
def using_threads(count: int) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
