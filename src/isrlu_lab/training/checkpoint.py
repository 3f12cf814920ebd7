"""Checkpoints: the state of a run after an epoch or an evaluation, in one file that is replaced as a whole."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from isrlu_lab.atomic_files import replacing
from isrlu_lab.errors import UserError
from isrlu_lab.training.run_spec import RunSpec

H = TypeVar("H")


class DamagedCheckpoint(UserError):
    """A checkpoint cannot be read."""


class CannotSave(UserError):
    """A checkpoint cannot be written. This concerns every run of the grid, so the grid stops."""


@dataclass(frozen=True)
class Checkpoint:
    """The file `path` with the state of a run; without a path nothing is kept."""

    path: Path | None
    spec: RunSpec
    network: nn.Module
    optimiser: torch.optim.Optimizer

    def save(self, epoch: int, step: int, history: object) -> None:
        """Replace the file by this state. If that fails, the previous checkpoint stays."""
        if not self.path:
            return
        state = {
            "spec": self.spec.to_json(),
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "epoch": epoch,
            "step": step,
            "history": dataclasses.asdict(history),  # type: ignore[call-overload]
        }
        try:
            with replacing(self.path, shared=True) as file:
                torch.save(state, file)
        except (OSError, RuntimeError) as error:  # torch's writer turns a full disk into a RuntimeError
            reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            raise CannotSave(f"cannot write the checkpoint {self.path}: {reason}; the previous one is kept") from None

    def load(self, new: H) -> tuple[int, int, H]:
        """Load the state into the network and the optimiser; returns epoch, step and history. No file: 0, 0, new."""
        if not (self.path and self.path.exists()):
            return 0, 0, new
        try:
            state = torch.load(self.path, weights_only=True)
            if state["spec"] != self.spec.to_json():
                raise UserError(f"{self.path} is the checkpoint of another run ({state['spec']})")
            self.network.load_state_dict(state["network"])
            self.optimiser.load_state_dict(state["optimiser"])
            return state["epoch"], state["step"], type(new)(**state["history"])
        except UserError:
            raise
        except OSError as error:
            raise UserError(f"cannot read the checkpoint {self.path}: {error.strerror or error}") from None
        except Exception as error:  # on damaged bytes torch.load raises errors of many types
            what = f"the checkpoint {self.path} is damaged ({type(error).__name__})"
            raise DamagedCheckpoint(f"{what}: delete it to start this run again") from None
