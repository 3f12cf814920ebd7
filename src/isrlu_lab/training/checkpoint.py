"""Checkpoints: the state of a run after an epoch or an evaluation, in one file that is replaced as a whole."""

import dataclasses
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from isrlu_lab.atomic_files import replacing
from isrlu_lab.errors import UserError
from isrlu_lab.training.run_spec import RunSpec

T = TypeVar("T")


class DamagedCheckpoint(UserError):
    """A checkpoint cannot be read."""


class CannotSave(UserError):
    """A checkpoint cannot be written. This concerns every run of the grid, so the grid stops."""


def save_checkpoint(
    path: Path,
    spec: RunSpec,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    epoch: int,
    step: int,
    history: object,
) -> None:
    """Replace `path` by this state. If that fails, the previous checkpoint stays."""
    state = {
        "spec": spec.to_json(),
        "network": network.state_dict(),
        "optimiser": optimiser.state_dict(),
        "epoch": epoch,
        "step": step,
        "history": dataclasses.asdict(history),  # type: ignore[call-overload]
    }
    try:
        with replacing(path, shared=True) as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:  # torch's writer turns a full disk into a RuntimeError
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise CannotSave(f"cannot write the checkpoint {path}: {reason}; the previous one is kept") from None


def load_checkpoint(
    path: Path, spec: RunSpec, network: nn.Module, optimiser: torch.optim.Optimizer, history: type[T]
) -> tuple[int, int, T]:
    """Load the state into `network` and `optimiser`; returns epoch, step and history."""
    try:
        state = torch.load(path, weights_only=True)
        if state["spec"] != spec.to_json():
            raise UserError(f"{path} is the checkpoint of another run ({state['spec']})")
        network.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        return state["epoch"], state["step"], history(**state["history"])
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"cannot read the checkpoint {path}: {error.strerror or error}") from None
    except Exception as error:  # on damaged bytes torch.load raises errors of many types
        what = f"the checkpoint {path} is damaged ({type(error).__name__})"
        raise DamagedCheckpoint(f"{what}: delete it to start this run again") from None
