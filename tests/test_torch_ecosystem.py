"""Compilers, exporters, modes, subclasses, other libraries: isrlu.torch goes along with all of them."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import isrlu.torch as it


def block() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        it.ISRLU(2.0),
        nn.Conv2d(4, 4, 3, bias=False),
        it.ISRLU(learnable=True, num_parameters=4),
        nn.Flatten(),
        nn.Linear(64, 8),
        it.SISRLU(),
        it.ISRU(0.5, inplace=True),
        nn.Linear(8, 3),
        it.ISRUSigmoid(),
    )


def images() -> Tensor:
    return torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(2))


def gradients(model: nn.Module, module: nn.Module) -> list[Tensor]:
    module.zero_grad()
    model(images()).square().sum().backward()
    return [parameter.grad.clone() for parameter in module.parameters()]


@pytest.mark.slow
def test_compile_without_graph_break() -> None:
    module = block()
    compiled = torch.compile(module, fullgraph=True)
    torch.testing.assert_close(compiled(images()), module(images()))
    for got, expected in zip(gradients(compiled, module), gradients(module, module), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.slow
def test_compile_for_any_size() -> None:
    module = nn.Sequential(it.ISRLU(2.0), it.ISRU(learnable=True, num_parameters=3), it.SISRLU(), it.ISRUSigmoid())
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    for size in (5, 6, 40):
        x = torch.randn(2, 3, size, generator=torch.Generator().manual_seed(size), requires_grad=True)
        torch.testing.assert_close(compiled(x), module(x))
        inputs = (x, module[1].log_alpha)
        got, expected = (torch.autograd.grad(f(x).square().sum(), inputs) for f in (compiled, module))
        torch.testing.assert_close(got, expected)


@pytest.mark.slow
def test_compile_fuses_the_formula_with_its_neighbours() -> None:
    from torch._inductor.utils import run_and_get_code

    _, code = run_and_get_code(torch.compile(lambda x: it.isrlu(x * 2 + 1, 3.0).tanh() - 1, fullgraph=True), images())
    assert "".join(code).count("async_compile.cpp_pybinding(") == 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16))
def test_compiled_corner_cases(dtype: torch.dtype) -> None:
    inf = torch.inf
    x = torch.tensor([-inf, -1e30, -3.0, -1e-40, -0.0, 0.0, 1e30, inf], dtype=dtype, requires_grad=True)
    y = torch.compile(lambda x: it.isrlu(x, 4.0), fullgraph=True)(x)
    expected = it.isrlu(x, 4.0)
    torch.testing.assert_close(y, expected)
    assert (y.signbit() == expected.signbit()).all()
    (slope,) = torch.autograd.grad(y, x, torch.ones_like(y))
    torch.testing.assert_close(slope, torch.autograd.grad(expected, x, torch.ones_like(y))[0])


@pytest.mark.slow
def test_compile_takes_alpha_as_an_argument() -> None:
    compiled = torch.compile(it.isrlu, fullgraph=True)
    for alpha in (1.0, 2.0, 3.5, 2, torch.tensor(0.7), torch.tensor([1.0, 2.0])):
        torch.testing.assert_close(compiled(images(), alpha), it.isrlu(images(), alpha))


@pytest.mark.slow
def test_the_tail_of_a_compiled_sigmoid() -> None:
    """Subnormal values are kept down to where x^2 overflows: docs/torch.md."""
    x = torch.tensor([-1e18, -3.6e19, -3.8e19, -1e21]).repeat(8)
    eager, compiled = it.isru_sigmoid(x), torch.compile(it.isru_sigmoid, fullgraph=True)(x)
    assert (eager > 0).all() and eager[1] < torch.finfo(torch.float32).tiny
    assert torch.equal(compiled[:4] > 0, torch.tensor([True, True, False, False]))
    torch.testing.assert_close(compiled[1], eager[1], rtol=1e-4, atol=0)


@pytest.mark.parametrize("strict", (False, True))
def test_export(strict: bool) -> None:
    module = block().eval()
    exported = torch.export.export(module, (images(),), strict=strict).module()
    torch.testing.assert_close(exported(images()), module(images()))


@pytest.mark.slow
def test_onnx(tmp_path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module = block().eval()
    path = tmp_path / "block.onnx"
    torch.onnx.export(module, (images(),), path, dynamo=True, verbose=False)
    session = runtime.InferenceSession(path)
    (y,) = session.run(None, {session.get_inputs()[0].name: images().numpy()})
    torch.testing.assert_close(torch.tensor(y), module(images()).detach())


ONNX_MODULES = {
    "isrlu": lambda: it.ISRLU(0.7),
    "isru": lambda: it.ISRU(3.0),
    "sisrlu": it.SISRLU,
    "isru_sigmoid": it.ISRUSigmoid,
    "learned alpha": lambda: it.ISRLU(0.5, learnable=True),
    "the largest alpha": lambda: it.ISRU(1.7e308),
    "a tiny alpha": lambda: it.ISRLU(1e-300),
    "alpha 0": lambda: it.ISRU(0.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", ONNX_MODULES.values(), ids=ONNX_MODULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_onnx_has_every_digit(make, dtype: torch.dtype, tmp_path) -> None:
    """The exporter stores numbers in float32: constants of float64 must not be among them."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    top = torch.finfo(dtype).max
    x = torch.tensor([math.inf, -math.inf, math.nan, top, -top, -top / 1e4, -1e18, -2.5, -0.0, 0.5, 1e18], dtype=dtype)
    module = make().to(dtype).eval()
    path = tmp_path / "module.onnx"
    torch.onnx.export(module, (x,), path, dynamo=True, verbose=False)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(torch.tensor(y), module(x).detach(), rtol=tolerance, atol=1e-300, equal_nan=True)


