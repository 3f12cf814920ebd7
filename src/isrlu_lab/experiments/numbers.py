"""The paper's numbers and claims, from paper.toml."""

import functools
import tomllib
from importlib.resources import files
from typing import Any


@functools.cache
def paper() -> dict[str, Any]:
    """The content of paper.toml, read once."""
    return tomllib.loads((files("isrlu_lab.experiments") / "paper.toml").read_text(encoding="utf-8"))


def table(name: str) -> dict[str, Any]:
    """The numbers of one table in paper.toml.

    >>> table("table3")["ns"]["ELU"]
    1.447
    """
    return paper()["numbers"][name]


def claim(key: str) -> dict[str, str]:
    """Text and section of one claim. `key` is "experiment.claim".

    >>> claim("table3.elu")["where"]
    'section 3.1'
    """
    experiment, _, name = key.partition(".")
    return paper()["claims"][experiment][name]


def claims(experiment: str) -> dict[str, dict[str, str]]:
    """The claims that an experiment tests, by key; empty if it tests none."""
    return paper()["claims"].get(experiment, {})
