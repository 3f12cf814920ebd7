"""Deep fully connected networks. Each activation gets the initial weights that its own theory asks for.

Weights are normal with variance gain^2 / inputs, biases are 0. The gain keeps the second moment of a standard normal
signal: sqrt(2) for ReLU (He et al., 2015), 1 / rms of f(z) for ELU and ISRLU, 1 for the self-normalising functions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from isrlu import signal
from isrlu.torch import ISRLU, SISRLU


class CentredISRLU(nn.Module):
    """(f(x) - m) / s with f = ISRLU, m and s the mean and deviation of f(z): mean 0, variance 1, no kink at 0."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.function = ISRLU(alpha)
        self.mean = signal.moments("isrlu", alpha).mean
        self.gain = signal.std_gain("isrlu", alpha)

    def forward(self, x: Tensor) -> Tensor:
        return (self.function(x) - self.mean) * self.gain


@dataclass(frozen=True)
class Activation:
    """A module and the gain of the weights before it."""

    make: Callable[[], nn.Module]
    gain: Callable[[], float]


ACTIVATIONS = {  # the names of `depth_spec.ACTIVATIONS`
    "relu": Activation(nn.ReLU, lambda: math.sqrt(2.0)),
    "elu": Activation(nn.ELU, lambda: signal.rms_gain("elu")),
    "selu": Activation(nn.SELU, lambda: 1.0),
    "isrlu": Activation(lambda: ISRLU(1.0), lambda: signal.rms_gain("isrlu", 1.0)),
    "isrlu3": Activation(lambda: ISRLU(3.0), lambda: signal.rms_gain("isrlu", 3.0)),
    "sisrlu": Activation(SISRLU, lambda: 1.0),
    "centred": Activation(CentredISRLU, lambda: 1.0),
}


def build(activation: str, depth: int, width: int, *, inputs: int, outputs: int = 10, seed: int) -> nn.Sequential:
    """Hidden layers of Linear and activation, `depth` of them, and a Linear to `outputs`."""
    kind, generator = ACTIVATIONS[activation], torch.Generator().manual_seed(seed)
    sizes = [inputs, *[width] * depth]
    layers: list[nn.Module] = []
    for size in sizes[:-1]:
        layers += [_linear(size, width, kind.gain(), generator), kind.make()]
    return nn.Sequential(*layers, _linear(width, outputs, 1.0, generator))


def _linear(inputs: int, outputs: int, gain: float, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=gain / math.sqrt(inputs), generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def layer_signal(network: nn.Sequential, x: Tensor, labels: Tensor) -> list[list[float]]:
    """The numbers that `depth_spec.SIGNALS` names, each by hidden layer, from one batch forward and backward.

    The network's gradients are cleared.
    """
    outputs: list[Tensor] = []
    hidden = list(network)[:-1]
    value = x
    for layer in hidden:
        value = layer(value)
        if not isinstance(layer, nn.Linear):
            outputs.append(value.detach().double())
    nn.functional.cross_entropy(network[-1](value), labels).backward()
    gradients = [layer.weight.grad for layer in hidden if isinstance(layer, nn.Linear)]
    found = [
        [each.mean().item() for each in outputs],
        [each.var(correction=0).item() for each in outputs],
        [each.double().norm().item() for each in gradients if each is not None],
    ]
    network.zero_grad()
    return found


def standardised(images: Tensor, reference: Tensor) -> Tensor:
    """Images as rows, with the mean 0 and variance 1 of the pixels of `reference`."""
    deviation, mean = torch.std_mean(reference)
    return ((images - mean) / deviation).flatten(1)
