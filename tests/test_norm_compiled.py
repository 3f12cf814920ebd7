"""dyisru under torch.compile: the kernels as operators for many elements, the formula for few."""

from types import SimpleNamespace

import pytest
import torch
from test_norm import gradients, parameters
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from isrlu.torch import DyISRU, _norm_ops, dyisru

FORWARD, BACKWARD = "isrlu::norm_forward", "isrlu::norm_backward"
CHANNELS = 64
FEW, MANY = 6, _norm_ops.MIN_ELEMENTS // CHANNELS  # rows

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def compile_anew() -> None:
    torch.compiler.reset()


def operators(call) -> set[str]:
    """The operators of this package that a call runs."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return {event.key for event in profile.key_averages() if event.key.startswith("isrlu::")}


@pytest.mark.parametrize("rows, expected", [(FEW, set()), (MANY - 1, set()), (MANY, {FORWARD, BACKWARD})])
def test_values_and_gradients(rows: int, expected: set[str]) -> None:
    torch.manual_seed(3)
    x, given = torch.randn(rows, CHANNELS), parameters(CHANNELS)
    compiled = torch.compile(dyisru, fullgraph=True, dynamic=False)
    torch.testing.assert_close(compiled(x, *given), dyisru(x, *given))
    for found, wanted in zip(gradients(compiled, x, given, x), gradients(dyisru, x, given, x), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)  # sums in another order
    assert operators(lambda: gradients(compiled, x, given, x)) == expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("has_weight, has_bias", [(False, False), (True, False), (False, True)])
def test_parameters_that_are_missing_or_numbers(dtype: torch.dtype, has_weight: bool, has_bias: bool) -> None:
    weight, bias, _, shift = parameters(CHANNELS, dtype)
    x, weight, bias = torch.randn(MANY, CHANNELS).to(dtype), weight if has_weight else None, bias if has_bias else None
    compiled = torch.compile(dyisru, fullgraph=True)
    for alpha, b in ((0.5, 0.1), (0.7, 0.1), (0.9, shift)):
        leaf = x.clone().requires_grad_()
        y, expected = (function(leaf, weight, bias, alpha, b) for function in (compiled, dyisru))
        assert torch.equal(y, expected)
        assert torch.equal(*(torch.autograd.grad(each, leaf, x)[0] for each in (y, expected)))


def test_a_number_of_rows_that_changes_compiles_twice() -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(dyisru, fullgraph=True, dynamic=True, backend=counter)
    for rows in (FEW, FEW + 1, MANY, MANY + 1, FEW + 2):
        x, given = torch.randn(rows, CHANNELS), parameters(CHANNELS)
        torch.testing.assert_close(compiled(x, *given), dyisru(x, *given))
    assert counter.frame_count == 2


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_number_of_rows_that_depends_on_data() -> None:
    layer = DyISRU(CHANNELS)

    def some_rows(x: Tensor) -> Tensor:
        return layer(x[x[:, 0] > 0])

    x = torch.randn(3 * MANY, CHANNELS)
    torch.testing.assert_close(torch.compile(some_rows, fullgraph=True)(x), some_rows(x))


def test_other_layouts() -> None:
    x = torch.randn(CHANNELS, MANY).t()
    given = parameters(CHANNELS)
    compiled = torch.compile(lambda x, *given: dyisru(x * 2, *given) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x, *given), dyisru(x * 2, *given) + 1)


def test_func_and_export_have_no_operators() -> None:
    x, layer = torch.randn(MANY, CHANNELS), DyISRU(CHANNELS)
    each_row = torch.compile(torch.func.vmap(lambda row: layer(row)), fullgraph=True)
    torch.testing.assert_close(each_row(x), layer(x))
    assert operators(lambda: each_row(x)) == set()
    exported = torch.export.export(layer, (x,))
    assert not [node for node in exported.graph.nodes if "isrlu" in str(node.target)]


@pytest.mark.parametrize("missing", [(), (0, 1)], ids=["all parameters", "without weight and bias"])
def test_operators_keep_pytorchs_rules(missing: tuple[int, ...]) -> None:
    x, given = torch.randn(5, 8), [None if i in missing else each for i, each in enumerate(parameters(8))]
    torch.library.opcheck(torch.ops.isrlu.norm_forward.default, (x, *given))
    torch.library.opcheck(torch.ops.isrlu.norm_backward.default, (x, torch.randn(8, 5).t(), *given))


def test_operators_without_kernels(monkeypatch) -> None:
    x, given = torch.randn(5, 8), parameters(8)
    expected = [dyisru(x, *given), *gradients(dyisru, x, given, x)]
    nothing = SimpleNamespace(norm_forward=lambda *_: None, norm_backward=lambda *_: None)
    monkeypatch.setattr(_norm_ops, "_core", nothing)
    found = [_norm_ops.traced(x, *given), *gradients(_norm_ops.traced, x, given, x)]
    torch.testing.assert_close(found, expected)
