"""`swap`: replace the activation modules of an existing model."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping

from torch import nn

from isrlu.torch._private import move_hooks

Factory = type[nn.Module] | Callable[[nn.Module], nn.Module]


def swap(model: nn.Module, replacements: Mapping[type[nn.Module], Factory]) -> dict[str, nn.Module]:
    """Replace every module in `model` whose class is a key of `replacements`; return the old ones by qualified name.

    A value is a module class, which is called without arguments, or a function from the old module to the new one.
    Subclasses of a key are not replaced. A module used in several places is replaced by one new module in all of them.
    Where a module found is part of another one found, it is replaced first: the function for the outer one sees it so.
    The new module gets the old one's forward and backward hooks (with their handles) and training mode. Warns if
    nothing is found. If a replacement fails, the old modules are put back.

    >>> from isrlu.torch import ISRLU
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    >>> swap(model, {nn.ReLU: lambda old: ISRLU(3.0, inplace=old.inplace)})
    {'1': ReLU(inplace=True)}
    >>> model[1]
    ISRLU(alpha=3.0, inplace=True)
    """
    for key in replacements:
        if not (isinstance(key, type) and issubclass(key, nn.Module)):
            raise TypeError(f"swap replaces modules by class: {key!r} is not a module class")
    if type(model) in replacements:
        raise ValueError(f"the model itself is a {type(model).__name__}: give swap the module that contains it")
    found = {
        name: module for name, module in model.named_modules(remove_duplicate=False) if type(module) in replacements
    }
    if not found:
        warnings.warn(_nothing_found(model, replacements), stacklevel=2)
        return {}
    places = {name: (model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in found}
    made: dict[nn.Module, nn.Module] = {}
    filled: set[tuple[nn.Module, str]] = set()  # a module in several places has one place for each of its parts
    try:
        for name in _parts_first(found):
            old, place = found[name], places[name]
            if old not in made:
                made[old] = _make(replacements[type(old)], old)
            if place not in filled:
                setattr(*place, made[old])
                filled.add(place)
    except BaseException:
        for name, old in found.items():
            setattr(*places[name], old)
        raise
    _disable_fused_transformers(model, {owner for owner, _ in places.values()})
    for old, new in made.items():
        _move_hooks_and_mode(old, new)
    return found


def _parts_first(names: Iterable[str]) -> Iterator[str]:
    """The names of modules in the order of named_modules(), but each after those of its parts.

    >>> list(_parts_first(["a", "a.b", "a.b.c", "a.d", "e"]))
    ['a.b.c', 'a.b', 'a.d', 'a', 'e']
    """
    wholes: list[str] = []
    for name in names:
        while wholes and not name.startswith(f"{wholes[-1]}."):
            yield wholes.pop()
        wholes.append(name)
    yield from reversed(wholes)


def _disable_fused_transformers(model: nn.Module, changed: set[nn.Module]) -> None:
    """Turn off the fused path and nested tensors of nn.TransformerEncoder, which support only ReLU and GELU."""
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


def _move_hooks_and_mode(old: nn.Module, new: nn.Module) -> None:
    if new is not old:
        move_hooks(old, new)
        new.train(old.training)


def _nothing_found(model: nn.Module, replacements: Mapping[type[nn.Module], Factory]) -> str:
    if not replacements:
        return "nothing swapped: no replacements given"
    wanted = " or ".join(key.__name__ for key in replacements)
    present = ", ".join(sorted({type(module).__name__ for module in model.modules()}))
    return f"nothing swapped: no {wanted} among the modules ({present}); calls like F.relu(x) are not modules"
