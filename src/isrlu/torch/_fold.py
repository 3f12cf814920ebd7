"""`fold_alpha`: move alpha into the neighbouring weights, so that every activation has alpha = 1."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from isrlu.torch import _private
from isrlu.torch._modules import ISRLU, ISRU

ACTIVATIONS = (ISRLU, ISRU)
CONSUMERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
PRODUCERS = (*CONSUMERS, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
# These commute with a positive factor.
ELEMENTWISE = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, F.dropout)
# These too, and with one per channel, unless channels are the last dim.
POOLS = (
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
    *(F.max_pool1d, F.max_pool2d, F.avg_pool1d, F.avg_pool2d, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d),
    *(torch.max_pool1d, torch.max_pool2d),
)


class _NotExact(Exception):
    """Why an activation is left alone."""


def fold_alpha(model: nn.Module) -> dict[str, float | Tensor]:
    """isrlu(x; alpha) = isrlu(sqrt(alpha) x; 1) / sqrt(alpha): the factors go into the layers around, in place.

    Every `ISRLU` and `ISRU` between Linear, Conv or BatchNorm before it and Linear or Conv after it gets alpha = 1, and
    the model's outputs stay the same up to rounding, in training and in eval mode. Pooling, Flatten and Dropout may
    stand in between. A learnable alpha becomes a number. A learnable alpha per channel is folded for batches: next to
    Linear layers for 2-D inputs, next to Conv layers for inputs that have a batch dim. Shapes are not known here.

    Returns the folded alphas by the activations' names. Warns in one line for each activation that is left alone:
    where its input or output goes elsewhere too (residual connections), where a layer is shared, shares memory or has
    hooks, or where the scaled weights do not fit into their dtype. Where a model's forward cannot be traced but that
    of a part of it can, warns that the part must be called as a whole.

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
        graphs = [_Graph(model, root, training) for training in (True, False)]
        before = len(folded)
        for module in [each for each in left if any(graph.called[id(each)] for graph in graphs)]:
            try:
                folded[names[module]] = _fold(module, graphs)
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
    """Traces in training or in eval mode, and leaves the mode as it was."""

    def __init__(self, training: bool):
        super().__init__()
        self.training = training

    def trace(self, root: Any, *args: Any) -> fx.Graph:
        modes = {module: module.training for module in root.modules()}
        try:
            for module in modes:
                module.training = self.training
            return super().trace(root, *args)
        finally:
            for module, training in modes.items():
                module.training = training

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return type(module) in ACTIVATIONS or super().is_leaf_module(module, name)


