"""DyISRU beside PyTorch's norms and beside DyT and Derf, which replace norms in the same way with tanh and erf."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from isrlu import testing
from isrlu.torch import dyisru
from isrlu_lab.measure.heap import keep_freed_memory
from isrlu_lab.measure.measurement import Measurement, seconds_figures
from isrlu_lab.measure.printer import SPREAD, US_PER_CALL, Layout, Tables, label_columns, ratio_column
from isrlu_lab.measure.timer import measure
from isrlu_lab.measure.torch_bench import using_threads

SHAPES = ((2048, 768), (64, 384), (1, 768))
LARGE = SHAPES[0]
Norm = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]  # of x, weight, bias, alpha, shift


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, alpha: Tensor, shift: Tensor) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias)


def rms_norm(x: Tensor, weight: Tensor, bias: Tensor, alpha: Tensor, shift: Tensor) -> Tensor:
    return F.rms_norm(x, weight.shape, weight)


def dyt(x: Tensor, weight: Tensor, bias: Tensor, alpha: Tensor, shift: Tensor) -> Tensor:
    """Zhu et al., 2025, as its authors have it."""
    return torch.tanh(alpha * x) * weight + bias


def derf(x: Tensor, weight: Tensor, bias: Tensor, alpha: Tensor, shift: Tensor) -> Tensor:
    """Derf, 2025, as its authors have it."""
    return torch.erf(alpha * x + shift) * weight + bias


CONTENDERS: dict[str, Norm] = {
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "DyT": dyt,
    "Derf": derf,
    "dyisru": dyisru,
    "layer_norm compiled": layer_norm,
    "dyisru compiled": dyisru,
}
EAGER = ("layer_norm", "rms_norm", "dyisru")  # DyT, Derf and the compiler take long: on the large shape alone

LAYOUT = Layout(
    title=lambda m: f"threads: {m.threads}, {m.dtype}, {m.shape}, {m.direction}",
    labels=label_columns("contender"),
    figures=[
        US_PER_CALL,
        ratio_column("of layer_norm", "of_layer_norm"),
        ratio_column("of dyisru", "of_dyisru"),
        SPREAD,
    ],
)


def bench(*, threads: list[int] | None, rounds: int, progress: Callable[[str], None]) -> Tables:
    """`isrlu bench norm`."""
    return [(LAYOUT, run(threads or sorted({1, torch.get_num_threads()}), rounds=rounds, progress=progress))]


def run(
    threads: Iterable[int] = (1,),
    *,
    rounds: int = 25,
    shapes: Iterable[tuple[int, int]] = SHAPES,
    dtypes: Iterable[str] = ("float32", "bfloat16"),
    contenders: Iterable[str] = tuple(CONTENDERS),
    progress: Callable[[str], None] = lambda _: None,
) -> list[Measurement]:
    """Time the contenders, forward alone and with backward; on small shapes and in bfloat16 those of EAGER alone."""
    check()
    keep_freed_memory()
    found: list[Measurement] = []
    for count in threads:
        with using_threads(count):
            for dtype in dtypes:
                for shape in shapes:
                    everything = shape == LARGE and dtype == "float32"
                    names = [name for name in contenders if everything or name in EAGER]
                    names = list(dict.fromkeys(["layer_norm", "dyisru", *names]))
                    torch.compiler.reset()  # compile for this shape and number of threads
                    for direction, prepare in (("forward", forward), ("forward and backward", forward_and_backward)):
                        progress(f"{dtype}, {shape[0]} x {shape[1]}, {direction}, threads: {count}")
                        calls = {name: prepare(_function(name), *_inputs(shape, dtype)) for name in names}
                        samples = measure(calls, rounds=rounds, warm_up=True)
                        labels = {"threads": count, "dtype": dtype, "shape": f"{shape[0]} x {shape[1]}"}
                        for name in samples:
                            rivals = {"of_layer_norm": "layer_norm", "of_dyisru": "dyisru"}
                            figures = seconds_figures(samples, name, relative_to=rivals)
                            found.append(Measurement({**labels, "direction": direction, "contender": name}, figures))
    return found


def _function(name: str) -> Norm:
    return torch.compile(CONTENDERS[name], dynamic=False) if name.endswith("compiled") else CONTENDERS[name]


def _inputs(shape: tuple[int, int], dtype: str) -> tuple[Tensor, list[Tensor], Tensor]:
    """x, the parameters, and an upstream gradient."""
    kind, made = getattr(torch, dtype), torch.Generator().manual_seed(shape[1])
    x, grad = (torch.randn(shape, generator=made).to(kind) for _ in range(2))
    weight, bias = (torch.randn(shape[1], generator=made).to(kind) for _ in range(2))
    return x, [weight, bias, torch.tensor(0.5, dtype=kind), torch.tensor(0.1, dtype=kind)], grad


def forward(f: Norm, x: Tensor, parameters: list[Tensor], grad: Tensor) -> Callable[[], Any]:
    weight, bias, alpha, shift = parameters
    return lambda: f(x, weight, bias, alpha, shift)


def forward_and_backward(f: Norm, x: Tensor, parameters: list[Tensor], grad: Tensor) -> Callable[[], Any]:
    x.requires_grad_()
    weight, bias, alpha, shift = (torch.nn.Parameter(each) for each in parameters)
    learned = x, weight, bias, alpha, shift

    def call() -> None:
        for each in learned:
            each.grad = None
        f(*learned).backward(grad)

    return call


def check() -> None:
    """Raise unless dyisru is within its bounds on the test vectors."""
    vectors = testing.load_norm("float32")
    inputs = [torch.from_numpy(getattr(vectors, name)).float() for name in ("x", "weight", "bias", "alpha", "shift")]
    each = [dyisru(*(values[i : i + 1] for values in inputs)) for i in range(len(vectors.x))]
    testing.check_norm(vectors, "torch", y=torch.cat(each).numpy())
