"""`fold_alpha`: the same outputs with alpha = 1, and a line for every activation that is left alone."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from isrlu.torch import ISRLU, ISRU, fold_alpha  # noqa: E402


def per_channel(kind: type[nn.Module], count: int) -> nn.Module:
    module = kind(learnable=True, num_parameters=count)
    with torch.no_grad():
        module.log_alpha.copy_(torch.linspace(-1.5, 1.5, count))
    return module


class Net(nn.Module):
    """Two layers and an activation, called in the way of `call`."""

    def __init__(self, call: Callable[["Net", torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.a, self.act, self.b, self.c = nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4), nn.Linear(4, 4)
        self.call = call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(self, x)


class Untraceable(nn.Module):
    """A condition on values outside of a chain that can be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.chain = nn.Sequential(nn.Linear(4, 6), ISRU(0.5), nn.Linear(6, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.chain(x) if x.sum() > 1e9 else self.chain(x) + 1


def two_branches(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.act(net.a(x))
    return net.b(y) + net.c(y)


def by_name(net: Net, x: torch.Tensor) -> torch.Tensor:
    pooled = nn.functional.avg_pool1d(input=net.a(input=x), kernel_size=1)
    return net.b(input=net.act(x=pooled))


IMAGE, FLAT = (3, 4, 8, 8), (5, 4)
EXACT: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], list[str]]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(4, 6), ISRLU(3.0), nn.Linear(6, 2)), FLAT, ["1"]),
    "isru, two in a row": (
        lambda: nn.Sequential(nn.Linear(4, 6), ISRU(0.3), nn.Linear(6, 5, bias=False), ISRU(5.0), nn.Linear(5, 2)),
        FLAT,
        ["1", "3"],
    ),
    "conv, pools, flatten": (
        lambda: nn.Sequential(
            *(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), ISRLU(2.0, inplace=True), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 4, 2), nn.AvgPool2d(2), ISRLU(7.0), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 3)),
        ),
        IMAGE,
        ["2", "6"],
    ),
    "per channel, groups": (
        lambda: nn.Sequential(nn.Conv2d(4, 6, 3), per_channel(ISRLU, 6), nn.Conv2d(6, 4, 3, groups=2)),
        IMAGE,
        ["1"],
    ),
    "per channel, flattened": (
        lambda: nn.Sequential(nn.Conv2d(4, 6, 7), per_channel(ISRU, 6), nn.Flatten(), nn.Linear(24, 3)),
        IMAGE,
        ["1"],
    ),
    "one alpha, pooled features": (
        lambda: nn.Sequential(nn.Linear(4, 6), nn.AvgPool1d(2), ISRU(0.4), nn.MaxPool1d(2, 1), nn.Linear(2, 3)),
        FLAT,
        ["2"],
    ),
    "branches": (lambda: Net(two_branches), FLAT, ["act"]),
    "arguments by name": (lambda: Net(by_name), FLAT, ["act"]),
}


@pytest.mark.parametrize("name", EXACT)
def test_same_outputs(name: str) -> None:
    make, shape, folded = EXACT[name]
    torch.manual_seed(1)
    model = make().double().eval()
    x = 3 * torch.randn(shape, dtype=torch.float64)
    want = model(x)
    alphas = {name: model.get_submodule(name).alpha for name in folded}
    found = fold_alpha(model)
    assert list(found) == folded
    for each in folded:
        torch.testing.assert_close(torch.as_tensor(found[each]), torch.as_tensor(alphas[each]), rtol=0, atol=0)
        assert model.get_submodule(each).alpha == 1
    torch.testing.assert_close(model(x), want, rtol=1e-12, atol=1e-12)
    with warnings.catch_warnings(action="error"):
        assert fold_alpha(model) == {}  # nothing is left to fold


def test_weights_in_one_buffer() -> None:
    """The parts of a flat buffer share its storage, but no bytes."""
    model, x = nn.Sequential(nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4)), torch.randn(FLAT)
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    for parameter, part in zip(model.parameters(), flat.split([16, 4, 16, 4]), strict=True):
        parameter.data = part.view_as(parameter)
    want = model(x)
    assert fold_alpha(model) == {"1": 3.0}
    torch.testing.assert_close(model(x), want)


def test_part_of_a_model_that_cannot_be_traced() -> None:
    model, x = Untraceable(), torch.randn(FLAT)
    want = model(x)
    with pytest.warns(UserWarning, match="forward of Untraceable cannot be traced: it must call chain as a whole"):
        assert list(fold_alpha(model)) == ["chain.1"]
    torch.testing.assert_close(model(x), want)


def residual(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.act(net.a(x))
    return net.b(y) + y


def unused_output(net: Net, x: torch.Tensor) -> torch.Tensor:
    net.act(net.a(x))
    return net.b(x)


def shared_layer() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, ISRLU(3.0), layer)


def tied_weight() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


def transposed_weight() -> nn.Module:
    """The usual tied autoencoder: two parameters in the same memory."""
    model = nn.Sequential(nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4))
    model[2].weight = nn.Parameter(model[0].weight.data.t())
    return model


def buffered_weight() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4))
    model.register_buffer("first_rows", model[2].weight.data[:2])
    return model


def overlapping_arrays() -> nn.Module:
    """For PyTorch they are two storages."""
    rows = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
    model = nn.Sequential(nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4))
    model[0].weight, model[2].weight = (nn.Parameter(torch.from_numpy(each)) for each in (rows[:4], rows[2:]))
    return model