def _traceable(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The module and its name, or, where its forward cannot be traced, those of its descendants whose forward can."""
    try:
        for training in (True, False):
            _Tracer(training).trace(module)
    except Exception:  # whatever a forward does with a proxy
        for attribute, child in module.named_children():
            yield from _traceable(child, f"{name}.{attribute}" if name else attribute)
    else:
        yield name, module


def _fold(activation: Any, graphs: Sequence["_Graph"]) -> float | Tensor:
    """Scale the layers around an activation. Returns its alpha. Raises _NotExact before anything is changed."""
    if activation.learnable:
        _check_values("alpha", activation.log_alpha)
    alpha = activation.alpha.detach().clone() if activation.learnable else activation.alpha
    factor = torch.as_tensor(alpha.cpu() if activation.learnable else alpha, dtype=torch.float64).sqrt().reshape(-1)
    if not factor.min() > 0:
        raise _NotExact("alpha = 0 is the identity")
    first, *others = (graph.around(activation, len(factor)) for graph in graphs if graph.called[id(activation)])
    layers = {id(layer) for layer in (first.producer, *first.consumers)}
    if any({id(layer) for layer in (other.producer, *other.consumers)} != layers for other in others):
        raise _NotExact("in training and in eval mode it stands between other layers")
    if any(graph.called[layer] for graph in graphs if not graph.called[id(activation)] for layer in layers):
        raise _NotExact("the layers around it are used without it in training or in eval mode")
    scaled = [(each, factor.reshape(-1, *[1] * (each.ndim - 1))) for each in first.parameters()]
    scaled += [(consumer.weight, 1 / _for_input(consumer, factor)) for consumer in first.consumers]
    products = [(each, _product(each, by)) for each, by in scaled]
    with torch.no_grad():
        for each, product in products:
            each.copy_(product)
    return alpha


def _has_values(tensor: Tensor) -> bool:
    return not (tensor.is_meta or _private.is_fake(tensor))


def _check_values(name: str, tensor: Tensor) -> None:
    if not _has_values(tensor):
        raise _NotExact(f"{name} has no values yet (device meta, or a fake tensor)")


def _product(weight: Tensor, factor: Tensor) -> Tensor:
    """weight * factor, in the dtype of weight, computed on the CPU: not every device has float64."""
    _check_values("the weight", weight)
    wanted = weight.detach().cpu().double() * factor
    product = wanted.to(weight.dtype)
    if not (product.double() - wanted).norm() <= torch.finfo(weight.dtype).eps * wanted.norm():
        raise _NotExact(f"the scaled weights do not fit into {weight.dtype}")
    return product


class _Around(NamedTuple):
    """The layer before an activation and the layers after it."""

    producer: Any
    consumers: list[Any]

    def parameters(self) -> list[Tensor]:
        """Of the producer: what is to be multiplied."""
        return [each for each in (self.producer.weight, self.producer.bias) if each is not None]


class _Graph:
    """The calls of a module, traced in one mode, and who else uses its layers."""

    def __init__(self, model: nn.Module, root: nn.Module, training: bool):
        self.nodes = _Tracer(training).trace(root).nodes
        self.modules = dict(root.named_modules())
        self.uses = Counter(id(module) for _, module in model.named_modules(remove_duplicate=False))
        self.uses.update(id(each) for _, each in model.named_parameters(remove_duplicate=False))
        parameters = dict(root.named_parameters(remove_duplicate=False))  # a forward may take one itself
        self.uses.update(id(parameters.get(str(node.target))) for node in self.nodes if node.op == "get_attr")
        self.called = Counter(id(self.modules[str(node.target)]) for node in self.nodes if node.op == "call_module")
        tensors = {id(each): each for each in (*model.parameters(), *model.buffers())}
        self.memory = {key: place for key, each in tensors.items() if (place := _memory(each))}

    def around(self, activation: nn.Module, channels: int) -> _Around:
        """What to scale for an activation with so many alphas. Raises _NotExact if scaling is not enough."""
        (node, *_) = (n for n in self.nodes if self._kind(n) and self.modules[str(n.target)] is activation)
        self._only_here(node)
        producer, pool = self._producer(node.all_input_nodes[0])
        if channels not in (1, len(producer.weight)):
            raise _NotExact(f"{channels} alphas do not match the {len(producer.weight)} channels before it")
        # Channels are in dim 1 of what Conv makes, and in the last dim of what Linear takes.
        last = channels > 1 and isinstance(producer, nn.Linear)
        if last and pool:
            raise _NotExact(f"{self._name(pool)} mixes its channels")
        found = list(self._consumers(node, last, channels > 1))
        if not found:
            raise _NotExact("nothing takes its output")
        if channels > 1 and any(isinstance(consumer, nn.Linear) != last for consumer, last in found):
            raise _NotExact("the layer after it does not take its channels as inputs")
        return _Around(producer, [consumer for consumer, _ in found])

    def _only_here(self, node: fx.Node) -> Any:
        module = self.modules[str(node.target)]
        if self.called[id(module)] > 1 or any(self.uses[id(each)] > 1 for each in (module, *module.parameters())):
            raise _NotExact(f"{node.target} is used more than once")
        if any(self._shares_memory(each) for each in module.parameters()):
            raise _NotExact(f"{node.target} shares memory with another parameter or buffer")
        self._without_hooks(node)
        return module

    def _shares_memory(self, parameter: Tensor) -> bool:
        """Whether another tensor of the model lies in the same bytes: the weight of a tied decoder, for example."""
        place = self.memory.get(id(parameter))
        if place is None:
            return False
        start, stop = place
        others = (each for key, each in self.memory.items() if key != id(parameter))
        return any(start < its_stop and its_start < stop for its_start, its_stop in others)

    def _without_hooks(self, node: fx.Node) -> None:
        """A hook may change the values that pass, or take them."""
        module = self.modules[str(node.target)]
        if module._forward_hooks or module._forward_pre_hooks:
            raise _NotExact(f"{node.target} has hooks")

    def _kind(self, node: fx.Node) -> type | None:
        return type(self.modules[str(node.target)]) if node.op == "call_module" else None

    def _name(self, node: fx.Node) -> str:
        kind = self._kind(node)
        return f"{node.target} ({kind.__name__})" if kind else node.name

    def _is_one_of(self, node: fx.Node, known: tuple[Any, ...]) -> bool:
        if self._kind(node) in known:
            self._without_hooks(node)
            return True
        return node.op == "call_function" and node.target in known

    def _flattens(self, node: fx.Node) -> bool:
        if self._kind(node) is nn.Flatten:
            self._without_hooks(node)
            module: Any = self.modules[str(node.target)]
            return (module.start_dim, module.end_dim) == (1, -1)
        dims = dict(zip(("start_dim", "end_dim"), node.args[1:], strict=False)) | node.kwargs
        return node.target in (torch.flatten, "flatten") and dims in ({"start_dim": 1}, {"start_dim": 1, "end_dim": -1})

    def _producer(self, node: Any) -> tuple[Any, fx.Node | None]:
        """The layer whose output reaches the activation alone, and a pool in between."""
        pool = None
        while len(node.users) == 1 and self._is_one_of(node, (*ELEMENTWISE, *POOLS)):
            pool = node if self._is_one_of(node, POOLS) else pool
            node = node.all_input_nodes[0]
        if len(node.users) > 1:
            raise _NotExact(f"the output of {node.target} goes elsewhere too")
        if self._kind(node) not in PRODUCERS or self.modules[str(node.target)].weight is None:
            raise _NotExact(f"its input comes from {self._name(node)}, not from Linear, Conv or BatchNorm with weights")
        return self._only_here(node), pool

    def _consumers(self, node: fx.Node, last: bool, several: bool) -> Iterator[tuple[Any, bool]]:
        """The layers that take the activation's output, and whether channels are the last dim of what they take.

        last: whether they are here. several: whether the channels have several factors.
        """
        for user in node.users:
            if self._kind(user) in CONSUMERS:
                yield self._only_here(user), last
            elif self._flattens(user):
                yield from self._consumers(user, True, several)
            elif several and last and self._is_one_of(user, POOLS):
                raise _NotExact(f"{self._name(user)} mixes its channels")
            elif self._is_one_of(user, (*ELEMENTWISE, *POOLS)):
                yield from self._consumers(user, last, several)
            else:
                raise _NotExact(f"its output goes to {self._name(user)}, not to Linear or Conv alone")


def _memory(tensor: Tensor) -> tuple[int, int] | None:
    """The addresses of its first byte and of the one after its last; None if it has no memory (yet)."""
    if not _has_values(tensor):
        return None
    try:
        first, size = tensor.data_ptr(), tensor.element_size()
    except (RuntimeError, ValueError):  # a sparse tensor; a parameter of a lazy module
        return None
    if not first or not tensor.numel():
        return None
    last = sum((count - 1) * stride for count, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (last + 1) * size


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
