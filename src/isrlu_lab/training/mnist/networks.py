"""The paper's two convolutional networks (section 4), in plain PyTorch.

Architecture 1 (table 4)                                    Architecture 2 (table 5)
    28x28x1   input                                             28x28x1   input
    28x28x6   convolution 6x6, activation                       28x28x64  convolution 3x3, activation, twice
    14x14x12  convolution 5x5, stride 2, activation             14x14x64  max-pool 2x2, dropout
    7x7x24    convolution 4x4, stride 2, activation             14x14x64  convolution 3x3, activation, twice
    1176      dense (width 1176 or 200), activation, dropout    7x7x64    max-pool 2x2, dropout
    10        logits                                            512       dense, activation, dropout
                                                                10        logits

Weights start at a normal of deviation 0.1 truncated at two deviations, biases at 0.1. `pkeep` is the probability of
keeping a unit, as in the paper; torch's dropout takes the probability of dropping it.
"""

import itertools

import torch
from torch import Tensor, nn

from isrlu._checks import check_alpha, check_method
from isrlu_lab.errors import UserError
from isrlu_lab.training.mnist.mnist_spec import ACTIVATIONS, ARCHITECTURES


def build(
    architecture: int = 1,
    activation: str = "isrlu",
    alpha: float = 1.0,
    *,
    learnable: bool = False,
    method: str = "full",
    width: int | None = None,
    pkeep: float = 1.0,
    pkeep_conv: float = 1.0,
    seed: int | None = None,
) -> nn.Sequential:
    """The network `architecture` (1 or 2) with its initial weights, from images [n, 1, 28, 28] to logits [n, 10].

    alpha: of ISRLU (with `learnable`, its start, one per layer) or ELU. method: ISRLU's inverse square root. width: of
    the dense layer, the paper's if None. pkeep: dropout after the dense layer; pkeep_conv: after each max-pool
    (architecture 2 alone has them). seed: of the weights; None takes them from torch's global generator.

    >>> sum(parameter.numel() for parameter in build(1, "relu", width=200).parameters())
    244076
    """
    act = lambda: make_activation(activation, alpha, learnable=learnable, method=method)  # noqa: E731
    if width is None:
        width = ARCHITECTURES.get(architecture, 0)
    if architecture == 1:
        layers = [
            *(_convolution(1, 6, 6), act()),
            *(_convolution(6, 12, 5, stride=2), act()),
            *(_convolution(12, 24, 4, stride=2), act()),
            *(nn.Flatten(), nn.Linear(7 * 7 * 24, width), act(), _dropout(pkeep)),
            nn.Linear(width, 10),
        ]
    elif architecture == 2:
        layers = [
            *(_convolution(1, 64, 3), act()),
            *(_convolution(64, 64, 3), act(), nn.MaxPool2d(2), _dropout(pkeep_conv)),
            *(_convolution(64, 64, 3), act()),
            *(_convolution(64, 64, 3), act(), nn.MaxPool2d(2), _dropout(pkeep_conv)),
            *(nn.Flatten(), nn.Linear(7 * 7 * 64, width), act(), _dropout(pkeep)),
            nn.Linear(width, 10),
        ]
    else:
        raise UserError(f"unknown architecture {architecture!r}: the paper has 1 and 2")
    return _initialise(nn.Sequential(*layers), seed)


def make_activation(name: str, alpha: float = 1.0, *, learnable: bool = False, method: str = "full") -> nn.Module:
    """A new activation module by its name; ELU and ReLU are torch's own, in place.

    ISRLU is not: in place it is some 5 % faster, but its gradient comes from the output, with fewer digits.
    """
    check_alpha(alpha)
    check_method(method)
    if learnable and name != "isrlu":
        raise UserError(f"{name} has no learnable alpha: only isrlu has")
    if name == "isrlu":
        from isrlu.torch import ISRLU

        return ISRLU(alpha, learnable=learnable, method=method)
    if name == "elu":
        return nn.ELU(alpha, inplace=True)
    if name == "relu":
        return nn.ReLU(inplace=True)
    raise UserError(f"unknown activation {name!r}: known are {', '.join(ACTIVATIONS)}")


@torch.no_grad()
def hidden_activations(network: nn.Sequential, images: Tensor) -> list[Tensor]:
    """The outputs of the hidden layers (after their activation, before dropout), first layer first."""
    outputs: list[Tensor] = []
    for before, layer in itertools.pairwise([None, *network]):
        images = layer(images)
        if isinstance(before, (nn.Conv2d, nn.Linear, nn.Sequential)):  # each is followed by its activation
            outputs.append(images)
    return outputs


class _Same(nn.ZeroPad2d):
    """TensorFlow's SAME padding, which puts the odd pixel at the right and the bottom; torch's Conv2d can't."""

    def __init__(self, kernel: int, stride: int) -> None:
        total = kernel - stride  # for a size that the stride divides, as all are here
        super().__init__((total // 2, total - total // 2) * 2)


def _convolution(inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> nn.Module:
    if (kernel - stride) % 2 == 0:
        return nn.Conv2d(inputs, outputs, kernel, stride, padding=(kernel - stride) // 2)
    return nn.Sequential(_Same(kernel, stride), nn.Conv2d(inputs, outputs, kernel, stride))


def _dropout(pkeep: float) -> nn.Module:
    if not 0.0 < pkeep <= 1.0:
        raise UserError(f"pkeep is the probability of keeping a unit, in (0, 1], got {pkeep!r}")
    return nn.Dropout(1.0 - pkeep) if pkeep < 1.0 else nn.Identity()


def _initialise(network: nn.Sequential, seed: int | None) -> nn.Sequential:
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(module.weight, std=0.1, a=-0.2, b=0.2, generator=generator)
            nn.init.constant_(module.bias, 0.1)  # type: ignore[arg-type]
    return network
