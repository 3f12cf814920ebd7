"""The backward pass under Dynamo after an eager forward pass: gradients are those of a plain backward pass.

The gradient that comes in has another layout than the input (it is expanded, as from a sum), so that the kernels work
on a copy of it. That copy must live as long as a kernel reads it, wherever a tracer breaks the graph.
"""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from isrlu.torch import GRU, ISRLU, ISRU, LSTM, isrlu, isru_sigmoid

CASES: dict[str, tuple[nn.Module | Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "isrlu": (isrlu, (1000,)),
    "large": (isrlu, (2_000_000,)),
    "isru_sigmoid": (isru_sigmoid, (1000,)),
    "isru": (ISRU(3.0), (1000,)),
    "in place": (lambda x: isrlu(x * 1.0, inplace=True), (1000,)),
    "learned": (ISRLU(learnable=True), (1000,)),
    "channels": (ISRLU(learnable=True, num_parameters=8), (20, 8, 50)),
    "lstm": (lambda x: LAYERS["LSTM"](x)[0], (7, 3, 5)),
    "gru": (lambda x: LAYERS["GRU"](x)[0], (7, 3, 5)),
}
LAYERS = {"LSTM": LSTM(5, 19), "GRU": GRU(5, 19)}


def by_backward(loss: Tensor, inputs: list[Tensor]) -> None:
    torch.compile(lambda value: value.backward(), backend="eager")(loss)


def by_grad(loss: Tensor, inputs: list[Tensor]) -> None:
    grads = torch.compile(lambda value: torch.autograd.grad(value, inputs), backend="eager")(loss)
    for each, grad in zip(inputs, grads, strict=True):
        each.grad = grad


def by_compiled_autograd(loss: Tensor, inputs: list[Tensor]) -> None:
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        loss.backward()


@pytest.mark.slow
@pytest.mark.parametrize("backward", [by_backward, by_grad, by_compiled_autograd])
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_a_plain_backward(case, backward) -> None:
    function, shape = CASES[case]
    torch.manual_seed(0)
    x = torch.randn(shape, requires_grad=True)
    modules = (
        [function] if isinstance(function, nn.Module) else list(LAYERS.values()) if case in ("lstm", "gru") else []
    )
    inputs = [x, *(p for module in modules for p in module.parameters())]
    if case in ("lstm", "gru"):
        inputs = [x, *LAYERS[case.upper()].parameters()]
    expected = torch.autograd.grad(function(x).sum(), inputs)
    torch._dynamo.reset()
    loss = function(x).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dynamo tells where it breaks the graph
        backward(loss, inputs)
    for each, wanted in zip(inputs, expected, strict=True):
        assert each.grad is not None
        torch.testing.assert_close(each.grad, wanted, rtol=1e-5, atol=1e-6)
        each.grad = None
