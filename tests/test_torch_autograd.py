"""Gradients: of first and second order, in place, under function transforms, in forward mode."""

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.testing._internal.two_tensor import TwoTensor

import isrlu.torch as it
from isrlu._checks import METHODS
from isrlu.testing import check, expect
from isrlu.torch import _formula

FUNCTIONS = {
    "isrlu": lambda x, **kw: it.isrlu(x, 2.0, **kw),
    "isru": lambda x, **kw: it.isru(x, 2.0, **kw),
    "isru_sigmoid": it.isru_sigmoid,
    "sisrlu": it.sisrlu,
}


def points(*shape: int) -> Tensor:
    """Seeded normal numbers in float64, none so near to 0 that a difference quotient would straddle ISRLU's joint."""
    x = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return torch.where(x.abs() < 0.05, 0.1, x).requires_grad_()


@pytest.mark.parametrize("inplace", (False, True))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name: str, inplace: bool) -> None:
    f = (lambda x: FUNCTIONS[name](x * 1.0, inplace=True)) if inplace else FUNCTIONS[name]
    assert torch.autograd.gradcheck(f, points(5, 3), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, points(5, 3), check_batched_grad=True)


@pytest.mark.parametrize("inplace", (False, True))
@pytest.mark.parametrize("shape", ((), (1,), (3,)))
@pytest.mark.parametrize("function", (it.isrlu, it.isru))
def test_gradcheck_of_alpha(function, shape: tuple[int, ...], inplace: bool) -> None:
    alpha = torch.linspace(0.5, 2.0, 3, dtype=torch.float64)[: shape[0] if shape else 1].reshape(shape).requires_grad_()
    f = lambda x, alpha: function(x * 1.0, alpha, inplace)  # noqa: E731
    assert torch.autograd.gradcheck(f, (points(4, 3, 2), alpha))
    assert torch.autograd.gradgradcheck(f, (points(4, 3, 2), alpha))


@pytest.mark.parametrize("function", (it.isrlu, it.isru))
def test_alpha_alone_may_want_a_gradient(function) -> None:
    x = points(4, 3, 2).detach()
    assert torch.autograd.gradcheck(
        lambda alpha: function(x, alpha), torch.ones(3, dtype=torch.float64).requires_grad_()
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode(name: str) -> None:
    f, x = FUNCTIONS[name], points(7)
    assert torch.autograd.gradcheck(f, x, check_forward_ad=True, check_batched_forward_grad=True)
    with forward_ad.dual_level():
        y = forward_ad.unpack_dual(f(forward_ad.make_dual(x.detach(), torch.ones_like(x))))
    (slope,) = torch.autograd.grad(f(x).sum(), x)
    torch.testing.assert_close(y.tangent, slope)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_transforms(name: str) -> None:
    f, x = FUNCTIONS[name], points(6).detach()
    slope = torch.autograd.grad(f(leaf := x.clone().requires_grad_()).sum(), leaf)[0]
    torch.testing.assert_close(torch.func.grad(lambda v: f(v).sum())(x), slope)
    torch.testing.assert_close(torch.func.vmap(f)(x), f(x))
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(f))(x), slope)
    torch.testing.assert_close(torch.func.jvp(f, (x,), (torch.ones_like(x),)), (f(x), slope))
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(jacobian(f)(x), slope.diag())
    second = torch.func.vmap(torch.func.grad(torch.func.grad(f)))(x)
    torch.testing.assert_close(torch.func.hessian(lambda v: f(v).sum())(x), second.diag())