def hooked(at: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Identity(), ISRLU(3.0), nn.Dropout(0.0), nn.Flatten(), nn.Linear(4, 4))
    model[at].register_forward_hook(lambda module, given, result: result + 1)
    return model


def mixed(*before_and_after: nn.Module) -> nn.Module:
    """Channels are the last dim, over which a pool runs."""
    before, after = before_and_after
    return nn.Sequential(nn.Linear(4, 6), before, per_channel(ISRLU, 6), after, nn.Linear(6, 2))


def pool_of_flattened() -> nn.Module:
    front = nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Conv1d(2, 6, 1), per_channel(ISRLU, 6), nn.Flatten())
    return nn.Sequential(*front, nn.AvgPool1d(3, 1, 1), nn.Linear(12, 2))


class FlattenedBatch(nn.Module):
    """The last dim is as long as dim 1 has channels, but is not the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.act, self.b = nn.Conv1d(1, 4, 1), per_channel(ISRU, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.flatten(self.act(self.a(x[:, None])), end_dim=1))


def another_way_in_training(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.act(net.a(x))
    return net.b(y) * y.mean() if net.training else net.b(y)


def another_layer_in_training(net: Net, x: torch.Tensor) -> torch.Tensor:
    return (net.b if net.training else net.c)(net.act(net.a(x)))


def without_it_in_training(net: Net, x: torch.Tensor) -> torch.Tensor:
    return net.b(net.a(x)) if net.training else net.b(net.act(net.a(x)))


INEXACT: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "residual": (lambda: Net(residual), "its output goes to add, not to Linear or Conv alone"),
    "unused": (lambda: Net(unused_output), "nothing takes its output"),
    "shared": (shared_layer, "0 is used more than once"),
    "called twice": (lambda: Net(lambda net, x: net.b(net.b(net.act(net.a(x))))), "b is used more than once"),
    "weight taken": (
        lambda: Net(lambda net, x: net.b(net.act(net.a(x))) @ net.b.weight),
        "b is used more than once",
    ),
    "tied": (tied_weight, "0 is used more than once"),
    "tied by memory": (transposed_weight, "0 shares memory with another parameter or buffer"),
    "memory of a buffer": (buffered_weight, "2 shares memory with another parameter or buffer"),
    "memory of an array": (overlapping_arrays, "0 shares memory with another parameter or buffer"),
    **{f"hooks of {at}": (partial(hooked, at), f": {at} has hooks") for at in range(6)},
    "first": (lambda: nn.Sequential(ISRLU(3.0), nn.Linear(4, 4)), "its input comes from input_1, not from"),
    "last": (lambda: nn.Sequential(nn.Linear(4, 4), ISRU(3.0)), "its output goes to output, not to"),
    "norm": (
        lambda: nn.Sequential(nn.Linear(4, 4), ISRLU(3.0), nn.LayerNorm(4), nn.Linear(4, 4)),
        "goes to 2 (LayerNorm)",
    ),
    "channels are not its inputs": (
        lambda: nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 4, 1), per_channel(ISRLU, 4), nn.Linear(4, 4)),
        "the layer after it does not take its channels as inputs",
    ),
    "pool before": (lambda: mixed(nn.AvgPool1d(3, 1, 1), nn.Identity()), "1 (AvgPool1d) mixes its channels"),
    "pool after": (lambda: mixed(nn.Identity(), nn.MaxPool1d(3, 1, 1)), "3 (MaxPool1d) mixes its channels"),
    "pool of flattened": (pool_of_flattened, "4 (AvgPool1d) mixes its channels"),
    "flattened batch": (FlattenedBatch, "its output goes to flatten, not to"),
    "training: another way": (lambda: Net(another_way_in_training).eval(), "its output goes to mean, not to Linear or"),
    "training: another layer": (
        lambda: Net(another_layer_in_training),
        "in training and in eval mode it stands between",
    ),
    "training: without it": (lambda: Net(without_it_in_training), "the layers around it are used without it in"),
    "overflow": (
        lambda: nn.Sequential(nn.Linear(4, 4), ISRLU(1e80), nn.Linear(4, 4)),
        "the scaled weights do not fit into torch.float32",
    ),
    "underflow": (
        lambda: nn.Sequential(nn.Linear(4, 4), ISRLU(1e-84), nn.Linear(4, 4)),
        "the scaled weights do not fit into torch.float32",
    ),
    "zero": (lambda: nn.Sequential(nn.Linear(4, 4), ISRLU(0.0), nn.Linear(4, 4)), "alpha = 0 is the identity"),
}


@pytest.mark.parametrize("name", INEXACT)
def test_left_alone(name: str) -> None:
    make, reason = INEXACT[name]
    torch.manual_seed(1)
    model = make()
    x = torch.randn(FLAT)
    want, training = model(x), model.training
    with pytest.warns(UserWarning, match="fold_alpha leaves") as caught:
        assert fold_alpha(model) == {}
    assert model.training == training
    assert len(caught) == 1 and reason in str(caught[0].message) and "\n" not in str(caught[0].message)
    assert torch.equal(model(x), want)


@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize("place", [torch.device("meta"), FakeTensorMode()], ids=["meta", "fake"])
def test_weights_without_values_are_left_alone(place: AbstractContextManager, learnable: bool) -> None:
    with place:
        model = nn.Sequential(nn.Linear(4, 4), ISRLU(3.0, learnable=learnable), nn.Linear(4, 4))
    with pytest.warns(UserWarning, match="alpha has no values yet" if learnable else "the weight has no values yet"):
        assert fold_alpha(model) == {}
