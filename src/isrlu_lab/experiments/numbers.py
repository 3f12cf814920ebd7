"""The paper's numbers and claims: paper.toml, read once."""

import functools
import tomllib
from importlib.resources import files
from typing import Any


@functools.cache
def paper() -> dict[str, Any]:
    """All of paper.toml."""
    return tomllib.loads((files("isrlu_lab.experiments") / "paper.toml").read_text(encoding="utf-8"))


def table(name: str) -> dict[str, Any]:
    """The numbers of one table, as paper.toml has them.

    >>> table("table3")["ns"]["ELU"]
    1.447
    """
    return paper()["numbers"][name]


def claim(key: str) -> dict[str, str]:
    """Text and place of one claim; `key` is "experiment.claim".

    >>> claim("table3.elu")["where"]
    'section 3.1'
    """
    experiment, _, name = key.partition(".")
    return paper()["claims"][experiment][name]


def claims(experiment: str) -> dict[str, dict[str, str]]:
    """The claims that an experiment tests, by key; none where the paper makes none."""
    return paper()["claims"].get(experiment, {})