def test_make_fx_of_real_tensors_sees_the_formula() -> None:
    graph = make_fx(lambda x: it.isrlu(x, 2.0))(images())
    assert "rsqrt" in graph.code
    torch.testing.assert_close(graph(images() + 1), it.isrlu(images() + 1, 2.0))


@pytest.mark.parametrize("alpha", (0.0, 2.0))
def test_jit_trace_sees_the_formula(alpha: float) -> None:
    traced = torch.jit.trace(lambda x: it.isrlu(x, alpha), images())
    torch.testing.assert_close(traced(images() + 1), it.isrlu(images() + 1, alpha))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
def test_autocast_does_what_it_does_to_elu(dtype: torch.dtype) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = images().to(dtype)
        assert it.isrlu(x).dtype == nn.functional.elu(x).dtype == dtype
        hidden = nn.functional.linear(images(), torch.ones(4, 8))
        assert it.ISRLU(learnable=True)(hidden).dtype == hidden.dtype == torch.bfloat16


def test_meta_tensors() -> None:
    y = it.isrlu(torch.empty(2, 3, 4, device="meta"), 2.0)
    assert y.is_meta and y.shape == (2, 3, 4)
    assert it.ISRLU(learnable=True, num_parameters=3, device="meta")(torch.empty(2, 3, device="meta")).is_meta


def test_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        fake = it.isrlu(torch.empty(2, 3), 2.0)
        assert fake.shape == (2, 3) and fake.fake_mode is mode
        assert repr(it.ISRLU(2.0, learnable=True)) == "ISRLU(alpha=2.0, learnable=True, num_parameters=1)"


class Tagged(Tensor):
    """A tensor subclass that keeps its type through torch functions."""


def test_subclass_is_kept() -> None:
    x = images().as_subclass(Tagged).requires_grad_()
    y = it.isrlu(x, 2.0)
    assert type(y) is Tagged
    torch.testing.assert_close(y.as_subclass(Tensor), it.isrlu(images(), 2.0))
    y.sum().backward()
    assert type(x.grad) in (Tensor, Tagged)


