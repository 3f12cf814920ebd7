"""The processes of one run: a single one, unless torchrun started several (gloo)."""

import os
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor, nn

from isrlu_lab.errors import UserError


class Ranks:
    """Rank of this process and number of processes. With a single process every method does nothing."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        if count > 1 and not dist.is_initialized():
            try:
                dist.init_process_group("gloo")
            except ValueError as error:  # not all of torchrun's variables are there
                raise UserError(f"WORLD_SIZE is {count}, but torchrun did not start this: {error}") from None
        self.rank = dist.get_rank() if count > 1 else 0

    @classmethod
    def from_environment(cls) -> Self:
        """The processes that torchrun started, by WORLD_SIZE; one if it is not set."""
        count = os.environ.get("WORLD_SIZE", "1")
        if not count.isdecimal():
            raise UserError(f"WORLD_SIZE is {count!r}, but a number of processes is wanted: unset it, or use torchrun")
        return cls(int(count))

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def share(self, batch: Tensor) -> Tensor:
        """This process's part of the batch."""
        return batch[self.rank :: self.count]

    def mean(self, value: Tensor) -> float:
        """The mean of `value` over all processes."""
        if self.count > 1:
            dist.all_reduce(value)
        return value.item() / self.count

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network whose gradients are averaged over all processes."""
        return nn.parallel.DistributedDataParallel(network) if self.count > 1 else network


def finish() -> None:
    """Leave the process group, if there is one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def threads(wanted: int | None) -> int:
    """Set and return torch's number of threads; None keeps what it has."""
    if wanted:
        torch.set_num_threads(wanted)
    return torch.get_num_threads()
