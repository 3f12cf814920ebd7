"""The 11-layer network of Clevert, Unterthiner and Hochreiter (2015), with any share of its channels.

Each stack of convolutions is followed by max-pooling of 2x2 while there is something to pool, and by dropout. Weights
are normal with variance gain^2 / inputs and biases 0; the gain is the one that each activation's own theory gives.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from isrlu import signal
from isrlu.torch import ISRLU, SISRLU

STACKS = (  # (channels, kernel) of each convolution; dropout after the stack
    (((192, 5),), 0.0),
    (((192, 1), (240, 3)), 0.1),
    (((240, 1), (260, 2)), 0.2),
    (((260, 1), (280, 2)), 0.3),
    (((280, 1), (300, 2)), 0.4),
    (((300, 1),), 0.5),
)
CLASSES, SIZE, COLOURS = 10, 32, 3


@dataclass(frozen=True)
class Activation:
    """A module, the gain of the weights before it, and whether batch normalisation comes first."""

    make: Callable[[], nn.Module]
    gain: Callable[[], float]
    normalised: bool = False


ACTIVATIONS = {  # the names of `cifar_spec.ACTIVATIONS`
    "relu": Activation(nn.ReLU, lambda: math.sqrt(2.0)),
    "elu": Activation(nn.ELU, lambda: signal.rms_gain("elu")),
    "isrlu": Activation(lambda: ISRLU(1.0), lambda: signal.rms_gain("isrlu", 1.0)),
    "isrlu3": Activation(lambda: ISRLU(3.0), lambda: signal.rms_gain("isrlu", 3.0)),
    "learned": Activation(lambda: ISRLU(1.0, learnable=True), lambda: signal.rms_gain("isrlu", 1.0)),
    "sisrlu": Activation(SISRLU, lambda: 1.0),
    "relu-bn": Activation(nn.ReLU, lambda: math.sqrt(2.0), normalised=True),
}


def build(activation: str, width: float, *, seed: int) -> nn.Sequential:
    """The network from images [n, 3, 32, 32] to logits [n, 10].

    >>> sum(isinstance(layer, nn.Conv2d) for layer in build("relu", 0.25, seed=0))
    11
    """
    kind, generator = ACTIVATIONS[activation], torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    inputs, size = COLOURS, SIZE
    for convolutions, dropout in STACKS:
        for full, kernel in convolutions:
            outputs = max(1, round(full * width))
            layers += _convolution(inputs, outputs, kernel, kind.gain(), generator)
            layers += [*([nn.BatchNorm2d(outputs)] if kind.normalised else []), kind.make()]
            inputs = outputs
        if size > 1:
            layers.append(nn.MaxPool2d(2))
            size //= 2
        if dropout:
            layers.append(nn.Dropout(dropout))
    layers += [*_convolution(inputs, CLASSES, 1, 1.0, generator), nn.Flatten()]
    return nn.Sequential(*layers)


def _convolution(inputs: int, outputs: int, kernel: int, gain: float, generator: torch.Generator) -> list[nn.Module]:
    """A convolution that keeps the image's size; an even kernel has its odd pixel of padding right and below."""
    padding = (kernel - 1) // 2
    layer = nn.Conv2d(inputs, outputs, kernel, padding=padding)
    nn.init.normal_(layer.weight, std=gain / math.sqrt(inputs * kernel * kernel), generator=generator)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return [nn.ZeroPad2d((0, 1, 0, 1)), layer] if kernel % 2 == 0 else [layer]
