"""What each rank of the DDP test runs: a module of its own, because a spawned process must be able to import it."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

import isrlu.torch as it


def train_one_rank(rank: int, folder: str) -> None:
    """Train on every second row, and store the state as `folder`/`rank`.pt."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(network())
    x, target = data()
    train(model, x[rank::2], target[rank::2])
    torch.save(model.module.state_dict(), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def train(model: nn.Module, x: Tensor, target: Tensor) -> None:
    """Three steps of gradient descent."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), it.ISRLU(learnable=True, num_parameters=4), nn.Linear(4, 1), it.ISRU())


def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    return x, x.sum(1, keepdim=True)
