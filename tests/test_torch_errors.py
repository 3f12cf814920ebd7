"""Bad input: one clear line each, and the input is left untouched."""

import re

import pytest
import torch
from torch import nn

import isrlu.torch as it

X = torch.tensor([[-1.0, 2.0]])

BAD_CALLS = {
    "sparse": (
        lambda: it.isrlu(X.to_sparse()),
        TypeError,
        "x must be a dense tensor, got one of layout torch.sparse_coo: give x.to_dense()",
    ),
    "nested": (
        lambda: it.isrlu(torch.nested.nested_tensor([X[0], X[0, :1]])),
        TypeError,
        "x is a nested tensor of layout torch.strided: make it with layout=torch.jagged",
    ),
    "integer alpha beyond all floats": (
        lambda: it.isrlu(X, 10**400),
        ValueError,
        f"alpha must be a finite number >= 0, got {10**400}",
    ),
    "list": (lambda: it.isrlu([1.0]), TypeError, "x must be a torch.Tensor, got list"),
    "integer": (
        lambda: it.isrlu(torch.tensor([1, 2])),
        TypeError,
        "x must be float16, bfloat16, float32 or float64, got torch.int64",
    ),
    "complex": (
        lambda: it.isru(torch.tensor([1j])),
        TypeError,
        "x must be float16, bfloat16, float32 or float64, got torch.complex64",
    ),
    "sigmoid of bool": (
        lambda: it.isru_sigmoid(torch.tensor([True])),
        TypeError,
        "x must be float16, bfloat16, float32 or float64, got torch.bool",
    ),
    "negative alpha": (
        lambda: it.isrlu(X, -1.0, inplace=True),
        ValueError,
        "alpha must be a finite number >= 0, got -1.0",
    ),
    "NaN alpha": (
        lambda: it.isru(X, float("nan"), inplace=True),
        ValueError,
        "alpha must be a finite number >= 0, got nan",
    ),
    "infinite alpha": (
        lambda: it.isrlu(X, float("inf"), inplace=True),
        ValueError,
        "alpha must be a finite number >= 0, got inf",
    ),
    "alpha a string": (
        lambda: it.isrlu(X, "1", inplace=True),
        TypeError,
        "alpha must be a real number or an array of them, got '1'",
    ),
    "alpha of integers": (
        lambda: it.isrlu(X, torch.tensor(1), inplace=True),
        TypeError,
        "alpha must be float16, bfloat16, float32 or float64, got torch.int64",
    ),
    "alpha for other channels": (
        lambda: it.isrlu(X, torch.ones(3), inplace=True),
        ValueError,
        "alpha must hold one value or one per channel (2 for x of shape (1, 2)), got shape (3,)",
    ),
    "alpha of two dims": (
        lambda: it.isrlu(X, torch.ones(1, 2), inplace=True),
        ValueError,
        "alpha must hold one value or one per channel (2 for x of shape (1, 2)), got shape (1, 2)",
    ),
    "alpha per channel without channels": (
        lambda: it.isrlu(X[0], torch.ones(2), inplace=True),
        ValueError,
        "alpha must hold one value or one per channel (1 for x of shape (2,)), got shape (2,)",
    ),
    "alpha on another device": (
        lambda: it.isrlu(X, torch.ones(1, device="meta"), inplace=True),
        ValueError,
        "alpha is on meta, x on cpu: move one of them",
    ),
    "unknown method": (
        lambda: it.isrlu(X, inplace=True, method="fast"),
        ValueError,
        "unknown method 'fast': known are full, approx, newton1, newton2, ieee, kinney, table",
    ),
    "unknown method of the sigmoid": (
        lambda: it.isru_sigmoid(X, inplace=True, method="fast"),
        ValueError,
        "unknown method 'fast': known are full, approx, newton1, newton2, ieee, kinney, table",
    ),
    "module with a bad alpha": (lambda: it.ISRLU(-2), ValueError, "alpha must be a finite number >= 0, got -2"),
    "module with a bad method": (
        lambda: it.ISRU(method=""),
        ValueError,
        "unknown method '': known are full, approx, newton1, newton2, ieee, kinney, table",
    ),
    "learnable from 0": (
        lambda: it.ISRLU(0.0, learnable=True),
        ValueError,
        "a learnable alpha must start above 0, got 0.0",
    ),
    "no parameters": (
        lambda: it.ISRLU(learnable=True, num_parameters=0),
        ValueError,
        "num_parameters must be an integer >= 1, got 0",
    ),
    "parameters without learning": (
        lambda: it.ISRLU(num_parameters=4),
        ValueError,
        "num_parameters=4 needs learnable=True",
    ),
    "swap by name": (
        lambda: it.swap(nn.Sequential(), {"ReLU": it.ISRLU}),
        TypeError,
        "swap replaces modules by class: 'ReLU' is not a module class",
    ),
    "swap of the model itself": (
        lambda: it.swap(nn.ReLU(), {nn.ReLU: it.ISRLU}),
        ValueError,
        "the model itself is a ReLU: give swap the module that contains it",
    ),
    "swap for a function": (
        lambda: it.swap(nn.Sequential(nn.ReLU()), {nn.ReLU: lambda old: it.isrlu}),
        TypeError,
        "the replacement for ReLU must be a module, got function",
    ),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input(case: str) -> None:
    call, error, message = BAD_CALLS[case]
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()
    assert X.tolist() == [[-1.0, 2.0]] and X._version == 0


@pytest.mark.slow
@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize(("alpha", "kind"), [(-1.0, ValueError), (float("nan"), ValueError), ("1", TypeError)])
@pytest.mark.parametrize("function", [it.isrlu, it.isru])
def test_a_bad_alpha_in_a_compiled_function(function, alpha, kind: type[Exception], fullgraph: bool) -> None:
    """The same error as in eager mode, not one of Dynamo's."""
    torch.compiler.reset()
    with pytest.raises(kind) as eager:
        function(X, alpha)
    compiled = torch.compile(lambda x: function(x * 2, alpha) + 1, fullgraph=fullgraph, backend="aot_eager")
    for x in (X, X.clone().requires_grad_()):
        with pytest.raises(kind, match=f"^{re.escape(str(eager.value))}$"):
            compiled(x)
