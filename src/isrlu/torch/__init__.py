"""ISRLU and ISRU for PyTorch: functions, modules, and ways to put them into existing models."""

from isrlu._checks import require

with require("torch"):
    import torch as _torch  # noqa: F401

from isrlu.torch._fold import fold_alpha
from isrlu.torch._functional import isrlu, isru, isru_sigmoid
from isrlu.torch._modules import ISRLU, ISRU, ISRUSigmoid
from isrlu.torch._register import register
from isrlu.torch._rnn import GRU, LSTM, GRUCell, LSTMCell
from isrlu.torch._swap import swap

__all__ = [
    "GRU",
    "ISRLU",
    "ISRU",
    "LSTM",
    "GRUCell",
    "ISRUSigmoid",
    "LSTMCell",
    "fold_alpha",
    "isrlu",
    "isru",
    "isru_sigmoid",
    "register",
    "swap",
]
