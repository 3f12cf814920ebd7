"""Training of a character-level GPT with nanoGPT's settings for a CPU: AdamW, warm-up, cosine decay, clipping.

The loss is in nats per character. The first nine tenths of the text train, the rest validates: at each evaluation on
the same 120 windows for every run, after the last step on all of its windows. The batches between two evaluations are
drawn from (seed, evaluation number).
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isrlu_lab.atomic_files import replacing
from isrlu_lab.training.checkpoint import CannotSave, Checkpoint
from isrlu_lab.training.gpt.gpt_spec import GptSpec
from isrlu_lab.training.gpt.model import Gpt, loss_of
from isrlu_lab.training.segments import Watch, check_data, train_in_segments
from isrlu_lab.training.text_tensors import TextTensors
from isrlu_lab.training.worker import check_finite, seed_of

WINDOWS = 120  # of an evaluation during training
BETAS, DECAY, CLIP = (0.9, 0.99), 0.1, 1.0


@dataclass
class History:
    """What a run records at each evaluation."""

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)  # of training, mean over the steps since the evaluation before
    validation: list[float] = field(default_factory=list)  # on WINDOWS windows
    final: float = 0.0  # on all windows of the validation text, after the last step
    seconds: float = 0.0  # of training and evaluation, summed over resumed processes


def train(
    spec: GptSpec, tensors: TextTensors, *, checkpoint: Path | None = None, watch: Watch[History] | None = None
) -> History:
    """Run `spec` to its end, from its last checkpoint if there is one; raises Diverged.

    With a checkpoint, the weights of a trained LayerNorm network are kept in `weights_path`: swaps start from them.
    """
    network, history = train_network(spec, tensors, checkpoint=checkpoint, watch=watch)
    if checkpoint and spec.norm == "layernorm":
        save_weights(weights_path(checkpoint, spec), network)
    return history


def train_network(
    spec: GptSpec, tensors: TextTensors, *, checkpoint: Path | None = None, watch: Watch[History] | None = None
) -> tuple[Gpt, History]:
    """The network that `spec` trains, and its history."""
    check_data(spec, tensors)
    torch.manual_seed(seed_of(spec.seed, 0))
    network = Gpt(spec, tensors.characters)
    optimiser = make_optimiser(network, spec.rate)
    shown = tensors.validation_windows(spec.context, WINDOWS)

    def until_evaluation(history: History, evaluation: int, step: int) -> int:
        rates = [rate_at(spec, each) for each in range(step, min(step + spec.interval, spec.steps))]
        loss = train_steps(network, optimiser, tensors, spec, seed_of(spec.seed, evaluation), rates)
        record(history, step + len(rates), loss, evaluate(network, shown))
        return len(rates)

    kept = Checkpoint(checkpoint, spec, network, optimiser)
    history = train_in_segments(kept, History(), until_evaluation, total=spec.steps, batch=spec.batch, watch=watch)
    history.final = evaluate(network, tensors.validation_windows(spec.context))
    return network, history


def summary(history: History) -> dict[str, Any]:
    """The `numbers` of the result."""
    return {"final_loss": history.final, "seconds": history.seconds}


def progress(spec: GptSpec, history: History, rate: float) -> tuple[float, float, str]:
    """Share done, rate and text of a `Progress`, from the arguments of `watch`."""
    step = history.steps[-1]
    losses = f"loss {history.loss[-1]:.4f}, validation {history.validation[-1]:.4f}"
    return step / spec.steps, rate, f"step {step}/{spec.steps}, {losses}"


def make_optimiser(network: nn.Module, rate: float) -> torch.optim.Optimizer:
    """AdamW with weight decay for matrices alone, as nanoGPT has it."""
    matrices = [each for each in network.parameters() if each.dim() >= 2]
    others = [each for each in network.parameters() if each.dim() < 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=BETAS, fused=True)


def rate_at(spec: GptSpec, step: int) -> float:
    """Linear warm-up, then half a cosine from the rate to a tenth of it at the last step.

    >>> spec = GptSpec(rate=1e-3)
    >>> [round(rate_at(spec, step), 6) for step in (0, 99, 100, 1050, 2000)]
    [1e-05, 0.00099, 0.001, 0.00055, 0.0001]
    """
    if step < spec.warmup:
        return spec.rate * (step + 1) / (spec.warmup + 1)
    share = (step - spec.warmup) / max(1, spec.steps - spec.warmup)
    least = spec.rate / 10
    return least + 0.5 * (1 + math.cos(math.pi * share)) * (spec.rate - least)


def train_steps(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    tensors: TextTensors,
    spec: GptSpec,
    seed: int,
    rates: list[float],
) -> float:
    """One step for each of `rates`, on batches drawn from `seed`; returns the mean training loss."""
    parameters = list(network.parameters())
    batches = tensors.training_batches(spec.context, spec.batch, len(rates), torch.Generator().manual_seed(seed))
    losses: list[Tensor] = []
    for rate, windows in zip(rates, batches, strict=True):
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        loss = loss_of(network, windows)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


@torch.inference_mode()
def evaluate(network: nn.Module, windows: Tensor) -> float:
    """Mean loss over the windows, 24 at a time: their activations stay in the second-level cache."""
    losses = [loss_of(network, part).double() * len(part) for part in windows.split(24)]
    return (torch.stack(losses).sum() / len(windows)).item()


def record(history: History, step: int, loss: float, validation: float) -> None:
    """Add an evaluation; raises Diverged where a loss is not finite."""
    check_finite(history, step, {"training loss": loss, "validation loss": validation})
    history.steps.append(step)
    history.loss.append(loss)
    history.validation.append(validation)


def weights_path(checkpoint: Path, spec: GptSpec) -> Path:
    """The file of the run's trained weights, beside the folder of checkpoints."""
    return checkpoint.parent.parent / "weights" / f"{spec.hash}.pt"


def save_weights(path: Path, network: nn.Module) -> None:
    try:
        with replacing(path, shared=True) as file:
            torch.save(network.state_dict(), file)
    except (OSError, RuntimeError) as error:  # torch's writer turns a full disk into a RuntimeError
        raise CannotSave(f"cannot write the weights {path}: {str(error).partition(chr(10))[0]}") from None