@pytest.mark.parametrize("function", [it.isrlu, it.isru, it.sisrlu])
@pytest.mark.parametrize("alpha", [1e-30, 2.0**-149, 1e-46, 1e-100, 5e-324])
def test_a_tiny_alpha_in_the_formula(function, alpha: float) -> None:
    """In float32, alpha up to 2^-150 is 0, in the kernels and in the formula that transforms take."""
    x = torch.tensor([-3.0, 2.0, -torch.inf, -1e30])
    expected = function(leaf := x.clone().requires_grad_(), alpha)
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    torch.testing.assert_close(torch.func.vmap(lambda v: function(v, alpha))(x), expected.detach())
    torch.testing.assert_close(torch.func.grad(lambda v: function(v, alpha).sum())(x), slope)


def test_a_constant_inside_of_a_transform() -> None:
    constant = torch.tensor([-1.0, 2.0])
    slope = torch.func.grad(lambda x: (x * it.isrlu(constant)).sum())(torch.ones(2))
    torch.testing.assert_close(slope, it.isrlu(constant))


@pytest.mark.parametrize("inplace", (False, True))
def test_a_parameter_inside_of_a_transform(inplace: bool) -> None:
    """A tensor with a gradient of its own that the transformed function closes over."""
    parameter = torch.tensor([-1.0, 2.0], requires_grad=True)
    expected = it.isrlu(parameter).detach()

    def weighed(x: Tensor) -> Tensor:
        return (x * it.isrlu(parameter * 1, inplace=inplace)).sum()

    torch.testing.assert_close(torch.func.grad(weighed)(torch.ones(2)), expected)
    torch.testing.assert_close(torch.func.vmap(weighed)(torch.eye(2)), expected, check_stride=False)


@pytest.mark.parametrize("unpacked", (lambda x: torch.stack([x, x], -1)[..., 0], lambda x: x[:1].expand(3, 4)))
def test_what_hooks_make_of_saved_tensors(unpacked) -> None:
    x = points(12).view(3, 4)[:1].repeat(3, 1).detach().requires_grad_()
    (expected,) = torch.autograd.grad(it.isrlu(x).sum(), x)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpacked):
        y = it.isrlu(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slope, expected)


def test_hooks_that_wrap_saved_tensors() -> None:
    """What they make of them has no memory of its own that a kernel could read."""
    x = points(12).detach().requires_grad_()
    (expected,) = torch.autograd.grad(it.isrlu(x).sum(), x)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: TwoTensor(x, x)):
        y = it.isrlu(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slope.a, expected)


@pytest.mark.parametrize("function", (it.isrlu, it.isru, it.isru_sigmoid, it.sisrlu))
def test_jagged_tensors(function) -> None:
    parts = [points(6).view(2, 3).detach(), points(12).view(4, 3).detach()]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    y = function(x)
    (slope,) = torch.autograd.grad(y.values().sum(), x)
    for part, value, its_slope in zip(parts, y.unbind(), slope.unbind(), strict=True):
        part.requires_grad_()
        torch.testing.assert_close(value, function(part))
        torch.testing.assert_close(its_slope, torch.autograd.grad(function(part).sum(), part)[0])


def test_a_default_device_does_not_reach_the_kernels() -> None:
    x, alpha = points(6).view(2, 3).detach().requires_grad_(), torch.ones(3, dtype=torch.float64, requires_grad=True)
    expected = torch.autograd.grad(it.isrlu(x, alpha).sum(), (x, alpha))
    with torch.device("meta"):
        torch.testing.assert_close(torch.autograd.grad(it.isrlu(x, alpha).sum(), (x, alpha)), expected)


@pytest.mark.parametrize("vectorize", (False, True))
def test_jacobian(vectorize: bool) -> None:
    x = points(4)
    jacobian = torch.autograd.functional.jacobian(FUNCTIONS["isrlu"], x, vectorize=vectorize)
    torch.testing.assert_close(jacobian, torch.autograd.grad(FUNCTIONS["isrlu"](x).sum(), x)[0].diag())


