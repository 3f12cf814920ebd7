"""`fit`: calibrate the DyISRU layers that replaced the norms of a trained model.

A layer y = weight f(alpha x + shift) + bias is fitted to the outputs t of the old norm. For given alpha and shift the
best weight and bias of each channel follow from a linear regression of t on f. That leaves two numbers to search, with
residuals that are smooth in both: Gauss-Newton steps with a damping factor (Levenberg-Marquardt), from several starts.
Inputs are divided by their standard deviation, so that the same starts do for every layer. The layer itself then
decides between their results, in its own dtype: far from 0 the curve is nearly flat, and a fit there has weights so
large that rounding spoils it.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from isrlu.torch._norm_module import DyISRU

ROWS = 4096  # kept of each layer: enough for two numbers for all, and two for each channel
STARTS = (0.25, 1.0)  # alpha times the standard deviation of the inputs
CENTERED = 0.5  # a mean above this many standard deviations gets more starts
STEPS = 20
SAME = 1e-12  # numbers in float64 that differ by less, relative to the largest one, count as the same


def fit(
    model: nn.Module, batches: Iterable[Any], *, call: Callable[[nn.Module, Any], Any] | None = None
) -> dict[str, float]:
    """Set alpha, shift, weight and bias of every layer made by `DyISRU.from_norm` to those nearest to the old norm.

    Nearest is least squares over the outputs on the batches. All layers are fitted to the original model: during the
    calibration every DyISRU layer returns what its old norm would, so a layer's inputs do not depend on the others.
    The layers then forget their norms. A few batches are enough: at most 4096 rows of each layer are kept.

    Args:
        model: a model whose norms were replaced: swap(model, {nn.LayerNorm: DyISRU.from_norm}).
        batches: inputs. A tensor is given to the model as it is, a tuple or list as its arguments, a mapping as its
            keyword arguments.
        call: how to run the model on a batch instead, called as call(model, batch).

    Returns:
        R^2 by the layer's name: 1 if its outputs are the old norm's, 0 if they are no nearer than each channel's mean.

    A parameter with requires_grad=False is set too. A layer without weight and bias gets only alpha and shift.
    A channel whose inputs are all the same keeps its weight, and gets a bias.
    """
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, DyISRU) and module.old_norm is not None
    }
    if not layers:
        raise ValueError(
            "fit found no DyISRU layer that remembers its norm: swap(model, {nn.LayerNorm: DyISRU.from_norm}), then fit"
        )
    samples = {
        name: [torch.cat(part) for part in zip(*kept, strict=True)]
        for name, kept in _collect(model, layers, batches, call or _call).items()
    }
    for name, parts in samples.items():
        if not parts or not len(parts[0]):
            raise ValueError(f"no batch reached {name}: fit needs at least one batch that runs every layer")
        if not all(part.isfinite().all() for part in parts):
            raise ValueError(f"the norm of {name} has inputs or outputs that are not finite: leave out those batches")
    found = {}
    for name, layer in layers.items():
        found[name] = _fit_layer(layer, *samples[name])
        layer.forget_norm()
    return found


def _call(model: nn.Module, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


def _collect(
    model: nn.Module, layers: dict[str, DyISRU], batches: Iterable[Any], call: Callable[[nn.Module, Any], Any]
) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """Inputs and outputs of the old norms, as rows in float64, on the model as it was."""
    samples: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in layers}
    batches = list(batches)
    share = max(1, ROWS // max(1, len(batches)))

    def replay(name: str) -> Callable[..., Tensor]:
        def hook(layer: DyISRU, args: tuple[Tensor, ...], kwargs: dict[str, Tensor], _: Tensor) -> Tensor:
            assert layer.old_norm is not None
            (given,) = (*args, *kwargs.values())
            norm = layer.old_norm.to(device=given.device, dtype=layer.alpha.dtype)  # the model may have moved since
            target = norm.forward(given)  # not __call__: `swap` gave it the same hooks
            size = layer.normalized_shape
            x, t = (each.detach().reshape(-1, *size) for each in (given, target))
            kept = torch.linspace(0, len(x) - 1, min(len(x), share), device=x.device).long()
            samples[name].append((x[kept].double().flatten(1), t[kept].double().flatten(1)))
            return target

        return hook

    training = [module for module in model.modules() if module.training]
    handles = [
        layer.register_forward_hook(replay(name), with_kwargs=True)  # type: ignore[arg-type]
        for name, layer in layers.items()
    ]
    try:
        model.eval()
        with torch.no_grad():
            for batch in batches:
                call(model, batch)
    finally:
        for handle in handles:
            handle.remove()
        for module in training:
            module.training = True
    return samples


def _fit_layer(layer: DyISRU, x: Tensor, target: Tensor) -> float:
    """Set the layer's parameters to the best fit of `target`, [rows, channels], and return its R^2."""
    scale = x.std() if x.numel() > 1 else x.new_zeros(())
    if not scale > SAME * x.abs().max():
        scale = torch.ones_like(scale)
    given = None if layer.weight is None else layer.weight.detach().double().flatten()
    problem = _Problem(x / scale, target, given, layer.bias is not None)
    inputs = x.to(layer.alpha.dtype).reshape(-1, *layer.normalized_shape)

    def set_parameters(alpha: Tensor, shift: Tensor) -> float:
        """The squared error of the layer, which computes in its own dtype."""
        weight, bias, _ = problem.regress(problem.unit(alpha, shift)[0])
        layer.alpha.fill_((alpha / scale).item())
        layer.shift.fill_(shift.item())
        for parameter, values in ((layer.weight, weight), (layer.bias, bias)):
            if parameter is not None:
                parameter.copy_(values.reshape(parameter.shape))
        error = (layer.forward(inputs).double().flatten(1) - target).square().sum().item()
        return error if math.isfinite(error) else math.inf

    with torch.no_grad():
        found = [problem.search(*start) for start in _starts(problem.x)]
        error = set_parameters(*min(found, key=lambda each: set_parameters(*each)))
    spread = (target - target.mean(0)).square().sum().item()
    rounding = (8 * torch.finfo(inputs.dtype).eps) ** 2 * target.square().sum().item()
    return 1.0 - error / spread if spread > rounding else float(error <= rounding)


