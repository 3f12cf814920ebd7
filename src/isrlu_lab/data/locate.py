"""Locate the data: --data, else ISRLU_DATA, else the platform's cache, else a download, else scikit-learn's digits."""

import os
from pathlib import Path

from isrlu_lab.data.dataset import Dataset, digits, read_folder
from isrlu_lab.data.download import NoSource, Progress, fetch
from isrlu_lab.errors import UserError

DIGITS = "digits"  # in place of a folder: scikit-learn's embedded digits


def cache_folder() -> Path:
    """The platform's cache folder for MNIST."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("isrlu")) / "mnist"


def find(folder: str | Path | None = None, *, progress: Progress | None = None) -> str:
    """The folder for `load`, downloaded into the cache if necessary; raises NoSource."""
    here = at_hand(folder)
    if here is None:
        fetch(cache_folder(), progress=progress)
    return here or str(cache_folder())


def given(folder: str | Path | None = None) -> str | None:
    """The folder of --data, else of ISRLU_DATA, else None."""
    where = folder or os.environ.get("ISRLU_DATA")
    return str(where) if where else None


def at_hand(folder: str | Path | None = None) -> str | None:
    """The given folder, or the cache if it holds MNIST, or None; downloads nothing."""
    if where := given(folder):
        return where
    cache = cache_folder()
    try:
        return str(cache) if load(cache).is_mnist else None
    except UserError:  # absent or damaged
        return None


def find_or_digits(folder: str | Path | None = None) -> tuple[str, str]:
    """As `find`, with scikit-learn's digits as the last resort; also the reason for them, else ""."""
    try:
        return find(folder), ""
    except NoSource as error:
        return DIGITS, str(error)


def load(source: str | Path) -> Dataset:
    """The data set in a folder, or scikit-learn's for "digits"."""
    return digits() if str(source) == DIGITS else read_folder(Path(source))
