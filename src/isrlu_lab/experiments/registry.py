"""All experiments in the order of the paper. To add one, write its module and add its entry here."""

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from isrlu_lab.errors import UserError
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Experiment, Result

EXPERIMENTS = (
    Experiment(
        name="figure1",
        title="Figure 1: ISRLU, ELU and ReLU",
        summary="the functions, their first and second derivatives, and the family over alpha",
        quick="3 s",
        full="3 s",
        module="isrlu_lab.experiments.figure1",
    ),
    Experiment(
        name="figure2",
        title="Figure 2: ISRU and tanh",
        summary="ISRU and tanh, isru_sigmoid and the sigmoid, and their differences",
        quick="2 s",
        full="2 s",
        module="isrlu_lab.experiments.figure2",
    ),
    Experiment(
        name="table1",
        title="Table 1: convolutions",
        summary="cycles per output element of 5x5, 3x3 and 3x1 filters",
        quick="5 s",
        full="15 s",
        module="isrlu_lab.experiments.table1",
    ),
    Experiment(
        name="table2",
        title="Table 2: inverse square root, exponential, tanh",
        summary="cycles per element in every instruction set of this CPU, and in MKL",
        quick="3 s",
        full="10 s",
        module="isrlu_lab.experiments.table2",
    ),
    Experiment(
        name="table3",
        title="Table 3: ISRLU, ISRU, ELU and ReLU",
        summary="ns per element in the cache and in memory, and the advantages of ISRLU",
        quick="10 s",
        full="30 s",
        module="isrlu_lab.experiments.table3",
    ),
    Experiment(
        name="accuracy",
        title="Accuracy: sections 3.1 and 3.2",
        summary="accurate bits of the inverse square root by each method",
        quick="10 s",
        full="10 s",
        module="isrlu_lab.experiments.accuracy",
    ),
    Experiment(
        name="table4",
        title="Table 4: architecture 1 on MNIST",
        summary="eight rows of activation and dropout over several seeds, in both readings of the dense layer's width",
        quick="2 min",
        full="5 h",
        module="isrlu_lab.experiments.mnist.table4",
        trains=True,
    ),
    Experiment(
        name="table5",
        title="Table 5: architecture 2 on MNIST",
        summary="ISRLU and ELU in the deeper network over several seeds",
        quick="3 min",
        full="7 h",
        module="isrlu_lab.experiments.mnist.table5",
        trains=True,
    ),
    Experiment(
        name="approx",
        title="Beyond the paper: do fast approximations learn as well?",
        summary="ISRLU by the hardware estimate and by the bit trick compared with full precision, on the same seeds",
        quick="25 s",
        full="30 min",
        module="isrlu_lab.experiments.mnist.approx",
        trains=True,
    ),
    Experiment(
        name="alpha",
        title="Beyond the paper: does a learned alpha help?",
        summary="one learned alpha per layer compared with fixed ones, on the same seeds",
        quick="15 s",
        full="25 min",
        module="isrlu_lab.experiments.mnist.alpha",
        trains=True,
    ),
    Experiment(
        name="rnn",
        title="Beyond the paper: ISRU in LSTM and GRU",
        summary="speed of gates and layers beside torch.nn's, and training with ISRU instead of sigmoid and tanh",
        quick="2 min",
        full="1 h",
        module="isrlu_lab.experiments.rnn",
        trains=True,
    ),
    Experiment(
        name="normfree",
        title="Beyond the paper: DyISRU in place of LayerNorm",
        summary="a character-level GPT with LayerNorm, RMSNorm, DyT, Derf and DyISRU; norms of a trained one swapped",
        quick="1 min",
        full="50 min",
        module="isrlu_lab.experiments.gpt.normfree",
        trains=True,
    ),
    Experiment(
        name="depth",
        title="The paper's future work: deeper networks, self-normalisation",
        summary="8 to 64 layers without normalisation: accuracy, and the signal layer by layer",
        quick="40 s",
        full="3 h",
        module="isrlu_lab.experiments.depth",
        trains=True,
    ),
    Experiment(
        name="cifar",
        title="The paper's future work: an 11-layer network on CIFAR-10",
        summary="the network that ELU was introduced with, at a quarter of its width, per epoch and per second",
        quick="1 min",
        full="2 h",
        module="isrlu_lab.experiments.cifar",
        trains=True,
    ),
    Experiment(
        name="hardware",
        title="Sections 3.2 and 6: in hardware",
        summary="gates and time of ISRLU, ISRU and 1/sqrt(x) units beside FMA, ELU and tanh; this CPU's instructions",
        quick="1 min",
        full="30 min",
        module="isrlu_lab.experiments.hardware",
    ),
)


def select(names: Sequence[str]) -> list[Experiment]:
    """The named experiments in the paper's order; all experiments if no name is given."""
    known = {entry.name: entry for entry in EXPERIMENTS}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise UserError(f"unknown experiment {name!r}{hint}: known are {', '.join(known)}")
    return [entry for entry in EXPERIMENTS if not names or entry.name in names]


def is_current(entry: Experiment, environment: Mapping[str, Any], context: Context) -> bool:
    """Whether the stored result with this environment matches the request in `context`."""
    try:
        check = getattr(importlib.import_module(entry.module), "is_current", None)
    except ImportError:  # a stored result stays valid without the packages that made it
        return True
    return check is None or check(environment, context)


def load(entry: Experiment) -> Callable[[Context], Result]:
    """The function `run` of the experiment's module."""
    return importlib.import_module(entry.module).run