def _starts(x: Tensor) -> list[tuple[float, float]]:
    """alpha and shift to start from, for inputs of standard deviation 1: u is of the order of 1.

    Inputs far from 0 also get starts whose u has mean 0, and starts for their root mean square.
    """
    starts = [(alpha, 0.0) for alpha in STARTS]
    mean = x.mean().item()
    if abs(mean) > CENTERED:
        size = math.sqrt(1 + mean * mean)
        starts += [(alpha, -alpha * mean) for alpha in STARTS] + [(alpha / size, 0.0) for alpha in STARTS]
    return starts


class _Problem:
    """min over alpha, shift of the squared error of `target`, the best weight and bias being taken for each.

    A channel whose inputs are all the same determines only one of weight and bias: it keeps the given weight.
    """

    def __init__(self, x: Tensor, target: Tensor, weight: Tensor | None, has_bias: bool) -> None:
        self.x, self.target, self.weight, self.has_bias = x, target, weight, has_bias

    def unit(self, alpha: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """f(u) and f'(u), u = alpha x + shift."""
        r = torch.rsqrt(1 + (alpha * self.x + shift).square())
        return (alpha * self.x + shift) * r, r * r * r

    def regress(self, f: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best weight and bias of each channel, and the residuals."""
        center = f.mean(0) if self.has_bias else torch.zeros_like(f[0])
        middle = self.target.mean(0) if self.has_bias else torch.zeros_like(f[0])
        weight = torch.ones_like(f[0])
        if self.weight is not None:
            spread = (f - center).square().sum(0)
            best = ((f - center) * (self.target - middle)).sum(0) / spread
            weight = torch.where(spread > SAME**2 * len(f), best, self.weight)
        bias = middle - weight * center
        return weight, bias, self.target - weight * f - bias

    def search(self, alpha: float, shift: float) -> tuple[Tensor, Tensor]:
        """alpha and shift at the end of damped Gauss-Newton steps from these."""
        at = self.x.new_tensor([alpha, shift])
        weight, _, residual = self.regress(self.unit(*at)[0])
        error, damping = residual.square().sum().item(), 1e-3
        for _ in range(STEPS):
            slope = self.unit(*at)[1] * weight
            columns = torch.stack([slope * self.x, slope])  # derivatives by alpha and shift, at fixed weight and bias
            if self.has_bias:
                columns = columns - columns.mean(1, keepdim=True)
            flat = columns.flatten(1)
            normal, gradient = flat @ flat.t(), flat @ residual.flatten()
            moved = False
            while damping < 1e6 and not moved:
                step = torch.linalg.solve(normal + damping * torch.diag(normal.diagonal() + 1e-30), gradient)
                trial = at + step
                new_weight, _, new_residual = self.regress(self.unit(*trial)[0])
                new_error = new_residual.square().sum().item()
                moved = new_error < error
                damping = damping / 5 if moved else damping * 5
            if not moved:
                break
            gain = error - new_error
            at, weight, residual, error = trial, new_weight, new_residual, new_error
            if gain < 1e-9 * error:
                break
        return at[0], at[1]
