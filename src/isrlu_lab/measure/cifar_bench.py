"""What an activation costs within the 11-layer network of `cifar`: a training step, all activations interleaved."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from isrlu_lab.measure.measurement import seconds_figures
from isrlu_lab.measure.timer import measure
from isrlu_lab.training.cifar import train_cifar
from isrlu_lab.training.cifar.cifar_spec import CifarSpec
from isrlu_lab.training.cifar.network import CLASSES, COLOURS, SIZE
from isrlu_lab.training.worker import keep_memory


def run(specs: Sequence[CifarSpec], *, rounds: int = 25, threads: int = 1) -> list[dict[str, Any]]:
    """For each activation the seconds of a training step, their spread, and the quotient to ReLU's if it is there."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    keep_memory()
    try:
        samples = measure({spec.activation: training_step(spec) for spec in specs}, rounds=rounds)
    finally:
        torch.set_num_threads(before)
    rivals = {"of_relu": "relu"} if "relu" in samples else {}
    return [{"activation": name, **seconds_figures(samples, name, relative_to=rivals)} for name in samples]


def training_step(spec: CifarSpec) -> Callable[[], object]:
    """A training step of the network of `spec` on one batch of random images. The rate is too low to learn them."""
    network, optimiser = train_cifar.prepare(dataclasses.replace(spec, rate=1e-5))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(spec.batch, COLOURS, SIZE, SIZE, generator=generator)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (spec.batch,), generator=generator)
    return lambda: train_cifar.train_step(network, optimiser, images, labels)