class Recorder(TorchDispatchMode):
    """Writes down the operators that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_dispatch_modes_see_the_formula() -> None:
    with Recorder() as recorder:
        y = it.isrlu(images(), 2.0)
    assert any("rsqrt" in name for name in recorder.seen)
    torch.testing.assert_close(y, it.isrlu(images(), 2.0))


def test_checkpointing() -> None:
    module = block()
    expected = gradients(module, module)
    run = lambda x: torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)  # noqa: E731
    for got, want in zip(gradients(run, module), expected, strict=True):
        torch.testing.assert_close(got, want)


def test_parameter_as_input() -> None:
    x = nn.Parameter(torch.tensor([-2.0, 1.0]))
    it.isrlu(x, 2.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([1 / 27, 1.0]))


def test_swap_by_class_with_a_factory_that_sees_the_old_module() -> None:
    model = nn.Sequential(nn.ELU(0.5), nn.Sequential(nn.ReLU(inplace=True), nn.ReLU6()), nn.ELU())
    model[2].eval()
    old = [model[0], model[2], model[1][0]]
    replaced = it.swap(model, {nn.ELU: lambda old: it.ISRLU(old.alpha), nn.ReLU: it.ISRLU})
    assert replaced == {"0": old[0], "2": old[1], "1.0": old[2]}
    assert model[0].alpha == 0.5 and type(model[1][0]) is it.ISRLU and type(model[1][1]) is nn.ReLU6
    assert model[0].training and not model[2].training


def test_swap_keeps_hooks_and_their_handles() -> None:
    model, calls = nn.Sequential(nn.ReLU()), []
    handle = model[0].register_forward_hook(lambda module, args, output: calls.append(type(module)))
    model[0].register_forward_pre_hook(lambda module, args, kwargs: calls.append("before"), with_kwargs=True)
    model[0].register_full_backward_hook(lambda module, grad_in, grad_out: calls.append("backward"))
    it.swap(model, {nn.ReLU: it.ISRLU})
    model(torch.ones(2, requires_grad=True)).sum().backward()
    assert calls == ["before", it.ISRLU, "backward"]
    handle.remove()
    model(torch.ones(2))
    assert calls[3:] == ["before"]


def test_swap_of_a_shared_module() -> None:
    shared = nn.ReLU()
    model = nn.ModuleDict({"a": shared, "b": nn.Sequential(shared)})
    assert list(it.swap(model, {nn.ReLU: it.ISRLU})) == ["a", "b.0"]
    assert model["a"] is model["b"][0] and type(model["a"]) is it.ISRLU


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act, self.fc = nn.ReLU(), nn.Linear(4, 4)


def test_swap_of_a_module_inside_another_that_is_swapped() -> None:
    model, x = nn.Sequential(Block(), nn.ReLU()), torch.randn(3, 4)
    fc, alphas = model[0].fc, iter([2.0, 3.0])
    rows = {Block: lambda old: nn.Sequential(old.act, old.fc), nn.ReLU: lambda old: it.ISRLU(next(alphas))}
    assert list(it.swap(model, rows)) == ["0", "0.act", "1"]
    torch.testing.assert_close(model(x), it.isrlu(fc(it.isrlu(x, 2.0)), 3.0))
    model = nn.Sequential(Block(), nn.ReLU())
    it.swap(model, {Block: lambda old: old.fc, nn.ReLU: it.ISRLU})
    assert [type(each) for each in model] == [nn.Linear, it.ISRLU]


def test_a_swap_that_fails_changes_nothing() -> None:
    model = nn.Sequential(nn.ReLU(), Block())
    before = dict(model.named_modules())
    with pytest.raises(ZeroDivisionError):
        it.swap(model, {nn.ReLU: it.ISRLU, Block: lambda old: 1 / 0})
    assert dict(model.named_modules()) == before


def test_swap_for_a_module_around_the_old_one_runs_its_hooks_once() -> None:
    model, calls = nn.Sequential(nn.ReLU()), []
    handle = model[0].register_forward_hook(lambda module, args, output: calls.append(type(module)))
    it.swap(model, {nn.ReLU: lambda old: nn.Sequential(old, it.ISRLU())})
    model(torch.ones(2))
    assert calls == [nn.Sequential]
    handle.remove()
    model(torch.ones(2))
    assert len(calls) == 1


def test_swap_leaves_the_hooks_of_the_new_module_as_they_are() -> None:
    """The old module has none."""
    model, calls, new = nn.Sequential(nn.ReLU()), [], it.ISRLU()
    handle = new.register_forward_hook(lambda module, args, output: calls.append("forward"))
    new.register_full_backward_hook(lambda module, grad_in, grad_out: calls.append("backward"))
    it.swap(model, {nn.ReLU: lambda old: new})
    model(torch.ones(2, requires_grad=True)).sum().backward()
    assert calls == ["forward", "backward"]
    handle.remove()
    model(torch.ones(2))
    assert len(calls) == 2


def test_swap_of_a_part_that_its_shared_owner_replaces_too() -> None:
    def wrap(old: Block) -> Block:
        old.act = nn.Sequential(old.act, nn.Identity())
        return old

    shared = Block()
    it.swap(nn.Sequential(shared, shared), {Block: wrap, nn.ReLU: it.ISRLU})
    assert [type(each) for each in shared.act] == [it.ISRLU, nn.Identity]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
def test_swap_in_a_transformer_whose_inference_is_fused() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation=nn.ReLU(), batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(3, 5, 8)
    padding = torch.arange(5) >= torch.tensor([[5], [3], [4]])  # with it, and no gradient, tensors are nested
    with torch.no_grad():
        before = model(x)
        model(x, src_key_padding_mask=padding)
    assert list(it.swap(model, {nn.ReLU: it.ISRLU})) == ["layers.0.activation", "layers.1.activation"]
    expected = model(x)  # with a gradient the layers go step by step
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
        padded = model(x, src_key_padding_mask=padding)
    torch.testing.assert_close(padded, model(x, src_key_padding_mask=padding))
    assert not torch.allclose(expected, before, atol=1e-3)


def test_swap_in_a_copy_of_a_transformer_layer() -> None:
    layer = nn.Sequential(nn.ReLU())
    layer.activation_relu_or_gelu = 1
    it.swap(layer, {nn.ReLU: it.ISRLU})
    assert layer.activation_relu_or_gelu == 0


@pytest.mark.parametrize(
    "module",
    [
        it.ISRLU(2.0),
        it.ISRU(learnable=True),
        it.ISRUSigmoid(method="approx"),
        it.SISRLU(),
        it.SISRLUDropout(0.3).eval(),
        it.FeatureSISRLUDropout(0.3).eval(),
    ],
    ids=repr,
)
def test_fx_traces_it(module: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(4, 4), module)
    traced = torch.fx.symbolic_trace(model)
    assert any(node.op == "call_function" and "isr" in node.name for node in traced.graph.nodes)
    x = torch.randn(3, 4)
    torch.testing.assert_close(traced(x), model(x))


def test_fx_computes_a_learned_alpha_in_its_own_dtype() -> None:
    module = it.ISRLU(3.3, learnable=True, dtype=torch.float64)
    x = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(torch.fx.symbolic_trace(module)(x), module(x), rtol=1e-15, atol=0)


def test_swap_says_that_it_found_nothing() -> None:
    with pytest.warns(UserWarning, match=r"nothing swapped: no ReLU or ELU among the modules \(Linear, Sequential\)"):
        assert it.swap(nn.Sequential(nn.Linear(1, 1)), {nn.ReLU: it.ISRLU, nn.ELU: it.ISRLU}) == {}
    with pytest.warns(UserWarning, match="nothing swapped: no replacements given"):
        assert it.swap(nn.Sequential(nn.Linear(1, 1)), {}) == {}


def test_register_adds_to_transformers() -> None:
    activations = pytest.importorskip("transformers.activations")
    it.register()
    assert isinstance(activations.ACT2FN["isrlu"], it.ISRLU) and isinstance(activations.ACT2FN["isru"], it.ISRU)
    assert isinstance(activations.get_activation("isrlu"), it.ISRLU)
