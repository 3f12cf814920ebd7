"""The specification of a training run, frozen. Two runs of one specification have the same hash and the same result."""

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec

from isrlu_lab.errors import UserError


@dataclass(frozen=True)
class Number:
    """A number in the result of a run. With a heading, `isrlu results show` prints it with so many decimals."""

    name: str
    heading: str = ""
    decimals: int = 0


@dataclass(frozen=True, kw_only=True)
class RunSpec(ABC):
    """What all kinds of run have. A kind adds its own fields, and a line in `isrlu_lab.training.kinds`.

    Its trainer is a module with
        train(spec, tensors, *, checkpoint, watch) -> history    raises `Diverged`; resumes from the checkpoint
        summary(history) -> dict                                the `numbers` of the result
        progress(spec, *arguments) -> share, rate, text         of a `Progress`, from the arguments of `watch`
    """

    kind: ClassVar[str] = ""
    trainer: ClassVar[str]
    numbers: ClassVar[tuple[Number, ...]]
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
        """The run without its seed, for progress lines and plots."""

    @property
    @abstractmethod
    def network(self) -> str:
        """The network and its size."""

    @property
    def duration(self) -> str:
        """The length of the training by the fields of that name: "300 steps", or "17 epochs" if `steps` is 0."""
        fields = self.to_json()
        return f"{fields['steps']} steps" if fields["steps"] else f"{fields['epochs']} epochs"

    def check_known(self, **known: Iterable[str]) -> None:
        """Raise UserError unless the value of each named field is one of the known ones."""
        for name, values in known.items():
            value = getattr(self, name)
            check(value in values, f"unknown {name} {value!r}: known are {', '.join(values)}")

    def check_least(self, **least: int) -> None:
        """Raise UserError unless each named field is at least that number."""
        for name, bound in least.items():
            check(getattr(self, name) >= bound, f"{name} must be at least {bound}, got {getattr(self, name)!r}")


def check(good: bool, message: str) -> None:
    """Raise UserError(message) unless `good`."""
    if not good:
        raise UserError(message)
