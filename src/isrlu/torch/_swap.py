"""`swap`: replace the activation modules of an existing model."""

import warnings
from collections.abc import Callable, Mapping

from torch import nn

from isrlu.torch._private import move_hooks

Factory = type[nn.Module] | Callable[[nn.Module], nn.Module]


def swap(model: nn.Module, replacements: Mapping[type[nn.Module], Factory]) -> dict[str, nn.Module]:
    """Replace every module in `model` whose class is a key of `replacements`; return the old ones by qualified name.

    A value is a module class, which is called without arguments, or a function from the old module to the new one.
    Subclasses of a key are left alone. A module that stands in several places is replaced by one module in all of them.
    Hooks (with their handles) and training mode go over to the new module. Warns if there is nothing to replace.

    >>> from isrlu.torch import ISRLU
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    >>> swap(model, {nn.ReLU: lambda old: ISRLU(3.0, inplace=old.inplace)})
    {'1': ReLU(inplace=True)}
    >>> model[1]
    ISRLU(alpha=3.0, inplace=True)
    """
    for key in replacements:
        if not (isinstance(key, type) and issubclass(key, nn.Module)):
            raise TypeError(f"swap replaces modules by class: {key!r} is no module class")
    if type(model) in replacements:
        raise ValueError(f"the model itself is the {type(model).__name__} to replace: swap works on what contains it")
    found = {
        name: module for name, module in model.named_modules(remove_duplicate=False) if type(module) in replacements
    }
    if not found:
        warnings.warn(_nothing_found(model, replacements), stacklevel=2)
        return {}
    made = {module: _make(replacements[type(module)], module) for module in dict.fromkeys(found.values())}
    owners = set()
    for name, old in found.items():
        parent, _, attribute = name.rpartition(".")
        owner = model.get_submodule(parent)
        setattr(owner, attribute, made[old])
        owners.add(owner)
    _leave_fused_transformers(model, owners)
    for old, new in made.items():
        _take_over(old, new)
    return found


def _leave_fused_transformers(model: nn.Module, changed: set[nn.Module]) -> None:
    """The fused way of nn.TransformerEncoder (and of copies of it), and its nested tensors, know only ReLU and GELU."""
    for layer in changed:
        if hasattr(layer, "activation_relu_or_gelu"):
            layer.activation_relu_or_gelu = 0  # type: ignore[assignment]
    for encoder in model.modules():
        if hasattr(encoder, "use_nested_tensor") and not changed.isdisjoint(encoder.modules()):
            encoder.use_nested_tensor = False  # type: ignore[assignment]


def _make(factory: Factory, old: nn.Module) -> nn.Module:
    new = factory() if isinstance(factory, type) else factory(old)
    if not isinstance(new, nn.Module):
        raise TypeError(f"the replacement for {type(old).__name__} must be a module, got {type(new).__name__}")
    return new


def _take_over(old: nn.Module, new: nn.Module) -> None:
    """Hooks and training mode."""
    if new is not old:
        move_hooks(old, new)
        new.train(old.training)


def _nothing_found(model: nn.Module, replacements: Mapping[type[nn.Module], Factory]) -> str:
    wanted = " or ".join(key.__name__ for key in replacements) or "nothing asked for"
    present = ", ".join(sorted({type(module).__name__ for module in model.modules()}))
    return f"nothing swapped: no {wanted} among the modules ({present}); calls like F.relu(x) are no modules"
