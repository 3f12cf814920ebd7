"""MNIST, or data in its format, from a folder, the cache, a mirror, npm, or scikit-learn's digits."""

from isrlu_lab.data.dataset import Dataset, digits, read_folder, title
from isrlu_lab.data.locate import DIGITS, at_hand, find, find_or_digits, given, load

__all__ = ["DIGITS", "Dataset", "at_hand", "digits", "find", "find_or_digits", "given", "load", "read_folder", "title"]
