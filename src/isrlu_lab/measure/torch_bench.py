"""ISRLU and ISRU in PyTorch against PyTorch's own activations, the formula as written, and the formula compiled."""

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import isrlu.torch as it
from isrlu import testing
from isrlu.signal import SISRLU_ALPHA
from isrlu_lab.errors import UserError
from isrlu_lab.measure.measurement import Measurement, seconds_figures
from isrlu_lab.measure.printer import NS_PER_ELEMENT, OF_RELU, SPREAD, US_PER_CALL, Layout, Tables, label_columns
from isrlu_lab.measure.timer import measure

SIZES = (16, 256, 4096, 65_536, 262_144, 4_194_304, 16_777_216)
LARGE = 1_000_000  # elements; from here on a call takes milliseconds, and a third of the rounds is enough
Function = Callable[[Tensor], Tensor]


def paper(x: Tensor) -> Tensor:
    """The paper's formula with alpha = 1 in plain PyTorch: correct where x^2 does not overflow."""
    return torch.where(x >= 0, x, x * torch.rsqrt(1 + x * x))


def compiled_paper() -> Function:
    """The same under torch.compile, made on demand: importing the compiler takes seconds."""
    return torch.compile(paper, dynamic=False)


# The function; or, where the name ends in "compiled", the factory that makes it.
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
    "sisrlu": it.sisrlu,
}
# Contenders that isrlu.testing's oracle checks: function, and method where a kernel computes it. PyTorch's own
# functions are compared with themselves in float64.
CHECKED_BY_ORACLE: dict[str, tuple[str, str | None]] = {
    "formula": ("isrlu", None),
    "formula compiled": ("isrlu", None),
    "isrlu": ("isrlu", "full"),
    "isrlu approx": ("isrlu", "approx"),
    "isru": ("isru", "full"),
    "isru_sigmoid": ("isru_sigmoid", "full"),
    "sisrlu": ("sisrlu", "full"),
}


LAYOUT = Layout(
    title=lambda m: f"{_place(m.device, m.threads)}, {m.size:,} elements, {m.direction}",
    labels=label_columns("contender"),
    figures=[US_PER_CALL, NS_PER_ELEMENT, OF_RELU, SPREAD],
)


def bench(
    *,
    size: list[int] | None,
    threads: list[int] | None,
    rounds: int,
    functions: bool,
    steps: bool,
    device: str,
    progress: Callable[[str], None],
) -> Tables:
    """`isrlu bench torch`: the functions, then training steps, which are timed on the CPU alone."""
    check_device(device)
    tables = []
    if functions:
        tables.append((LAYOUT, run(size or SIZES, threads, rounds=rounds, device=device, progress=progress)))
    if steps and device == "cpu":
        from isrlu_lab.measure import training_step_bench

        tables.append((training_step_bench.LAYOUT, training_step_bench.run(rounds=rounds, progress=progress)))
    return tables


def run(
    sizes: Iterable[int] = SIZES,
    threads: Iterable[int] | None = None,
    *,
    rounds: int = 25,
    contenders: Iterable[str] = tuple(CONTENDERS),
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> list[Measurement]:
    """Time every contender on every size, forward alone and with backward, on one and on all threads of the CPU."""
    found: list[Measurement] = []
    chosen = {name: _function(name) for name in dict.fromkeys(["relu", *contenders])}
    for name, function in chosen.items():
        check(name, function, device)
    every = sorted({1, torch.get_num_threads()}) if device == "cpu" else [1]
    synchronize = (lambda: None) if device == "cpu" else torch.accelerator.synchronize
    for count in threads or every:
        with using_threads(count):
            for size in sizes:
                torch.compiler.reset()  # compile the formula for this size and number of threads
                for direction, prepare in (("forward", forward), ("forward and backward", forward_and_backward)):
                    progress(f"{size:,} elements, {direction}, {_place(device, count)}")
                    calls = {name: prepare(f, size, device) for name, f in chosen.items()}
                    fewer = rounds if size < LARGE else max(5, rounds // 3)
                    samples = measure(calls, rounds=fewer, synchronize=synchronize)
                    for name in samples:
                        labels = {"size": size, "threads": count, "direction": direction, "contender": name}
                        labels["device"] = device
                        figures = seconds_figures(samples, name, relative_to={"of_relu": "relu"})
                        found.append(Measurement(labels, figures))
    return found


def _function(name: str) -> Function:
    return CONTENDERS[name]() if name.endswith("compiled") else CONTENDERS[name]


def _place(device: str, threads: int) -> str:
    return f"threads: {threads}" if device == "cpu" else device


def check_device(name: str) -> None:
    """Raise UserError unless this PyTorch has the device."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    known = ["cpu", *([accelerator.type] if accelerator else [])]
    if name.partition(":")[0] not in known:
        raise UserError(f"device {name!r} is not available: this PyTorch has {', '.join(known)}")


def forward(f: Function, size: int, device: str = "cpu") -> Callable[[], object]:
    """A call of f on `size` normal numbers."""
    x = torch.randn(size, generator=torch.Generator().manual_seed(size)).to(device)
    return lambda: f(x)


def forward_and_backward(f: Function, size: int, device: str = "cpu") -> Callable[[], object]:
    """A call of f, and of its backward pass from a given upstream gradient."""
    generator = torch.Generator().manual_seed(size)
    x, grad = (torch.randn(size, generator=generator).to(device) for _ in range(2))
    x.requires_grad_()

    def call() -> None:
        x.grad = None
        f(x).backward(grad)

    return call


def check(name: str, f: Function, device: str = "cpu") -> None:
    """Raise unless f and its gradient agree with the oracle, or with float64 where f is PyTorch's own."""
    x = torch.randn(10_000, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = f(x.to(device)).cpu()
    y.backward(torch.ones_like(y))
    assert x.grad is not None
    if name in CHECKED_BY_ORACLE:
        function, method = CHECKED_BY_ORACLE[name]
        alpha = SISRLU_ALPHA if function == "sisrlu" else 1.0
        vectors = testing.expect(function, x.detach().numpy(), alpha)
        if method:
            try:
                simd = None if device == "cpu" else "rsqrt.approx"
                return testing.check(vectors, "torch", method, simd=simd, f=y.detach(), dfdx=x.grad)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None
        expected, slope = torch.from_numpy(vectors.f), torch.from_numpy(vectors.dfdx)
    else:
        exact = x.detach().double().requires_grad_()  # on the CPU
        expected = f(exact)
        (slope,) = torch.autograd.grad(expected, exact, torch.ones_like(expected))
    for got, want in ((y.detach(), expected.detach()), (x.grad, slope)):
        torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-6, msg=lambda text: f"{name}: {text}")


@contextmanager
def using_threads(count: int) -> Any:
    """PyTorch with `count` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
