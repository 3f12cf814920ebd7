"""The two networks against the paper's section 4 and the protocol's padding, start values and dropout."""

import numpy as np
import pytest
import torch
from torch import nn

from isrlu_lab.errors import UserError
from isrlu_lab.training.mnist import networks

SHAPES = {
    1: [(6, 28, 28), (12, 14, 14), (24, 7, 7), (1176,)],
    2: [(64, 28, 28), (64, 28, 28), (64, 14, 14), (64, 14, 14), (512,)],
}
CONVOLUTIONS = {1: [(6, 1, 6, 6), (12, 6, 5, 5), (24, 12, 4, 4)], 2: [(64, 1, 3, 3), *[(64, 64, 3, 3)] * 3]}


@pytest.mark.parametrize("architecture", [1, 2])
@pytest.mark.parametrize("activation", ["isrlu", "elu", "relu"])
def test_layers_are_the_papers(architecture: int, activation: str) -> None:
    network = networks.build(architecture, activation, seed=0)
    images = torch.rand(2, 1, 28, 28)
    assert network(images).shape == (2, 10)
    assert [tuple(each.shape[1:]) for each in networks.hidden_activations(network, images)] == SHAPES[architecture]
    filters = [tuple(m.weight.shape) for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert filters == CONVOLUTIONS[architecture]


@pytest.mark.parametrize(("kernel", "stride"), [(6, 1), (5, 2), (4, 2), (3, 1)])
def test_padding_is_tensorflows_same(kernel: int, stride: int) -> None:
    """out[i] = sum_k w[k] x[stride i + k - before], before = floor(total / 2), total = kernel - stride."""
    torch.manual_seed(0)
    convolution = networks._convolution(1, 1, kernel, stride=stride)
    (conv,) = [each for each in convolution.modules() if isinstance(each, nn.Conv2d)]
    image = torch.randn(28, 28, dtype=torch.float64)
    weight = conv.weight[0, 0].detach().double().numpy()
    before, size = (kernel - stride) // 2, 28 // stride
    padded = np.pad(image.numpy(), (before, kernel))
    expected = np.array(
        [
            [
                (weight * padded[stride * i : stride * i + kernel, stride * j : stride * j + kernel]).sum()
                for j in range(size)
            ]
            for i in range(size)
        ]
    )
    found = convolution.double()(image[None, None])[0, 0].detach().numpy() - conv.bias.item()
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("architecture", [1, 2])
def test_start_values(architecture: int) -> None:
    network = networks.build(architecture, "relu", seed=3)
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            assert (module.bias == 0.1).all()
            assert module.weight.abs().max() <= 0.2
    (dense, *_) = [module for module in network if isinstance(module, nn.Linear)]
    assert dense.weight.std().item() == pytest.approx(0.1 * 0.8796, rel=0.01)  # of a normal cut at two deviations
    again, other = (networks.build(architecture, "relu", seed=seed) for seed in (3, 4))
    same = [torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(next(network.parameters()), next(other.parameters()))


def test_weights_do_not_depend_on_the_activation() -> None:
    first, second = (networks.build(1, activation, seed=1) for activation in ("elu", "relu"))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_dropout_keeps_with_pkeep() -> None:
    torch.manual_seed(0)
    network = networks.build(2, "relu", pkeep=0.4, pkeep_conv=0.7)
    dropouts = [module for module in network if isinstance(module, nn.Dropout)]
    kept = [(each(torch.ones(100_000)) > 0).double().mean().item() for each in dropouts]
    assert kept == pytest.approx([0.7, 0.7, 0.4], abs=0.01)
    assert not any(isinstance(module, nn.Dropout) for module in networks.build(1, "relu", pkeep=1.0))


def test_learnable_alpha_is_one_parameter_per_layer() -> None:
    network = networks.build(1, "isrlu", 3.0, learnable=True, pkeep=1.0)
    names = [name for name, parameter in network.named_parameters() if name.endswith("alpha")]
    assert len(names) == 4
    network.double()
    images = torch.rand(4, 1, 28, 28, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    loss = lambda: network(images).square().sum()  # noqa: E731
    loss().backward()
    step = 1e-5
    for name in names:
        parameter = network.get_parameter(name)
        with torch.no_grad():
            above = (parameter.add_(step), loss())[1]
            below = (parameter.sub_(2 * step), loss())[1]
            parameter.add_(step)
        quotient = (above - below).item() / (2 * step)  # whose own error is of the order of step^2
        assert parameter.grad.item() == pytest.approx(quotient, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": 3}, "unknown architecture 3: the paper has 1 and 2"),
        ({"activation": "swish"}, "unknown activation 'swish': known are isrlu, elu, relu"),
        ({"activation": "elu", "learnable": True}, "elu has no learnable alpha"),
        ({"pkeep": 0.0}, r"in \(0, 1\], got 0.0"),
        ({"pkeep": 1.1}, r"in \(0, 1\], got 1.1"),
        ({"architecture": 2, "pkeep_conv": -1.0}, r"in \(0, 1\], got -1.0"),
    ],
)
def test_mistakes_are_one_line(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        networks.build(**options)
