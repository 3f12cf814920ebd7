"""`fold_alpha`: the same outputs with alpha = 1, and a line for every activation that is left alone."""

import warnings
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from isrlu.torch import ISRLU, ISRU, fold_alpha  # noqa: E402


def per_channel(kind: type[nn.Module], count: int) -> nn.Module:
    module = kind(learnable=True, num_parameters=count)
    with torch.no_grad():
        module.log_alpha.copy_(torch.linspace(-1.5, 1.5, count))
    return module


class Branches(nn.Module):
    """The activation's output goes to two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.left, self.right = nn.Linear(4, 6), ISRLU(3.0), nn.Linear(6, 2), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.first(x))
        return self.left(y) + self.right(y)


class Untraceable(nn.Module):
    """A condition on values outside of a chain that can be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.chain = nn.Sequential(nn.Linear(4, 6), ISRU(0.5), nn.Linear(6, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.chain(x) if x.sum() > 1e9 else self.chain(x) + 1


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
    "branches": (Branches, FLAT, ["act"]),
    "part of it": (Untraceable, FLAT, ["chain.1"]),
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


def residual() -> nn.Module:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.act, self.b = nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.act(self.a(x))
            return self.b(y) + y

    return Residual()


def shared_layer() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, ISRLU(3.0), layer)


def called_twice() -> nn.Module:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.act, self.b = nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.b(self.act(self.a(x))))

    return Twice()


def tied_weight() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), ISRLU(3.0), nn.Linear(4, 4))
    model[0].register_forward_hook(lambda *_: None)
    return model


INEXACT: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "residual": (residual, "its output goes to add, which has no weights to scale"),
    "shared": (shared_layer, "0 is used more than once"),
    "called twice": (called_twice, "b is used more than once"),
    "tied": (tied_weight, "0 is used more than once"),
    "hooks": (hooked, "0 has hooks"),
    "first": (lambda: nn.Sequential(ISRLU(3.0), nn.Linear(4, 4)), "its input comes from input_1, which has no weights"),
    "last": (lambda: nn.Sequential(nn.Linear(4, 4), ISRU(3.0)), "its output goes to output, which has no weights"),
    "norm": (lambda: nn.Sequential(nn.Linear(4, 4), ISRLU(3.0), nn.LayerNorm(4), nn.Linear(4, 4)), "goes to _2"),
    "channels are not its inputs": (
        lambda: nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 4, 1), per_channel(ISRLU, 4), nn.Linear(4, 4)),
        "the layer after it does not take its channels as inputs",
    ),
    "zero": (lambda: nn.Sequential(nn.Linear(4, 4), ISRLU(0.0), nn.Linear(4, 4)), "alpha = 0 is the identity"),
}


@pytest.mark.parametrize("name", INEXACT)
def test_left_alone(name: str) -> None:
    make, reason = INEXACT[name]
    torch.manual_seed(1)
    model = make()
    x = torch.randn(FLAT)
    want = model(x)
    with pytest.warns(UserWarning, match="fold_alpha leaves") as caught:
        assert fold_alpha(model) == {}
    assert len(caught) == 1 and reason in str(caught[0].message) and "\n" not in str(caught[0].message)
    assert torch.equal(model(x), want)
