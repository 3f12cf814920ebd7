"""`fold_alpha`: move alpha into the neighbouring weights, so that every activation has alpha = 1."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from isrlu.torch._modules import ISRLU, ISRU

ACTIVATIONS = (ISRLU, ISRU)
CONSUMERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
PRODUCERS = (*CONSUMERS, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
# These commute with a positive factor, one per channel too.
POOLS = (
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
    *(nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
)
POOL_FUNCTIONS = (
    *(F.max_pool1d, F.max_pool2d, F.avg_pool1d, F.avg_pool2d, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d),
    *(torch.max_pool1d, torch.max_pool2d, F.dropout),
)


class _NotExact(Exception):
    """Why an activation is left alone."""


def fold_alpha(model: nn.Module) -> dict[str, float | Tensor]:
    """isrlu(x; alpha) = isrlu(sqrt(alpha) x; 1) / sqrt(alpha): the factors go into the layers around, in place.

    Every `ISRLU` and `ISRU` between Linear, Conv or BatchNorm before it and Linear or Conv after it gets alpha = 1, and
    the model's outputs stay the same up to rounding. Pooling, Flatten and Dropout may stand in between. A learnable
    alpha becomes a number. A learnable alpha per channel next to Linear layers is folded for 2-D inputs.

    Returns the folded alphas by the activations' names. Warns in one line for each activation that is left alone:
    where its input or output goes elsewhere too (residual connections), or where a layer is shared or has hooks. Where
    a model's forward cannot be traced but that of a part of it can, warns that the part must be called as a whole.

    >>> model = nn.Sequential(nn.Linear(2, 3), ISRLU(4.0), nn.Linear(3, 1))
    >>> fold_alpha(model)
    {'1': 4.0}
    >>> model[1]
    ISRLU(alpha=1.0)
    """
    names = {module: name for name, module in model.named_modules() if type(module) in ACTIVATIONS}
    left = {module: "its place in the model cannot be traced" for module in names if not _is_one(module)}
    folded: dict[str, float | Tensor] = {}
    for part, root in _traceable(model):
        graph = _Graph(model, root)
        before = len(folded)
        for node, module in graph.calls(tuple(left)):
            try:
                folded[names[module]] = graph.fold(node)
            except _NotExact as reason:
                left[module] = str(reason)
            else:
                del left[module]
                owner, _, attribute = names[module].rpartition(".")
                new = type(module)(inplace=module.inplace, method=module.method).train(module.training)
                setattr(model.get_submodule(owner), attribute, new)
        if part and len(folded) > before:
            outside = f"the forward of {type(model).__name__} cannot be traced"
            warnings.warn(f"fold_alpha: {outside}: it must call {part} as a whole, not its layers", stacklevel=2)
    for module, why in left.items():
        warnings.warn(f"fold_alpha leaves {names[module]} ({module}) alone: {why}", stacklevel=2)
    return folded


def _is_one(module: Any) -> bool:
    return not module.learnable and module.alpha == 1


class _Tracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return type(module) in ACTIVATIONS or super().is_leaf_module(module, name)


def _traceable(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The module and its name, or, where its forward cannot be traced, those of its descendants whose forward can."""
    try:
        _Tracer().trace(module)
    except Exception:  # whatever a forward does with a proxy
        for attribute, child in module.named_children():
            yield from _traceable(child, f"{name}.{attribute}" if name else attribute)
    else:
        yield name, module


