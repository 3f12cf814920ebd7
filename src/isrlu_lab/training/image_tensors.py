"""The data set as tensors."""

import numpy as np
import torch
from torch import Tensor

from isrlu_lab.data import Dataset


class ImageTensors:
    """The whole data set in memory: images [n, colours, rows, columns] in [0, 1], channels last, and labels."""

    def __init__(self, data: Dataset) -> None:
        self.identity = data.identity
        self.train = _images(data.train_images), torch.from_numpy(data.train_labels.astype(np.int64))
        self.test = _images(data.test_images), torch.from_numpy(data.test_labels.astype(np.int64))


def _images(pixels: np.ndarray) -> Tensor:
    images = torch.from_numpy(pixels.astype(np.float32) / np.float32(255))
    if images.ndim == 3:  # one colour
        images = images.unsqueeze(1)
    return images.contiguous(memory_format=torch.channels_last)
