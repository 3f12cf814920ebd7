"""isrlu.torch.DyISRU and fit: a drop-in for nn.LayerNorm and nn.RMSNorm, and its calibration."""

import copy
import io
import math
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isrlu.torch import DyISRU, dyisru, fit, swap


def norm(kind: type[nn.Module] = nn.LayerNorm, size: int = 8, **keywords) -> nn.Module:
    made = kind(size, **keywords)
    torch.manual_seed(3)
    for parameter in made.parameters():
        nn.init.normal_(parameter, 1.0, 0.3)
    return made


def trained() -> tuple[nn.Module, list[Tensor]]:
    """A residual network with norms, and batches for it."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = norm(size=16), nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.linear(self.norm(x)).relu()

    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(8, 16), Block(), Block(), norm(size=16))
    return model, [3 * torch.randn(6, 5, 8) for _ in range(3)]


def test_parameters_and_defaults() -> None:
    layer = DyISRU((2, 4))
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {
        "weight": (2, 4),
        "bias": (2, 4),
        "alpha": (),
        "shift": (),
    }
    x = torch.randn(3, 2, 4)
    assert torch.equal(layer(x), dyisru(x, alpha=0.5))
    assert set(DyISRU(4, elementwise_affine=False).state_dict()) == {"alpha", "shift"}
    assert set(DyISRU(4, bias=False).state_dict()) == {"weight", "alpha", "shift"}
    assert DyISRU(4, dtype=torch.float64).alpha.dtype is torch.float64
    assert DyISRU(np.int64(4)).normalized_shape == DyISRU([np.int32(4)]).normalized_shape == (4,)


@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
def test_the_state_of_a_norm_loads(kind: type[nn.Module]) -> None:
    old, layer = norm(kind), DyISRU(8, alpha=0.25, shift=0.5)
    layer.load_state_dict(old.state_dict())
    assert torch.equal(layer.weight, old.weight)
    assert (layer.alpha.item(), layer.shift.item()) == (0.25, 0.5)
    nn.Sequential(layer).load_state_dict(nn.Sequential(old).state_dict())
    DyISRU(8, elementwise_affine=False).load_state_dict(nn.LayerNorm(8, elementwise_affine=False).state_dict())


def test_a_broken_state_does_not_load() -> None:
    state = DyISRU(8).state_dict()
    for missing in ("weight", "alpha", "shift", "bias"):
        with pytest.raises(RuntimeError, match=f'Missing key.*"{missing}"'):
            DyISRU(8).load_state_dict({name: value for name, value in state.items() if name != missing})
    with pytest.raises(RuntimeError, match="Missing key"):
        DyISRU(8).load_state_dict({})


@pytest.mark.parametrize("keywords", [{}, {"bias": False}, {"elementwise_affine": False}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_from_norm_takes_over_everything(keywords: dict, dtype: torch.dtype) -> None:
    old = norm(**keywords).to(dtype).eval()
    for parameter in old.parameters():
        parameter.requires_grad_(False)
    new = DyISRU.from_norm(old)
    assert new.normalized_shape == (8,)
    assert not new.training
    for name in ("weight", "bias"):
        before, after = getattr(old, name), getattr(new, name)
        assert (before is None) == (after is None)
        if before is not None:
            assert torch.equal(before, after)
            assert (after.dtype, after.requires_grad) == (dtype, False)
            assert after.data_ptr() != before.data_ptr()
    assert new.alpha.requires_grad


def test_from_norm_of_something_else() -> None:
    with pytest.raises(TypeError, match=r"from_norm takes an nn.LayerNorm or an nn.RMSNorm, got Linear"):
        DyISRU.from_norm(nn.Linear(2, 2))


def test_swap_and_the_old_norm_is_no_part_of_the_model() -> None:
    model = nn.Sequential(nn.Linear(8, 8), norm(), norm(nn.RMSNorm))
    old = swap(model, {nn.LayerNorm: DyISRU.from_norm, nn.RMSNorm: DyISRU.from_norm})
    assert [type(each).__name__ for each in model] == ["Linear", "DyISRU", "DyISRU"]
    assert model[1].old_norm is old["1"]
    assert not [name for name in model.state_dict() if "norm" in name]
    assert len(list(model[1].parameters())) == 4
    assert model[2].bias is None


def test_copies_and_pickles() -> None:
    layer = DyISRU.from_norm(norm())
    x = torch.randn(2, 8)
    stored = io.BytesIO()
    torch.save(layer, stored)
    stored.seek(0)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(stored, weights_only=False)):
        assert torch.equal(other(x), layer(x))
        assert other.alpha.data_ptr() != layer.alpha.data_ptr()


def test_errors_are_one_line() -> None:
    with pytest.raises(ValueError, match=r"x must be of shape \[\*, 8\], got \[2, 7\]"):
        DyISRU(8)(torch.ones(2, 7))
    with pytest.raises(ValueError, match=r"x must be of shape \[\*, 8\], got \[2, 7\]"):
        DyISRU(8, elementwise_affine=False)(torch.ones(2, 7))
    for wrong in ((), 64.0, None, (8, 2.0)):
        with pytest.raises(ValueError, match="normalized_shape must be an integer or a sequence of integers, at least"):
            DyISRU(wrong)
    with pytest.raises(ValueError, match="alpha must be a finite number, got nan"):
        DyISRU(8, alpha=float("nan"))


def test_reset_and_repr() -> None:
    layer = DyISRU(4, alpha=0.25)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(1)
    assert repr(layer) == "DyISRU((4,), alpha=1.25, shift=1, elementwise_affine=True, bias=True)"
    layer.reset_parameters()
    assert (layer.alpha.item(), layer.shift.item()) == (0.25, 0.0)
    assert torch.equal(layer.weight, torch.ones(4)) and torch.equal(layer.bias, torch.zeros(4))
    assert "alpha=0.25" in repr(DyISRU(4, alpha=0.25, device="meta"))


def test_fit_finds_the_parameters_of_the_same_function() -> None:
    layer, other = DyISRU.from_norm(norm()), DyISRU(8, alpha=0.9, shift=0.4)
    nn.init.normal_(other.weight, 2.0, 0.5)
    nn.init.normal_(other.bias)
    layer._norm = [other]
    x = 3 * torch.randn(400, 8)
    assert fit(nn.Sequential(layer), [x])["0"] > 0.999999
    torch.testing.assert_close(layer(x), other(x), rtol=1e-3, atol=1e-3)


def test_fit_brings_the_model_nearer_and_reports_r2() -> None:
    model, batches = trained()
    model.train()
    expected = model(batches[0])
    swap(model, {nn.LayerNorm: DyISRU.from_norm})
    before = (model(batches[0]) - expected).square().mean()
    found = fit(model, batches)
    after = (model(batches[0]) - expected).square().mean()
    assert set(found) == {"1.norm", "2.norm", "3"}
    assert all(0.8 < r2 < 1 for r2 in found.values())
    assert after < before / 4
    assert all(module.training for module in model.modules())
    assert model[3].old_norm is None


def test_r2_is_of_the_old_norms_outputs() -> None:
    model, batches = trained()
    targets = torch.cat([model(batch) for batch in batches]).flatten(0, 1)
    inputs = torch.cat([model[:3](batch) for batch in batches]).flatten(0, 1)
    swap(model, {nn.LayerNorm: DyISRU.from_norm})
    r2 = fit(model, batches)["3"]
    left = (model[3](inputs) - targets).square().sum() / (targets - targets.mean(0)).square().sum()
    assert r2 == pytest.approx(1 - left.item(), abs=1e-4)


@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("mean", [-100.0, -5.0, 0.6, 5.0, 1000.0])
def test_fit_to_inputs_far_from_0(kind: type[nn.Module], mean: float) -> None:
    """R^2 is the layer's own, and not one that rounding spoils."""
    model = nn.Sequential(nn.Identity(), norm(kind, 16))
    x = mean + torch.randn(512, 16)
    target = model(x).detach()
    swap(model, {kind: DyISRU.from_norm})
    r2 = fit(model, [x])["1"]
    left = (model(x) - target).square().sum() / (target - target.mean(0)).square().sum()
    assert r2 == pytest.approx(1 - left.item(), abs=1e-3)
    assert r2 > 0.88


