"""isrlu.torch against the test vectors, by three ways: the kernels, what is compiled, the formula."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

import isrlu.torch as it
from isrlu._checks import METHODS
from isrlu.testing import DTYPES, FUNCTIONS, Vectors, check, expect, load, questions, root_error
from isrlu.torch import _formula, _traced

SIZES = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 97, 1000, 40_001)
WAYS = ("torch", "torch.compile", "torch formula")


def wide(dtype: str) -> torch.dtype:
    return torch.float64 if dtype == "float64" else torch.float32


def call(way: str, function: str, x: Tensor, alpha: float | Tensor) -> Tensor:
    if way == "torch.compile":  # what torch.compile is given, here without it
        return _traced.differentiable(function, x, alpha)
    f = getattr({"torch": it, "torch formula": _formula}[way], function)
    return f(x) if function == "isru_sigmoid" else f(x, alpha)


def as_tensor(values: np.ndarray, dtype: str) -> Tensor:
    return torch.tensor(values).to(getattr(torch, dtype))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_number_alpha(function: str, dtype: str, way: str) -> None:
    for alpha, vectors in questions(way, function, dtype).by_alpha():
        if way == "torch formula":
            vectors = representable(vectors)
        x = as_tensor(vectors.x, dtype).requires_grad_()
        y = call(way, function, x, alpha)
        (slope,) = torch.autograd.grad(y, x, torch.ones_like(y))
        assert y.dtype == slope.dtype == x.dtype
        check(vectors, way, f=y.detach().double(), dfdx=slope.double())
        with torch.no_grad():
            torch.testing.assert_close(call(way, function, x, alpha), y, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", ("isrlu", "isru"))
def test_tensor_alpha(function: str, dtype: str, way: str) -> None:
    vectors = load(function, dtype) if way == "torch.compile" else representable(load(function, dtype))
    x = as_tensor(vectors.x, dtype)[None].requires_grad_()  # one channel per vector
    alpha = torch.tensor(vectors.alpha).to(wide(dtype)).requires_grad_()
    y = call(way, function, x, alpha)
    slope, by_alpha = torch.autograd.grad(y, (x, alpha), torch.ones_like(y))
    check(vectors, way, f=y[0].detach().double(), dfdx=slope[0].double(), dfdalpha=by_alpha.double())


def representable(vectors: Vectors) -> Vectors:
    """Without the rows whose derivatives leave the range of the numbers that autograd's chain rule goes through.

    df/dalpha itself overflows; or f' / sqrt(alpha), the derivative before the last factor, is subnormal.
    """
    limits = np.finfo(np.float64 if vectors.dtype == "float64" else np.float32)
    alpha = np.nan_to_num(vectors.alpha, nan=1.0)
    fine = ~(np.abs(vectors.dfdalpha) > limits.max)
    with np.errstate(under="ignore"):
        last = vectors.dfdx / np.sqrt(np.maximum(alpha, 1.0))
    return vectors[fine & ~((vectors.dfdx > 0) & (last < limits.tiny) & (alpha > 1e30))]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_result_depends_on_the_value_alone(dtype: str, size: int) -> None:
    x = torch.randn(size + 3, generator=torch.Generator().manual_seed(size)).to(getattr(torch, dtype)) * 3
    whole = it.isrlu(x, 2.0)
    for start in (0, 1, 3):
        torch.testing.assert_close(it.isrlu(x[start:], 2.0), whole[start:], rtol=0, atol=0)


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_threads_change_nothing(function: str, threads: int) -> None:
    x = torch.randn(300_007, generator=torch.Generator().manual_seed(5)).requires_grad_()
    expected = [call("torch", function, part, 1.5) for part in x.detach().split(1000)]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        y = call("torch", function, x, 1.5)
        y.backward(torch.ones_like(y))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(y.detach(), torch.cat(expected), rtol=0, atol=0)
    slope = torch.func.vmap(torch.func.grad(lambda v: call("torch", function, v, 1.5)))(x.detach())
    torch.testing.assert_close(x.grad, slope)


@pytest.mark.parametrize("inplace", (False, True))
@pytest.mark.parametrize("method", METHODS)
def test_methods_are_near_the_formula(method: str, inplace: bool) -> None:
    """Each within its own bound, and as far off as its own estimate is: no method stands in for another."""
    x = -torch.randn(100_000, generator=torch.Generator().manual_seed(1)).abs() * 5
    vectors = expect("isrlu", x.numpy().copy(), 3.0)
    others = [it.isrlu(x, 3.0, method=other) for other in METHODS if other != method]
    y = it.isrlu(x, 3.0, inplace, method)
    assert (y is x) == inplace
    check(vectors, "torch", method, f=y)
    if root_error(method) > 1e-5:  # more than rounding: a method that passed for a better one would be too good
        assert np.abs(y.numpy() / vectors.f - 1).max() > root_error(method) / 2
    assert not any(torch.equal(y, other) for other in others)


def layouts() -> dict[str, Tensor]:
    x = torch.randn(2, 6, 4, 5, generator=torch.Generator().manual_seed(3))
    return {
        "contiguous": x,
        "channels_last": x.contiguous(memory_format=torch.channels_last),
        "transposed": x.permute(3, 1, 0, 2),
        "sliced": x[:, ::2],
        "expanded": x[:, :, :1].expand(2, 6, 7, 5),
        "flipped view": x[..., 1:3],
        "2-D": x[0, 0],
        "1-D": x[0, 0, 0],
        "0-d": x[0, 0, 0, 0],
        "empty": x[:0],
        "no channels": x[:, :0],
    }


@pytest.mark.parametrize("alphas", ("number", "one", "per channel"))
@pytest.mark.parametrize("layout", layouts())
def test_layouts(layout: str, alphas: str) -> None:
    x = layouts()[layout]
    channels = x.shape[1] if x.dim() > 1 else 1
    alpha = {"number": 2.0, "one": torch.tensor(2.0), "per channel": torch.arange(1.0, channels + 1)}[alphas]
    reference = x.double().contiguous().requires_grad_()
    expected = _formula.isrlu(reference, _formula.per_channel(alpha, x))
    expected.sum().backward()
    leaf = x.detach().requires_grad_()
    y = it.isrlu(leaf, alpha)
    torch.testing.assert_close(y, expected.float())
    assert y.stride() == torch.nn.functional.elu(x).stride()
    y.sum().backward()
    torch.testing.assert_close(leaf.grad, reference.grad.float())
    torch.testing.assert_close(it.isrlu(x, alpha), y.detach(), rtol=0, atol=0)


@pytest.mark.parametrize("layout", ("contiguous", "channels_last", "transposed", "sliced", "1-D", "0-d", "empty"))
def test_inplace_writes_into_the_input(layout: str) -> None:
    x = layouts()[layout].clone(memory_format=torch.preserve_format) if layout != "sliced" else layouts()[layout]
    expected, version = it.isrlu(x, 2.0), x._version
    y = it.isrlu(x, 2.0, inplace=True)
    assert y is x
    assert x._version > version
    torch.testing.assert_close(x, expected, rtol=0, atol=0)


def test_lazy_negation_is_seen() -> None:
    x = torch.tensor([[1 + 2j], [3 - 4j]]).conj()[0].imag
    assert x.is_neg() and x.is_contiguous()
    torch.testing.assert_close(it.isru(x), -it.isru(torch.tensor([2.0])))
    y = it.dyisru(torch.tensor([1.0]), alpha=x, shift=x)
    torch.testing.assert_close(y, it.dyisru(torch.tensor([1.0]), alpha=-2.0, shift=-2.0))


@pytest.mark.parametrize("shape", [(), (1,), (5,)])
def test_zeros_without_memory_are_seen(shape: tuple[int, ...]) -> None:
    """PyTorch makes them for gradients that are known to be 0."""
    x = torch._efficientzerotensor(shape)
    assert x.data_ptr() == 0
    assert torch.equal(it.isru(x), torch.zeros(shape))
    torch.testing.assert_close(it.dyisru(x, shift=0.75), torch.full(shape, 0.6))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Dynamo's own
@pytest.mark.parametrize("name", ["isrlu", "isru"])
def test_alpha_beyond_the_dtype_saturates_at_once(name: str) -> None:
    """1e300 is a good alpha, though float32 has no such number: by the kernels, compiled, and by the formula."""
    function = partial(getattr(it, name), alpha=1e300)
    for call in (function, torch.compile(function, fullgraph=True), torch.func.vmap(function)):
        x = torch.tensor([-math.inf, -2.0, 2.0], requires_grad=True)
        y = call(x)
        y.sum().backward()
        passes = [0.0, 0.0, 2.0 if name == "isrlu" else 0.0]
        torch.testing.assert_close(y.detach(), torch.tensor(passes), rtol=0, atol=1e-18)
        torch.testing.assert_close(x.grad, torch.tensor(passes) / 2)
