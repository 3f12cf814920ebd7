"""A grid of small runs that the tests kill: `python mnist_program.py ENGINE OUT EPOCHS`, events on standard output."""

import sys
from pathlib import Path

import numpy as np

from isrlu_lab.data import Dataset
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.grid import make_engine, run_grid
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.run_store import Run, RunStore
from isrlu_lab.training.worker import Progress

SEEDS = range(4)


def specs(epochs: int) -> list[MnistSpec]:
    """Four runs that take a second each, on scikit-learn's digits."""
    return [
        MnistSpec(activation="relu", width=16, epochs=epochs, batch=500, data="digits", seed=seed) for seed in SEEDS
    ]


def small_data(classes: int = 10) -> Dataset:
    """A data set of 200 images that a network can learn in a few steps: each class has its own bright square."""
    random = np.random.default_rng(0)
    labels = random.integers(0, classes, 200).astype(np.uint8)
    images = random.integers(0, 60, (200, 28, 28), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 4)
        image[8 * row : 8 * row + 6, 7 * column : 7 * column + 6] += 190
    return Dataset("small", "a small data set", images[:150], labels[:150], images[150:], labels[150:])


def tell(event: Progress | Run) -> None:
    if isinstance(event, Progress):
        print("progress", event.spec.hash, event.share, flush=True)
    else:
        print(event.status, event.spec.hash, event.reason, flush=True)


def main(engine: str, out: Path, epochs: int) -> None:
    folder = OutputFolder(out)
    with RunStore(folder) as store:
        run_grid(specs(epochs), store, make_engine(engine, "digits", folder.checkpoints, workers=2), tell)
    print("finished", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
