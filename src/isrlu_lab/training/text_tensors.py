"""A text as tensors: characters as numbers, the first nine tenths for training and the rest for validation."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from isrlu_lab.data import Text


class TextTensors:
    """The whole text in memory. A character's number is its place in the sorted set of the text's characters."""

    def __init__(self, text: Text) -> None:
        self.identity = text.identity
        codes = np.frombuffer(text.content.encode("utf-32-le"), np.uint32)
        alphabet, numbers = np.unique(codes, return_inverse=True)
        self.alphabet = "".join(map(chr, alphabet))
        everything = torch.from_numpy(numbers.astype(np.int64))
        cut = len(everything) * 9 // 10
        self.train, self.validation = everything[:cut], everything[cut:]

    @property
    def characters(self) -> int:
        """How many different characters there are."""
        return len(self.alphabet)

    def training_batches(self, context: int, batch: int, count: int, generator: torch.Generator) -> Iterator[Tensor]:
        """`count` batches of windows [batch, context + 1] at random places."""
        places = torch.randint(len(self.train) - context, (count, batch, 1), generator=generator)
        offsets = torch.arange(context + 1)
        return (self.train[each + offsets] for each in places)

    def validation_windows(self, context: int, most: int | None = None) -> Tensor:
        """All windows of the validation text, one after the other, or `most` of them at equal distances."""
        windows = self.validation.unfold(0, context + 1, context)
        if most is not None and most < len(windows):
            windows = windows[torch.arange(most) * len(windows) // most]
        return windows.contiguous()

    def decode(self, numbers: Tensor) -> str:
        """The text of a vector of characters' numbers."""
        return "".join(self.alphabet[each] for each in numbers.tolist())
