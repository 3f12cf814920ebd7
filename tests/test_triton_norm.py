"""DyISRU's Triton kernels in Triton's interpreter, against float64; run as tests/test_triton_values.py is."""

import os

import pytest
import torch
from torch import Tensor

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs triton and TRITON_INTERPRET=1 in a process of its own", allow_module_level=True)

from test_triton_values import CPU, DTYPES, hardware  # noqa: F401  the fixture

import isrlu.torch as it
from isrlu import _core
from isrlu.torch import _triton, _triton_norm_kernels

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")
TOLERANCE = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}


def gradients(x: Tensor, parameters: list, grad: Tensor) -> list[Tensor]:
    """y and the gradients of x and of the parameters that are tensors."""
    leaves = [each.detach().requires_grad_() if isinstance(each, Tensor) else each for each in (x, *parameters)]
    y = it.dyisru(*leaves)
    inputs = [each for each in leaves if isinstance(each, Tensor)]
    return [y.detach(), *torch.autograd.grad(y, inputs, grad)]


def check(x: Tensor, parameters: list, dtype: str) -> None:
    """Against the same computation by the CPU kernels in float64, relative to the largest element."""
    grad = torch.randn(x.shape, generator=torch.Generator().manual_seed(9)).to(x.dtype)
    got = gradients(x, parameters, grad)
    wide = [each.double() if isinstance(each, Tensor) else each for each in (x, *parameters, grad)]
    _core.set_launch_devices([])
    expected = gradients(wide[0], wide[1:5], wide[5])
    _core.set_launch_devices([CPU])
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a.double(), b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * float(b.abs().max()))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [*((dtype, (2, 5, 40)) for dtype in DTYPES), ("float32", (41, 600)), ("float32", (3, 9000)), ("float64", (3, 7))],
    ids=str,
)
def test_all_parameters_learn(dtype, shape, monkeypatch) -> None:
    monkeypatch.setattr(_triton, "ROWS", 2)
    generator = torch.Generator().manual_seed(len(shape))
    x, weight, bias = (
        torch.randn(size, generator=generator).to(DTYPES[dtype]) for size in (shape, shape[-1], shape[-1])
    )
    check(x, [weight, bias, torch.tensor([0.7], dtype=x.dtype), torch.tensor(-0.2, dtype=x.dtype)], dtype)


@pytest.mark.parametrize("which", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)], ids=str)
def test_parameters_may_be_missing(which) -> None:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(3))
    weight, bias = (torch.linspace(-1, 2, 6) if wanted else None for wanted in which[:2])
    check(x, [weight, bias, torch.tensor(0.4) if which[2] else 0.4, 0.3], "float32")


def test_strides_and_wide_parameters() -> None:
    x = torch.randn(6, 4, 5, generator=torch.Generator().manual_seed(4)).bfloat16().transpose(0, 2)
    check(x, [torch.ones(6), torch.zeros(6), 0.5, 0.0], "bfloat16")


def test_corners() -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([-inf, inf, nan, 3e38, -3e38, 0.0], requires_grad=True)
    alpha = torch.tensor(2.0, requires_grad=True)
    y = it.dyisru(x, None, None, alpha, 0.0)
    grad, of_alpha = torch.autograd.grad(y[[0, 1, 3, 4, 5]].sum(), [x, alpha])
    torch.testing.assert_close(y.detach(), torch.tensor([-1, 1, nan, 1, -1, 0]), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(grad[[0, 1, 3, 4, 5]], torch.tensor([0.0, 0, 0, 0, 2]), rtol=0, atol=0)
    assert of_alpha.isnan()  # grad is 0 at NaN, and 0 times NaN is NaN, as on the CPU
    torch.testing.assert_close(it.dyisru(torch.tensor([inf]), alpha=0.0, shift=0.75), torch.tensor([0.6]))


def test_one_kernel_each_way(monkeypatch) -> None:
    ran = []
    for name in ("norm_forward_kernel", "norm_backward_kernel"):
        kernel = getattr(_triton_norm_kernels, name)
        watched = type("Watched", (), {"__getitem__": lambda _, grid, k=kernel, n=name: ran.append(n) or k[grid]})()
        monkeypatch.setattr(_triton_norm_kernels, name, watched)
    layer = it.DyISRU(5)
    layer(torch.randn(3, 5)).sum().backward()
    assert ran == ["norm_forward_kernel", "norm_backward_kernel"]
    assert all(each.grad is not None for each in layer.parameters())
    assert _triton._state["launched"]
