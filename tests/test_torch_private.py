"""The private names of PyTorch that isrlu.torch uses: each is there today, and can be missing."""

import importlib
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from isrlu import _core
from isrlu.torch import _private, isrlu
from isrlu.torch._autograd import KERNELS, Activation, by_formula, save

# One name is missing while isrlu.torch is imported. Values, gradients, in place, modules, swap and layers
# must be right all the same.
PROGRAM = """
import sys, torch
from torch import nn
from torch.autograd import forward_ad
owner, _, name = sys.argv[1].rpartition(".")
target = {"forward_ad": forward_ad}.get(owner, torch)
if target is torch:
    for part in owner.split("."):
        target = getattr(target, part)
value = getattr(target, name)
delattr(target, name)
import isrlu.torch
setattr(target, name, value)  # PyTorch uses some of them itself
from isrlu import _core
x = torch.randn(50, dtype=torch.float64, requires_grad=True)
y = isrlu.torch.isrlu(x, 3.0)
expected = torch.where(x >= 0, x, x / torch.sqrt(1 + 3.0 * x * x))
assert torch.allclose(y, expected, rtol=1e-14, atol=0)
(grad,) = torch.autograd.grad(y.sum(), x)
assert torch.allclose(grad, torch.autograd.grad(expected.sum(), x)[0], rtol=1e-12, atol=0)
z = x.detach().clone()
assert isrlu.torch.isrlu(z, 3.0, inplace=True) is z and torch.allclose(z, expected, rtol=1e-14, atol=0)
model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
seen = []
model[1].register_forward_hook(lambda *_: seen.append(1))
isrlu.torch.swap(model, {nn.ReLU: isrlu.torch.ISRLU})
model(torch.zeros(1, 2))
assert seen
output, _ = isrlu.torch.LSTM(3, 4)(torch.randn(5, 2, 3))
output.sum().backward()
print("kernels" if _core.are_plain(z) else "formula")
"""
DELETABLE = [path for path in _private.WATCHERS.values()] + [f"forward_ad.{name}" for name in _private.OF_FORWARD_AD]


def test_names_are_there() -> None:
    """In the PyTorch that is tested; where this fails, `_private` wants a look at what took their place."""
    assert all(_private.find(path) is not None for path in _private.WATCHERS.values())
    assert all(hasattr(Tensor, name) for name in _private.OF_TENSORS)
    assert all(hasattr(forward_ad, name) for name in _private.OF_FORWARD_AD)
    assert all(hasattr(nn.Module(), name) for name in _private.HOOKS)
    assert all(hasattr(torch.autograd.Function, name) for name in _private.OF_CONTEXTS)
    assert hasattr(torch.autograd.Function._backward_cls, "apply")
    assert _private.find("_C._functorch.get_dynamic_layer_stack_depth") is not None
    assert hasattr(importlib.import_module("torch.fx.experimental.symbolic_shapes"), "guard_or_false")
    assert _private.quick_apply(torch.autograd.Function) is not torch.autograd.Function.apply
    assert not _private.is_transformed()
    assert _private.find("_C.no_such_name.at_all") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", DELETABLE)
def test_a_missing_name_leaves_the_formula(name) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["formula"]


@pytest.mark.parametrize("name", _private.OF_TENSORS)
def test_a_missing_attribute_of_tensors_leaves_the_formula(name, monkeypatch) -> None:
    """Tensor's C type can't lose an attribute: `connect` is told of one more that it never had."""
    monkeypatch.setattr(_private, "OF_TENSORS", (name, f"{name}_of_a_later_pytorch"))
    assert not _private.connect(lambda *_: None)


@pytest.mark.slow
def test_nothing_missing_means_kernels() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "_C._tracer_warn_use_python"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["kernels"]


def test_without_the_library_there_is_one_thread(monkeypatch) -> None:
    assert _private._thread_pool() != 0
    monkeypatch.setattr(_private, "LIBRARIES", {sys.platform: "libtorch_of_another_layout.so"})
    assert _private._thread_pool() == 0


def test_a_missing_attribute_of_contexts_leaves_pytorch_s_calls(monkeypatch) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad + 0 * ctx.saved_tensors[0]

    own = Double.forward
    monkeypatch.setattr(_private, "OF_CONTEXTS", ("to_save_of_a_later_pytorch",))
    assert not _private.shorten(Double, lambda ctx, x: 3 * x, lambda node: Double.backward)
    assert Double.forward is own
    x = torch.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    monkeypatch.undo()
    assert _private.shorten(Double, lambda ctx, x: 3 * x, lambda node: Double.backward)
    y = Double.apply(x)
    assert y.tolist() == [3, 3] and y.grad_fn.apply.__func__ is Double.backward


def test_both_forwards_save_the_same() -> None:
    """The C++ forward that the autograd function takes, and the one in Python, which it takes if a name is missing."""
    assert Activation.forward is _core.save_activation
    kernel = KERNELS["isrlu"]["full"]
    for alpha in (2.0, torch.tensor([2.0], requires_grad=True)):
        for inplace in (False, True):
            found = []
            for forward in (_core.save_activation, save):

                class Function(torch.autograd.Function):
                    pass

                Function.forward, Function.backward = staticmethod(forward), staticmethod(Activation.backward)
                leaf = torch.linspace(-2, 2, 9, requires_grad=True)
                x = leaf * 1
                learned = isinstance(alpha, Tensor)
                call = kernel, None if learned else alpha, inplace
                y = Function.apply(x, (x if inplace else x.detach() / 2,), call, *([alpha] if learned else []))
                wanted = [leaf, alpha] if learned else [leaf]
                found.append([y.detach(), *torch.autograd.grad(y.sum(), wanted)])
            torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_nodes_of_the_autograd_function_are_applied_by_c() -> None:
    """With the formula where a gradient is differentiated again, and an error for a wrong number of gradients."""
    x = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
    node = isrlu(x, 2.0).grad_fn
    assert type(type(node).apply).__name__ == "method_descriptor"
    one = torch.ones_like(x).detach()
    with torch.no_grad():
        by_kernel = node.apply(one)
    differentiable = node.apply(one)
    assert by_kernel[0].grad_fn is None and differentiable[0].grad_fn is not None
    assert by_kernel[1:] == differentiable[1:] == by_formula(node, one)[1:] == (None, None)
    torch.testing.assert_close(*(found[0].detach() for found in (by_kernel, differentiable)))
    with pytest.raises(TypeError, match="one gradient"):
        node.apply()


def test_a_condition_on_sizes_without_the_private_name(monkeypatch) -> None:
    monkeypatch.setattr(_private, "find", lambda path: None)
    assert _private.is_known(torch.ones(3).numel() >= 3) is True
    assert _private.is_known(torch.ones(3).numel() >= 4) is False
