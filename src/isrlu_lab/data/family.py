"""The families of data sets that experiments train on: which set the claims are about, and how one is found."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from isrlu_lab.data import cifar10, dataset, locate, text
from isrlu_lab.errors import UserError


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
    identities: tuple[str, ...]  # how the identities of its sets begin

    def check(self, loaded: dataset.Dataset | text.Text) -> None:
        """Raise UserError for data of another family."""
        if not loaded.identity.startswith(self.identities):
            raise UserError(f"{loaded.title} cannot be used here: give {self.name} or data in its format")


IMAGES = Family(
    *("mnist", "MNIST", locate.DIGITS, "scikit-learn's digits"),
    *(locate.given, locate.at_hand, locate.find_or_digits, dataset.title),
    identities=("mnist", "digits", "idx-"),
)
TEXTS = Family(
    *(text.SHAKESPEARE, "tiny Shakespeare", text.TOPICS, "Python's documentation topics"),
    *(text.given, text.at_hand, text.find_or_topics, text.title),
    identities=(text.SHAKESPEARE, "topics-", "text-"),
)
CIFAR = Family(
    *(cifar10.IDENTITY, cifar10.TITLE, "", ""),
    *(cifar10.given, cifar10.at_hand, lambda where: (cifar10.find(where), ""), lambda _: cifar10.TITLE),
    identities=(cifar10.IDENTITY,),
)


def load_any(source: str | Path) -> dataset.Dataset | text.Text:
    """The data at a source: a text for a file or "python-topics", CIFAR-10 for its files, else MNIST or its like."""
    if folder := cifar10.given(source):
        return cifar10.read(folder)
    is_text = str(source) == text.TOPICS or Path(source).is_file()
    return text.read(source) if is_text else locate.load(source)