@pytest.mark.parametrize("keywords", [{"bias": False}, {"elementwise_affine": False}])
def test_fit_without_weight_or_bias(keywords: dict) -> None:
    model = nn.Sequential(nn.LayerNorm(8, **keywords))
    swap(model, {nn.LayerNorm: DyISRU.from_norm})
    x = torch.randn(200, 8) + 0.5
    assert 0 < fit(model, [x])["0"] < 1


def test_batches_are_tensors_tuples_mappings_or_called() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm()

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.norm(a + b)

    a, b = torch.randn(2, 50, 8)
    results = []
    for batch, call in (((a, b), None), ({"a": a, "b": b}, None), (a, lambda model, each: model(each, b))):
        model = Sum()
        swap(model, {nn.LayerNorm: DyISRU.from_norm})
        results.append(fit(model, [batch], call=call))
    assert results[0] == results[1] == results[2]


def swapped(channels: int = 6) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, channels), nn.LayerNorm(channels))
    nn.init.uniform_(model[1].weight, 1.0, 2.0)
    swap(model, {nn.LayerNorm: DyISRU.from_norm})
    return model


@pytest.mark.parametrize("channels", [1, 6])
@pytest.mark.parametrize("batch", [torch.ones(1, 4), torch.ones(8, 4)], ids=["one row", "constant"])
def test_fit_keeps_the_weight_that_the_batches_do_not_determine(channels: int, batch: Tensor) -> None:
    model = swapped(channels)
    weight, expected = model[1].weight.detach().clone(), model[1].old_norm(model[0](batch))
    assert fit(model, [batch]) == {"1": 1.0}
    torch.testing.assert_close(model[1].weight.detach(), weight)
    torch.testing.assert_close(model(batch), expected)