class _Graph:
    """The calls of a traced module, and who else uses its layers."""

    def __init__(self, model: nn.Module, root: nn.Module):
        self.nodes = _Tracer().trace(root).nodes
        self.modules = dict(root.named_modules())
        self.uses = Counter(id(module) for _, module in model.named_modules(remove_duplicate=False))
        self.uses.update(id(each) for _, each in model.named_parameters(remove_duplicate=False))
        parameters = dict(root.named_parameters(remove_duplicate=False))  # a forward may take one itself
        self.uses.update(id(parameters.get(str(node.target))) for node in self.nodes if node.op == "get_attr")
        self.called = Counter(id(self.modules[str(node.target)]) for node in self.nodes if node.op == "call_module")

    def calls(self, wanted: Sequence[nn.Module]) -> Iterator[tuple[fx.Node, Any]]:
        for node in self.nodes:
            if node.op == "call_module" and self.modules[str(node.target)] in wanted:
                yield node, self.modules[str(node.target)]

    def fold(self, node: fx.Node) -> float | Tensor:
        """Scale the layers around an activation. Returns its alpha. Raises _NotExact before anything is changed."""
        activation = self._only_here(node)
        alpha = activation.alpha.detach().clone() if activation.learnable else activation.alpha
        factor = torch.as_tensor(alpha, dtype=torch.float64).sqrt().reshape(-1)
        if not factor.min() > 0:
            raise _NotExact("alpha = 0 is the identity")
        producer = self._producer(node.all_input_nodes[0])
        if len(factor) not in (1, len(producer.weight)):
            raise _NotExact(f"{len(factor)} alphas do not match the {len(producer.weight)} channels before it")
        found = list(self._consumers(node))
        if not found:
            raise _NotExact("nothing takes its output")
        consumers, flattened = zip(*found, strict=True)
        if len(factor) > 1:
            # Channels are in dim 1 of what Conv makes, and in the last dim of what Linear takes.
            flat = isinstance(producer, nn.Linear)
            if any(isinstance(c, nn.Linear) != (flat or f) for c, f in zip(consumers, flattened, strict=True)):
                raise _NotExact("the layer after it does not take its channels as inputs")
        scales = [1 / _for_input(consumer, factor) for consumer in consumers]
        with torch.no_grad():
            for each in (producer.weight, producer.bias):
                if each is not None:
                    each.copy_(each.double() * factor.to(each.device).reshape(-1, *[1] * (each.ndim - 1)))
            for consumer, scale in zip(consumers, scales, strict=True):
                consumer.weight.copy_(consumer.weight.double() * scale.to(consumer.weight.device))
        return alpha

    def _only_here(self, node: fx.Node) -> Any:
        module = self.modules[str(node.target)]
        if self.called[id(module)] > 1 or any(self.uses[id(each)] > 1 for each in (module, *module.parameters())):
            raise _NotExact(f"{node.target} is used more than once")
        if module._forward_hooks or module._forward_pre_hooks:
            raise _NotExact(f"{node.target} has hooks")
        return module

    def _kind(self, node: fx.Node) -> type | None:
        return type(self.modules[str(node.target)]) if node.op == "call_module" else None

    def _name(self, node: fx.Node) -> str:
        kind = self._kind(node)
        return f"{node.target} ({kind.__name__})" if kind else node.name

    def _commutes(self, node: fx.Node) -> bool:
        return self._kind(node) in POOLS or (node.op == "call_function" and node.target in POOL_FUNCTIONS)

    def _flattens(self, node: fx.Node) -> bool:
        if self._kind(node) is nn.Flatten:
            module: Any = self.modules[str(node.target)]
            return (module.start_dim, module.end_dim) == (1, -1)
        return node.target in (torch.flatten, "flatten") and (*node.args[1:], *node.kwargs.values()) == (1,)

    def _producer(self, node: Any) -> Any:
        """The layer whose output reaches the activation alone."""
        while len(node.users) == 1 and self._commutes(node):
            node = node.all_input_nodes[0]
        if len(node.users) > 1:
            raise _NotExact(f"the output of {node.target} goes elsewhere too")
        if self._kind(node) not in PRODUCERS or self.modules[str(node.target)].weight is None:
            raise _NotExact(f"its input comes from {self._name(node)}, not from Linear, Conv or BatchNorm with weights")
        return self._only_here(node)

    def _consumers(self, node: fx.Node, flattened: bool = False) -> Iterator[tuple[Any, bool]]:
        """The layers that take the activation's output, and whether all dims from 1 on have been made one before."""
        for user in node.users:
            if self._kind(user) in CONSUMERS:
                yield self._only_here(user), flattened
            elif self._commutes(user) or self._flattens(user):
                yield from self._consumers(user, flattened or self._flattens(user))
            else:
                raise _NotExact(f"its output goes to {self._name(user)}, not to Linear or Conv alone")


def _for_input(layer: Any, factor: Tensor) -> Tensor:
    """One factor, or one per channel, in the shape of the layer's weight: [out, in / groups, ...]."""
    if len(factor) == 1:
        return factor
    out, inputs, *kernel = layer.weight.shape
    groups = getattr(layer, "groups", 1)
    if inputs * groups % len(factor):
        raise _NotExact(f"{len(factor)} alphas do not match the {inputs * groups} inputs of the layer after it")
    factor = factor.repeat_interleave(inputs * groups // len(factor))  # a flattened channel is a run of inputs
    factor = factor.reshape(groups, 1, inputs).expand(groups, out // groups, inputs)
    return factor.reshape(out, inputs, *[1] * len(kernel))
