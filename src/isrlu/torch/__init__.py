"""ISRLU and ISRU for PyTorch: functions, modules, and ways to put them into existing models."""

from isrlu._checks import require

with require("torch"):
    import torch as _torch  # noqa: F401

from isrlu.torch._dropout import FeatureSISRLUDropout, SISRLUDropout, feature_sisrlu_dropout, sisrlu_dropout
from isrlu.torch._fit import fit
from isrlu.torch._functional import isrlu, isru, isru_sigmoid, sisrlu
from isrlu.torch._init import calculate_gain
from isrlu.torch._modules import ISRLU, ISRU, SISRLU, ISRUSigmoid
from isrlu.torch._norm import dyisru
from isrlu.torch._norm_module import DyISRU
from isrlu.torch._register import register
from isrlu.torch._rnn import GRU, LSTM, GRUCell, LSTMCell
from isrlu.torch._swap import swap

__all__ = [
    "GRU",
    "ISRLU",
    "ISRU",
    "LSTM",
    "SISRLU",
    "DyISRU",
    "FeatureSISRLUDropout",
    "GRUCell",
    "ISRUSigmoid",
    "LSTMCell",
    "SISRLUDropout",
    "calculate_gain",
    "dyisru",
    "feature_sisrlu_dropout",
    "fit",
    "isrlu",
    "isru",
    "isru_sigmoid",
    "register",
    "sisrlu",
    "sisrlu_dropout",
    "swap",
]