def test_fit_keeps_the_weight_of_a_dead_channel() -> None:
    model = swapped()
    nn.init.zeros_(model[0].weight[2])
    weight = model[1].weight[2].item()
    fit(model, [torch.randn(64, 4)])
    assert model[1].weight[2] == weight != 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_fit_refuses_numbers_that_are_not_finite(bad: float) -> None:
    model = swapped()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="the norm of 1 has inputs or outputs that are not finite: leave out those"):
        fit(model, [torch.randn(8, 4), torch.full((8, 4), bad)])
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert model[1].old_norm is not None


def test_fit_after_the_model_was_converted() -> None:
    assert fit(swapped().double(), [torch.randn(64, 4, dtype=torch.float64)])["1"] > 0.5


def test_fit_of_a_norm_that_is_called_by_keyword() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.RMSNorm(4)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x=x)

    model = Model()
    swap(model, {nn.RMSNorm: DyISRU.from_norm})
    assert fit(model, [torch.randn(64, 4)])["norm"] > 0.5


def test_fit_errors() -> None:
    with pytest.raises(ValueError, match="no batch reached 1: fit needs at least one batch"):
        fit(swapped(), [torch.ones(0, 4)])
    with pytest.raises(ValueError, match="fit found no DyISRU layer that remembers its norm"):
        fit(nn.Sequential(DyISRU(8)), [torch.ones(2, 8)])
    model = nn.Sequential(DyISRU.from_norm(norm()))
    with pytest.raises(ValueError, match="no batch reached 0"):
        fit(model, [])


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_export_and_onnx(dtype: torch.dtype, alpha: float, tmp_path) -> None:
    layer = DyISRU.from_norm(norm().to(dtype), alpha, 0.75).eval()
    top = torch.finfo(dtype).max
    x = torch.tensor([[math.inf, -math.inf, math.nan, top, -top, top / 1e4, 0.0, -1.0]], dtype=dtype)
    program = torch.export.export(layer, (x,))
    torch.testing.assert_close(program.module()(x), layer(x), equal_nan=True)
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "layer.onnx"
    torch.onnx.export(layer, (x,), path, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(y), layer(x), equal_nan=True)
