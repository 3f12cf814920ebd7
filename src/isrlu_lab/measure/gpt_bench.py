"""What a norm costs within a transformer: a training step and the generation of a character, all norms interleaved."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from isrlu_lab.measure.timer import Sample, measure, ratio
from isrlu_lab.training.gpt.gpt_spec import NORMS, GptSpec
from isrlu_lab.training.gpt.model import Gpt, loss_of
from isrlu_lab.training.gpt.train_gpt import CLIP, make_optimiser
from isrlu_lab.training.worker import keep_memory

CHARACTERS = 65  # different ones, as in tiny Shakespeare
GENERATED = 8  # characters in a timed call


def run(*, rounds: int = 25, threads: int = 1, spec: GptSpec | None = None) -> list[dict[str, Any]]:
    """For each norm the seconds of a training step and of a generated character, and their quotients to LayerNorm's."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    keep_memory()
    try:
        base = spec or GptSpec()
        specs = {norm: dataclasses.replace(base, norm=norm, alpha=0.5) for norm in NORMS}
        steps = measure({norm: training_step(each) for norm, each in specs.items()}, rounds=rounds)
        drawn = measure({norm: generation(each) for norm, each in specs.items()}, rounds=rounds)
    finally:
        torch.set_num_threads(before)
    return [
        {"norm": norm, **_figures("step", steps, norm, 1), **_figures("character", drawn, norm, GENERATED)}
        for norm in NORMS
    ]


def training_step(spec: GptSpec) -> Callable[[], None]:
    """A training step of the network of `spec` on one batch: forward, backward, clipping, AdamW."""
    torch.manual_seed(0)
    network = Gpt(spec, CHARACTERS)
    optimiser = make_optimiser(network, 1e-5)
    parameters = list(network.parameters())
    windows = torch.randint(CHARACTERS, (spec.batch, spec.context + 1))

    def step() -> None:
        optimiser.zero_grad()
        loss_of(network, windows).backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()

    return step


def generation(spec: GptSpec) -> Callable[[], object]:
    """The generation of GENERATED characters after a full context, one text at a time."""
    torch.manual_seed(0)
    network = Gpt(spec, CHARACTERS)
    start = torch.randint(CHARACTERS, (1, spec.context))
    return lambda: network.generate(start, GENERATED)


def _figures(what: str, samples: dict[str, Sample], norm: str, count: int) -> dict[str, float]:
    found = samples[norm]
    return {
        f"{what}_seconds": found.median / count,
        f"{what}_spread": found.spread,
        f"{what}_ratio": ratio(samples, norm, "layernorm"),
    }
