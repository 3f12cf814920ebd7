"""isrlu.torch.dyisru: values, gradients, threads, strides, errors. (The module: test_norm_module.py.)"""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from norm_vectors import by_torch
from torch import Tensor

from isrlu import _core
from isrlu.testing import DTYPES, check_norm, load_norm
from isrlu.torch import _norm, _norm_formula, _norm_ops, dyisru

INF, NAN = float("inf"), float("nan")


def parameters(channels: int | tuple[int, ...] = 8, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    made = torch.Generator().manual_seed(1)
    shape = (channels,) if isinstance(channels, int) else channels
    scale = [torch.randn(shape, generator=made).to(dtype) for _ in range(2)]
    return [*scale, torch.tensor(0.7).to(dtype), torch.tensor(-0.3).to(dtype)]


def gradients(function, x: Tensor, given: list[Tensor], grad: Tensor) -> list[Tensor]:
    inputs = [each.detach().clone().requires_grad_() for each in (x, *given)]
    return list(torch.autograd.grad(function(*inputs), inputs, grad))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name, function",
    [
        ("torch", dyisru),
        ("torch", _norm_ops.traced),
        ("torch formula", _norm_formula.value),
        ("torch.compile", _norm_formula.traced),
    ],
)
def test_vectors(name: str, function, dtype: str) -> None:
    vectors = load_norm(dtype)
    check_norm(vectors, name, **by_torch(function, vectors))


