"""The families of data sets that experiments train on: which set the claims are about, and how one is found."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from isrlu_lab.data import cifar10, dataset, locate, text


@dataclass(eq=False)
class Family:
    """A family of data sets. `find` returns a source for `load_any`, and why it is the stand-in, else ""."""

    standard: str  # identity of the set that the claims are about
    name: str
    stand_in: str  # a source that is always there, for a machine that cannot reach the standard set; "": none
    stand_in_name: str
    given: Callable[[str | None], str | None]
    at_hand: Callable[[str | None], str | None]
    find: Callable[[str | None], tuple[str, str]]
    title: Callable[[str], str]


IMAGES = Family(
    *("mnist", "MNIST", locate.DIGITS, "scikit-learn's digits"),
    *(locate.given, locate.at_hand, locate.find_or_digits, dataset.title),
)
TEXTS = Family(
    *(text.SHAKESPEARE, "tiny Shakespeare", text.TOPICS, "Python's documentation topics"),
    *(text.given, text.at_hand, text.find_or_topics, text.title),
)
CIFAR = Family(
    *(cifar10.IDENTITY, cifar10.TITLE, "", ""),
    *(cifar10.given, cifar10.at_hand, lambda where: (cifar10.find(where), ""), lambda _: cifar10.TITLE),
)


def load_any(source: str | Path) -> dataset.Dataset | text.Text:
    """The data at a source: a text for a file or "python-topics", CIFAR-10 for its files, else MNIST or its like."""
    if (Path(source) / "test_batch.bin").is_file():
        return cifar10.read(source)
    is_text = str(source) == text.TOPICS or Path(source).is_file()
    return text.read(source) if is_text else locate.load(source)
