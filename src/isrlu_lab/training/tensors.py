"""Data as tensors, whatever its family."""

from isrlu_lab.data import Dataset, Text
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.text_tensors import TextTensors

Tensors = ImageTensors | TextTensors


def as_tensors(loaded: Dataset | Text) -> Tensors:
    """The tensors that trainers take, of what `isrlu_lab.data.load_any` returns."""
    return TextTensors(loaded) if isinstance(loaded, Text) else ImageTensors(loaded)
