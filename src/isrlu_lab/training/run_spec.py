"""What one training run is, frozen: two runs of the same specification have the same hash and the same result."""

import dataclasses
import hashlib
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec

from isrlu_lab.errors import UserError

KINDS = {
    "": ("isrlu_lab.training.mnist.mnist_spec", "Spec"),
    "rnn": ("isrlu_lab.training.recurrent.recurrent_spec", "RnnSpec"),
}


@dataclass(frozen=True, kw_only=True)
class RunSpec(ABC):
    """What every kind of run has. A kind adds its own fields, is named in KINDS, and is trained by its own module.

    That module offers train(spec, arrays, *, checkpoint, watch) -> history, summary(history), the numbers that tables
    are made of, and progress(spec, *seen), share done, rate and text of a `Progress`, of what `watch` was called with.
    """

    kind: ClassVar[str] = ""
    trainer: ClassVar[str]
    protocol: ClassVar[int] = 1  # part of the hash: raise it when the trainer changes what a specification means

    seed: int = 0
    data: str = "mnist"  # the data set's identity

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The specification that `to_json` wrote; an unknown key or a value of another type is an error."""
        known = {each.name for each in dataclasses.fields(cls)}
        given = {key: value for key, value in values.items() if key != "kind"}
        unknown = sorted(set(given) - known)
        check(not unknown, f"unknown key {', '.join(unknown)} in a run's specification: known are {', '.join(known)}")
        return msgspec.convert(given, cls)

    def to_json(self) -> dict[str, Any]:
        return ({"kind": self.kind} if self.kind else {}) | dataclasses.asdict(self)

    @property
    def hash(self) -> str:
        """The run's identity: 16 hex digits of the SHA-256 of its specification."""
        text = json.dumps({"protocol": self.protocol, **self.to_json()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    @abstractmethod
    def label(self) -> str:
        """The run but for its seed, for progress lines and plots."""

    @property
    @abstractmethod
    def network(self) -> str:
        """The network and its size."""

    @property
    @abstractmethod
    def duration(self) -> str:
        """How long it is trained."""


def load_spec(values: Mapping[str, Any]) -> RunSpec:
    """The specification of any kind that `to_json` wrote."""
    kind = values.get("kind", "")
    check(kind in KINDS, f"unknown kind of run {kind!r}: known are {', '.join(filter(None, KINDS))}")
    module, name = KINDS[kind]
    return getattr(importlib.import_module(module), name).from_json(values)


def check(good: bool, message: str) -> None:
    """Raise UserError(message) unless `good`."""
    if not good:
        raise UserError(message)
