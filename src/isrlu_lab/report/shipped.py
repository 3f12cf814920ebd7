"""The finished results that ship with the package: isrlu_lab/shipped if it is installed, docs/results in a checkout."""

from pathlib import Path

import msgspec

import isrlu_lab
from isrlu_lab.errors import UserError
from isrlu_lab.experiments.result_store import Record, parse_record

PACKAGE = Path(isrlu_lab.__file__).parent


def folder() -> Path:
    """The folder of the shipped results."""
    for path in (PACKAGE / "shipped", PACKAGE.parents[1] / "docs" / "results"):
        if path.is_dir():
            return path
    raise UserError(f"{PACKAGE} has no shipped results: install isrlu again")


def load(experiment: str) -> Record | None:
    """The shipped result of this experiment, or None."""
    path = folder() / experiment / "result.json"
    return parse_record(msgspec.json.decode(path.read_bytes()), experiment) if path.is_file() else None


def figure(experiment: str, name: str) -> Path | None:
    """The file of a shipped figure, SVG before PNG; None if it has neither."""
    paths = (folder() / experiment / f"{name}.{ending}" for ending in ("svg", "png"))
    return next((path for path in paths if path.is_file()), None)