@pytest.mark.slow
@pytest.mark.parametrize("simd", _core.simd_available())
def test_vectors_on_every_instruction_set(simd: str) -> None:
    program = (
        "from norm_vectors import by_torch; from isrlu.testing import DTYPES, check_norm, load_norm;"
        "from isrlu.torch import dyisru\n"
        "for dtype in DTYPES: check_norm(load_norm(dtype), 'torch', **by_torch(dyisru, load_norm(dtype)))"
    )
    environment = os.environ | {"ISRLU_SIMD": simd, "PYTHONPATH": os.path.dirname(__file__)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.parametrize(
    "shape, dims", [((7, 5), 1), ((70, 32), 1), ((3, 4, 17), 1), ((1, 40), 1), ((900, 3), 1), ((5, 6, 8), 2)]
)
def test_kernel_gradients_are_the_formulas(shape: tuple[int, ...], dims: int) -> None:
    torch.manual_seed(2)
    x, grad = torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    given = parameters(shape[-dims:], torch.float64)
    assert type(_core.norm_forward(x.requires_grad_(), *given)) is tuple  # a kernel takes it
    x = x.detach()
    for found, expected in zip(
        gradients(dyisru, x, given, grad), gradients(_norm_formula.value, x, given, grad), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_do_not_depend_on_the_threads(dtype: torch.dtype) -> None:
    x = torch.randn(700, 200).to(dtype)
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append([dyisru(x, *parameters(200, dtype)), *gradients(dyisru, x, parameters(200, dtype), x)])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_result_depends_on_the_value_alone() -> None:
    x = torch.linspace(-9, 9, 37)
    alone = torch.stack([dyisru(each.reshape(1, 1), torch.tensor([1.5]), torch.tensor([0.1]))[0, 0] for each in x])
    assert torch.equal(dyisru(x, torch.full((37,), 1.5), torch.full((37,), 0.1)), alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_wide_rows_are_their_columns(dtype: torch.dtype) -> None:
    """More columns than the kernels take at a time."""
    torch.manual_seed(3)
    x, (weight, bias, *numbers) = torch.randn(3, 2064).to(dtype), parameters(2064, dtype)
    columns = [slice(i, i + 48) for i in range(0, 2064, 48)]
    pieces = [dyisru(x[:, at], weight[at], bias[at], *numbers) for at in columns]
    assert torch.equal(dyisru(x, weight, bias, *numbers), torch.cat(pieces, dim=1))


def test_gradcheck() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 8, dtype=torch.float64, requires_grad=True)
    given = [each.requires_grad_() for each in parameters(8, torch.float64)]
    assert torch.autograd.gradcheck(dyisru, (x, *given))
    assert torch.autograd.gradgradcheck(dyisru, (x, *given))


def test_corner_values() -> None:
    x = torch.tensor([[0.0, 1e30, -1e30, INF, -INF, NAN, 1e-42, -2.0]])
    for function in (dyisru, _norm_formula.value, _norm_formula.traced, _norm_formula.exported):
        y = function(x, torch.full((8,), 2.0), torch.full((8,), 1.0), 0.5, 0.0)
        assert y[0, :5].tolist() == [1.0, 3.0, -1.0, 3.0, -1.0]
        assert y[0, 5].isnan()
        assert function(x, None, None, 1.0, 0.0)[0, 6] == x[0, 6]  # a subnormal is not flushed
        assert function(x, None, None, 0.0, 0.75)[0, 3].item() == pytest.approx(0.6)  # alpha = 0: u = shift


def test_a_large_shift_does_not_decide_alone() -> None:
    x = torch.tensor([-1e38, 0.0, 1e38])
    for shift, expected in ((1e30, [-1, 1, 1]), (-1e30, [-1, -1, 1]), (3e38, [1, 1, 1])):
        assert dyisru(x, None, None, 2.0, shift).tolist() == expected


def test_infinite_x_has_gradient_0() -> None:
    x = torch.tensor([[INF, -INF, 3e38]])
    for function in (dyisru, _norm_formula.value, _norm_formula.traced):
        of_x, _, _, of_alpha, of_shift = gradients(function, x, parameters(3), torch.ones(1, 3))
        assert of_x.tolist() == [[0, 0, 0]]
        assert of_alpha == of_shift == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float32_parameters_for_16_bit_inputs(dtype: torch.dtype) -> None:
    x = torch.randn(6, 20).to(dtype)
    given = parameters(20)
    y = dyisru(x, *given)
    assert y.dtype is dtype
    assert torch.equal(y, dyisru(x.float(), *given).to(dtype))
    grads = gradients(dyisru, x, given, x)
    assert [each.dtype for each in grads] == [dtype, *[torch.float32] * 4]


def test_strides_and_empty() -> None:
    given = parameters(6)
    x = torch.randn(6, 5, 4)
    for view in (x.transpose(0, 2), x[:, ::2].permute(1, 2, 0), x[:, :1].expand(6, 3, 4).transpose(0, 2)):
        grad = torch.randn(view.shape).transpose(0, 1).contiguous().transpose(0, 1)
        assert torch.equal(dyisru(view, *given), dyisru(view.contiguous(), *given))
        for found, expected in zip(
            gradients(dyisru, view, given, grad), gradients(_norm_formula.value, view, given, grad), strict=True
        ):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    empty = torch.empty(0, 6, requires_grad=True)
    y = dyisru(empty, *given)
    assert y.shape == (0, 6)
    y.sum().backward()
    strided = torch.randn(6, 2)[:, 0]
    torch.testing.assert_close(dyisru(x.transpose(0, 2), strided), dyisru(x.transpose(0, 2), strided.clone()))


def test_absent_parameters_and_numbers() -> None:
    x = torch.randn(7, 5, requires_grad=True)
    ones, zeros, alpha, shift = torch.ones(5), torch.zeros(5), torch.tensor(0.5), torch.tensor(0.25)
    full = dyisru(x, ones, zeros, alpha, shift)
    for weight in (None, ones):
        for bias in (None, zeros):
            assert torch.equal(dyisru(x, weight, bias, 0.5, 0.25), full)
            dyisru(x, weight, bias, 0.5, shift).sum().backward()


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"weight": torch.ones(7)}, ValueError, r"x must be of shape \[\*, 7\], got \[4, 8\]"),
        ({"bias": torch.ones(2, 4)}, ValueError, r"x must be of shape \[\*, 2, 4\]"),
        ({"weight": torch.ones(())}, ValueError, "at least 1 dim"),
        ({"weight": torch.ones(8, dtype=torch.float64)}, TypeError, "weight is torch.float64, x is torch.float32"),
        ({"alpha": torch.tensor(0.5).half()}, TypeError, "alpha is torch.float16"),
        ({"alpha": torch.ones(2)}, ValueError, r"alpha must be a number or a tensor with one value, got shape \[2\]"),
        ({"shift": INF}, ValueError, "shift must be a finite number, got inf"),
        ({"alpha": 10**400}, ValueError, "alpha must be a finite number, got 1000"),
        ({"alpha": "1"}, TypeError, "alpha must be a number or a tensor with one value, got str"),
        ({"weight": torch.ones(8, device="meta")}, ValueError, "weight is on meta, x on cpu: move one of them"),
        ({"x": torch.ones(4, 8, dtype=torch.int64)}, TypeError, "x must be float16, bfloat16, float32 or float64"),
        ({"x": [1.0]}, TypeError, "x must be a torch.Tensor, got list"),
        ({"weight": torch.ones(4, 8)}, ValueError, r"weight is of shape \[4, 8\], bias of \[8\]"),
    ],
)
def test_errors_are_one_line(change: dict, error: type[Exception], message: str) -> None:
    given = dict(zip(("weight", "bias", "alpha", "shift"), parameters(), strict=True))
    with pytest.raises(error, match=message) as caught:
        dyisru(**{"x": torch.ones(4, 8), **given, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [2, np.float32(2), np.float64(2)], ids=lambda number: type(number).__name__)
def test_every_kind_of_number_takes_the_kernels(number) -> None:
    x = torch.randn(1000)
    assert torch.equal(dyisru(x, alpha=number, shift=number), dyisru(x, alpha=2.0, shift=2.0))


def test_function_transforms_and_other_devices_take_the_formula() -> None:
    x, given = torch.randn(5, 8), parameters()
    one = torch.func.vmap(lambda row: dyisru(row, *given))(x)
    torch.testing.assert_close(one, dyisru(x, *given))
    jacobian = torch.func.jacrev(lambda a: dyisru(x, *given[:2], a, given[3]))(given[2])
    assert jacobian.shape == (5, 8)
    _, tangent = torch.func.jvp(lambda each: dyisru(each, *given), (x,), (torch.ones_like(x),))
    torch.testing.assert_close(tangent, gradients(dyisru, x, given, torch.ones_like(x))[0])
    assert dyisru(x.to("meta"), *[each.to("meta") for each in given]).shape == (5, 8)


def test_traced_gradients_are_the_formulas() -> None:
    x, given = torch.randn(6, 8, dtype=torch.float64), parameters(8, torch.float64)
    for found, expected in zip(
        gradients(_norm_formula.traced, x, given, x), gradients(_norm_formula.value, x, given, x), strict=True
    ):
        torch.testing.assert_close(found, expected)


def test_saved_tensors_may_not_be_changed() -> None:
    x = torch.randn(3, 8, requires_grad=True)
    weight, *others = parameters()
    y = dyisru(x, weight, *others)
    weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_autocast_keeps_the_inputs_dtype() -> None:
    given = parameters()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.randn(3, 8).to(dtype)
            assert dyisru(x, *given).dtype is torch.nn.functional.layer_norm(x, (8,), *given[:2]).dtype is dtype


def test_the_module_exports_one_name() -> None:
    assert _norm.dyisru is dyisru
