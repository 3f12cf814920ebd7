"""One epoch as a rank of torchrun, or alone: `torchrun_program.py FOLDER` stores what the rank saw as FOLDER/RANK.pt.

Everything is in float64, and the activation is smooth: what is equal by construction is then equal to rounding.
"""

import sys

import torch
from mnist_program import small_data
from torch import Tensor

from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.mnist import distributed, train_mnist
from isrlu_lab.training.mnist.mnist_spec import MnistSpec

SPEC = MnistSpec(activation="isrlu", width=16, epochs=1, batch=50, pkeep=1.0, data="small")


class Recorded(train_mnist._Run):
    """A run that notes its share of each batch, and the gradient of the first."""

    def __init__(self, tensors: ImageTensors, ranks: distributed.Ranks) -> None:
        super().__init__(SPEC, tensors, ranks)
        self.shares: list[Tensor] = []
        self.gradient: list[Tensor] = []

    def _train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        self.shares.append(images.clone())
        loss = super()._train_step(images, labels)
        if not self.gradient:
            self.gradient = [parameter.grad.clone() for parameter in self.network.parameters()]
        return loss


def main(folder: str) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    tensors = ImageTensors(small_data())
    tensors.train, tensors.test = ((images.double(), labels) for images, labels in (tensors.train, tensors.test))
    run = Recorded(tensors, distributed.Ranks.from_environment())
    run.one_epoch(None)
    torch.save({"shares": run.shares, "gradient": run.gradient}, f"{folder}/{run.ranks.rank}.pt")
    distributed.finish()


if __name__ == "__main__":
    main(sys.argv[1])
