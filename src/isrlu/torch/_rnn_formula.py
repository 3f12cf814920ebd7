"""A recurrent layer in plain torch ops, for compilers, other devices, function transforms and second derivatives.

    LSTM   i, f, o = s(a), g = t(a)      c' = f c + i g             h' = o t(c')
    GRU    r, z = s(a), n = t(x + r q)   h' = n + z (h - n)         q: the state's part of n's argument

a = W_ih x + b_ih + W_hh h + b_hh. s and t are isru_sigmoid and isru, or the exact sigmoid and tanh. Rows are ordered as
in a PackedSequence: step by step, and within step t the first `sizes[t]` sequences of the batch. Sizes never increase.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from isrlu.torch._functional import isru, isru_sigmoid

Gates = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
States = tuple[Tensor, ...]  # (h, c) of an LSTM, (h,) of a GRU

GATES: dict[str, Gates] = {"isru": (isru_sigmoid, isru), "exact": (torch.sigmoid, torch.tanh)}


class Weights(NamedTuple):
    """The weights of one layer and direction, in PyTorch's layout. `hr` projects an LSTM's output."""

    ih: Tensor
    hh: Tensor
    b_ih: Tensor | None = None
    b_hh: Tensor | None = None
    hr: Tensor | None = None


def lstm_step(x: Tensor, states: States, weights: Weights, gates: Gates) -> States:
    """(h', c') from x = W_ih input + b_ih [n, 4 hidden]."""
    sigmoid, tanh = gates
    h, c = states
    i, f, g, o = (x + linear(h, weights.hh, weights.b_hh)).chunk(4, 1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)
    return (h if weights.hr is None else linear(h, weights.hr)), c


def gru_step(x: Tensor, states: States, weights: Weights, gates: Gates) -> States:
    """(h',) from x = W_ih input + b_ih [n, 3 hidden]."""
    sigmoid, tanh = gates
    (h,) = states
    x_r, x_z, x_n = x.chunk(3, 1)
    h_r, h_z, h_n = linear(h, weights.hh, weights.b_hh).chunk(3, 1)
    n = tanh(x_n + sigmoid(x_r + h_r) * h_n)
    return (n + sigmoid(x_z + h_z) * (h - n),)


STEPS = {"LSTM": lstm_step, "GRU": gru_step}


def zeros(mode: str, like: Tensor, batch: int, weights: Weights) -> States:
    """The default initial states of a layer."""
    h = like.new_zeros(batch, weights.hh.shape[1])  # W_hh [4 hidden or 3 hidden, size of h]
    if mode == "GRU":
        return (h,)
    return h, h if weights.hr is None else like.new_zeros(batch, weights.hr.shape[1])


def layer(
    mode: str, gates: str, data: Tensor, sizes: Sequence[int], states: States | None, weights: Weights, reverse: bool
) -> tuple[Tensor, States]:
    """Outputs [rows, hidden] and the last states [1, batch, hidden] of one layer in one direction.

    States are [batch, hidden]; None means zeros.

    A step updates the first `sizes[t]` rows of the states. This is correct in both directions: a sequence that has
    ended keeps its last state (forwards), and one that has not started keeps its initial state (backwards).
    """
    step = STEPS[mode]
    if states is None:
        states = zeros(mode, data, sizes[0], weights)
    inputs = linear(data, weights.ih, weights.b_ih).split(list(sizes))
    outputs = list(inputs)
    order = range(len(sizes))
    for t in reversed(order) if reverse else order:
        n = sizes[t]
        new = step(inputs[t], tuple(state[:n] for state in states), weights, GATES[gates])
        outputs[t] = new[0]
        states = tuple(
            a if n == state.shape[0] else torch.cat([a, state[n:]]) for a, state in zip(new, states, strict=True)
        )
    return torch.cat(outputs), tuple(state.unsqueeze(0) for state in states)