@pytest.mark.parametrize("method", METHODS[1:])
def test_backward_takes_the_method_too(method: str) -> None:
    x = points(50).detach().float().requires_grad_()
    (slope,) = torch.autograd.grad(it.isrlu(x, 2.0, method=method).sum(), x)
    check(expect("isrlu", x.detach().numpy(), 2.0), "torch", method, dfdx=slope)
    (full,) = torch.autograd.grad(it.isrlu(x, 2.0).sum(), x)
    assert not torch.equal(slope, full)


def test_gradient_of_another_layout_than_the_input() -> None:
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
    grad = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    (slope,) = torch.autograd.grad(it.isrlu(x), x, grad)
    (expected,) = torch.autograd.grad(_formula.isrlu(x, 1.0), x, grad)
    torch.testing.assert_close(slope, expected)


def saved_by(f, x: Tensor) -> list[Tensor]:
    """The tensors that autograd keeps for the backward of f(x)."""
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        f(x)
    return kept


@pytest.mark.parametrize("activation", (nn.ReLU(inplace=True), it.ISRLU(inplace=True), it.ISRU(inplace=True)))
def test_in_place_keeps_the_output_alone(activation: nn.Module) -> None:
    x = torch.randn(64).requires_grad_() + 0.0
    address = x.data_ptr()
    assert [kept.data_ptr() for kept in saved_by(activation, x)] == [address]


def test_in_place_gradient_is_that_of_the_copy() -> None:
    x = points(40)
    for f in FUNCTIONS.values():
        (expected,) = torch.autograd.grad(f(x).sum(), x)
        (slope,) = torch.autograd.grad(f(x + 0.0, inplace=True).sum(), x)
        torch.testing.assert_close(slope, expected)


def test_in_place_on_a_view_reaches_its_base() -> None:
    x = points(3, 4)
    base = x * 1.0
    it.isrlu(base[1], 2.0, inplace=True)
    (slope,) = torch.autograd.grad(base.sum(), x)
    (expected,) = torch.autograd.grad(it.isrlu(x[1], 2.0).sum(), x)
    expected[0] = expected[2] = 1.0
    torch.testing.assert_close(slope, expected)


def test_in_place_is_noticed_by_who_saved_the_input() -> None:
    x = torch.ones(4, requires_grad=True) * 1.0
    y = x.exp() * x
    with torch.no_grad():
        it.isrlu(x, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("f", (torch.relu_, lambda x: it.isrlu(x, inplace=True)), ids=("relu", "isrlu"))
def test_in_place_errors_are_pytorchs(f) -> None:
    leaf = torch.full((4,), -1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        f(leaf)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        f(leaf[1:])
    expanded = torch.full((1,), -1.0).expand(4)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        f(expanded)
    assert leaf.eq(-1).all() and expanded.eq(-1).all()


@pytest.mark.parametrize("alpha", (0.0, torch.tensor(0.0)), ids=("number", "tensor"))
@pytest.mark.parametrize("inplace", (False, True))
@pytest.mark.parametrize("function", (it.isrlu, it.isru))
def test_second_derivative_of_alpha_0_is_0(function, inplace: bool, alpha) -> None:
    x = torch.tensor([-3e38, -1.0, 0.0, 2.0, 3e38], requires_grad=True)
    (slope,) = torch.autograd.grad(function(x.clone(), alpha, inplace).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.square().sum(), x)
    assert slope.eq(1).all() and second.eq(0).all()


def test_in_place_in_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.full((4,), -1.0)
        assert it.isrlu(x, 3.0, inplace=True) is x
    assert x.eq(-0.5).all()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        it.isrlu(x, 3.0, inplace=True)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_saturation_in_small_dtypes(dtype: torch.dtype) -> None:
    x = torch.tensor([-300.0, -60000.0, -torch.inf, 5.0], dtype=dtype, requires_grad=True)
    y = it.isrlu(x, 4.0)
    y.sum().backward()
    torch.testing.assert_close(y.detach(), torch.tensor([-0.5, -0.5, -0.5, 5.0], dtype=dtype))
    assert x.grad[2] == 0 and x.grad[3] == 1
