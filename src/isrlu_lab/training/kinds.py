"""The kinds of training run. A new kind is a folder of its own and one line in KINDS.

The class that a line names says everything that generic code asks for: its fields are the specification and columns of
the store's `summary` view, its `numbers` are the shape of a result and what `isrlu results show` prints, its `trainer`
is the module that trains it.
"""

import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from isrlu_lab.training.run_spec import RunSpec, check

KINDS = {  # the "kind" in a stored specification -> its class
    "": "isrlu_lab.training.mnist.mnist_spec:MnistSpec",  # stored without a kind
    "rnn": "isrlu_lab.training.recurrent.recurrent_spec:RecurrentSpec",
    "depth": "isrlu_lab.training.depth.depth_spec:DepthSpec",
    "cifar": "isrlu_lab.training.cifar.cifar_spec:CifarSpec",
    "gpt": "isrlu_lab.training.gpt.gpt_spec:GptSpec",
    "gpt-swap": "isrlu_lab.training.gpt.gpt_spec:SwapSpec",
}


def spec_classes() -> Iterator[type[RunSpec]]:
    """The specification class of every kind."""
    return map(pkgutil.resolve_name, KINDS.values())


def load_spec(values: Mapping[str, Any]) -> RunSpec:
    """The specification of any kind that `to_json` wrote."""
    kind = values.get("kind", "")
    check(kind in KINDS, f"unknown kind of run {kind!r}: known are {', '.join(filter(None, KINDS))}")
    return pkgutil.resolve_name(KINDS[kind]).from_json(values)
