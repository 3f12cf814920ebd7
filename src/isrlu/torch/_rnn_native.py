"""A recurrent layer by the kernels: one product for the input of all steps, the sequence in one call, its gradient.

The forward pass keeps the gates' outputs, the cell states and the layer's own output; all slopes follow from them.
Gates lie in rows of 4 hidden: i f g o of an LSTM, and q r z n of a GRU, q being the state's part of n's argument: what
the state is multiplied with (q r z) is then one block, and what the input is multiplied with (r z n) another.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from isrlu import _core
from isrlu.torch import _native, _rnn_formula
from isrlu.torch._rnn_formula import States, Weights

DTYPES = {torch.float32: "float32", torch.float64: "float64"}


class How(NamedTuple):
    """What is to be computed, but for the tensors."""

    mode: str
    gates: str
    sizes: Sequence[int]
    reverse: bool


def takes(data: Tensor, states: States, weights: Weights) -> bool:
    """Whether the kernels can do this layer: plain CPU tensors of one dtype, no projection, no autocast."""
    tensors = (data, *states, *(weight for weight in weights if weight is not None))
    return (
        weights.hr is None
        and (data.dtype in DTYPES or data.dtype is torch.bfloat16)
        and all(tensor.dtype is data.dtype and _native.takes(tensor) for tensor in tensors)
        and not torch._C._is_any_autocast_enabled()
    )


def layer(
    mode: str, gates: str, data: Tensor, sizes: Sequence[int], states: States, weights: Weights, reverse: bool
) -> tuple[Tensor, States]:
    """Outputs and last states, as `_rnn_formula.layer` has them; bfloat16 is float32 within and rounded at the end."""
    if data.dtype is torch.bfloat16:
        wide = Weights(*(None if weight is None else weight.float() for weight in weights))
        y, last = layer(mode, gates, data.float(), sizes, tuple(s.float() for s in states), wide, reverse)
        return y.bfloat16(), tuple(state.bfloat16() for state in last)
    how = How(mode, gates, sizes, reverse)
    tensors = (data, *states, *weights[:4])
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        y, *last = _Layer.apply(how, *tensors)
        return y, tuple(last)
    y, last, _ = _forward(how, data.contiguous(), tuple(s.contiguous() for s in states), weights, keep=False)
    return y, last


class _Layer(torch.autograd.Function):
    """y, h_n(, c_n) from data, h_0(, c_0) and the weights."""

    @staticmethod
    def forward(ctx: Any, how: How, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        data, states, weights = _parted(tensors)
        states = tuple(state.contiguous() for state in states)
        y, last, kept = _forward(how, data.contiguous(), states, weights, keep=True)
        ctx.how, ctx.kept = how, len(kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*kept, *tensors)
        return y, *last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        kept, tensors = ctx.saved_tensors[: ctx.kept], ctx.saved_tensors[ctx.kept :]
        differentiate = _by_formula if torch.is_grad_enabled() else _by_kernels
        return None, *differentiate(ctx.how, kept, tensors, grads)


def _parted(tensors: Sequence[Any]) -> tuple[Tensor, States, Weights]:
    return tensors[0], tuple(tensors[1:-4]), Weights(*tensors[-4:])


def _forward(
    how: How, data: Tensor, states: States, weights: Weights, keep: bool
) -> tuple[Tensor, States, tuple[Tensor, ...]]:
    """Outputs, last states, and what the backward pass needs: the outputs, the gates, the cell states."""
    mode, _, sizes, reverse = how
    rows, hidden, batch = len(data), weights.hh.shape[1], sizes[0]
    buffer = _input_part(mode, data, weights)
    y = data.new_empty(rows, hidden)
    cells = None
    if mode == "LSTM":
        cells = data.new_empty(rows, hidden) if keep else states[1].clone()
    where = _where(how, hidden, weights, states)
    _core.layer_forward(*where, buffer.data_ptr(), y.data_ptr(), _address(cells), keep)
    ends = slice(batch) if reverse else slice(rows - batch, rows) if sizes[-1] == batch else _last_rows(sizes)
    h = y[ends].clone()
    if cells is None:
        return y, (h,), (y, buffer)
    return y, (h, cells[ends].clone() if keep else cells), (y, buffer, cells)


def _input_part(mode: str, data: Tensor, weights: Weights) -> Tensor:
    """The gates' arguments [rows, 4 hidden] without the state's part; biases are all in."""
    hidden = weights.hh.shape[1]
    buffer = data.new_empty(len(data), 4 * hidden)
    bias, state_bias = weights.b_ih, weights.b_hh
    if mode == "LSTM":
        target = buffer
        bias = None if bias is None else bias + state_bias
    else:
        target = buffer[:, hidden:]
        buffer[:, :hidden] = 0 if state_bias is None else state_bias[2 * hidden :]
        if bias is not None:
            bias = bias.clone()
            bias[: 2 * hidden] += state_bias[: 2 * hidden]
    if bias is None:
        torch.mm(data, weights.ih.t(), out=target)
    else:
        torch.addmm(bias, data, weights.ih.t(), out=target)
    return buffer


def _by_kernels(how: How, kept: Any, tensors: Any, grads: Any) -> tuple[Tensor | None, ...]:
    """Gradients of data, states and weights: the sequence backwards in one call, then one product for each weight."""
    mode = how.mode
    data, states, weights = _parted(tensors)
    states = tuple(state.contiguous() for state in states)
    y, buffer, *cells = kept
    hidden = weights.hh.shape[1]
    slopes = torch.empty_like(buffer)
    grad_y = torch.zeros_like(y) if grads[0] is None else grads[0].contiguous()
    grad_states = tuple(
        torch.zeros_like(state) if grad is None else grad.clone(memory_format=torch.contiguous_format)
        for state, grad in zip(states, grads[1:], strict=True)
    )
    _core.layer_backward(
        *_where(how, hidden, weights, states),
        *(buffer.data_ptr(), y.data_ptr(), _address(*cells), grad_y.data_ptr(), slopes.data_ptr()),
        *(grad_states[0].data_ptr(), _address(*grad_states[1:])),
    )
    of_input = slopes if mode == "LSTM" else slopes[:, hidden:]
    of_state = slopes if mode == "LSTM" else slopes[:, : 3 * hidden]
    w_ih = of_input.t() @ data
    w_hh = _state_weight(how, of_state, y, states[0])
    b_ih = None if weights.b_ih is None else of_input.sum(0)
    b_hh = b_ih
    if mode == "GRU":
        w_hh = w_hh.roll(-hidden, 0)
        b_hh = None if b_ih is None else torch.cat([b_ih[: 2 * hidden], slopes[:, :hidden].sum(0)])
    elif b_ih is not None:
        b_hh = b_ih.clone()
    return of_input @ weights.ih, *grad_states, w_ih, w_hh, b_ih, b_hh


def _state_weight(how: How, slopes: Tensor, y: Tensor, h0: Tensor) -> Tensor:
    """Slopes' product with the state before each step, which is the output of the step before, or h_0."""
    _, _, sizes, reverse = how
    batch = sizes[0]
    if sizes[-1] != batch:
        return slopes.t() @ torch.cat([h0, y])[_rows_before(tuple(sizes), reverse)]
    later, before = (slopes[:-batch], y[batch:]) if reverse else (slopes[batch:], y[:-batch])
    first = slopes[-batch:] if reverse else slopes[:batch]
    return torch.mm(later.t(), before).addmm_(first.t(), h0)


def _by_formula(how: How, kept: Any, tensors: Any, grads: Any) -> tuple[Tensor | None, ...]:
    """The same, itself differentiable: through the formula in torch ops."""
    mode, gates, sizes, reverse = how
    with torch.enable_grad():
        tensors = [t if t is None or t.requires_grad else t.detach().requires_grad_() for t in tensors]
        data, states, weights = _parted(tensors)
        y, last = _rnn_formula.layer(mode, gates, data, sizes, states, weights, reverse)
        outputs, given = zip(*((o, g) for o, g in zip((y, *last), grads, strict=True) if g is not None), strict=True)
        inputs = [t for t in tensors if t is not None]
        found = iter(torch.autograd.grad(outputs, inputs, given, create_graph=True, allow_unused=True))
    return tuple(None if t is None else next(found) for t in tensors)


def _where(how: How, hidden: int, weights: Weights, states: States) -> tuple[Any, ...]:
    """What both kernels are told first: the kind of layer, its extents, W_hh and the initial states."""
    mode, gates, sizes, reverse = how
    kernel = _kernel(mode, gates, weights.hh.dtype)
    changing = 0 if sizes[-1] == sizes[0] else _tensor(tuple(sizes)).data_ptr()
    state_addresses = states[0].data_ptr(), _address(*states[1:])
    return kernel, len(sizes), sizes[0], hidden, changing, reverse, weights.hh.contiguous().data_ptr(), *state_addresses


def _address(tensor: Tensor | None = None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


@functools.cache
def _kernel(mode: str, gates: str, dtype: torch.dtype) -> int:
    return _core.layer_kernel(mode, gates, DTYPES[dtype])


@functools.lru_cache(maxsize=16)
def _tensor(sizes: tuple[int, ...]) -> Tensor:
    return torch.tensor(sizes, dtype=torch.int64)


def _offsets(sizes: Sequence[int]) -> list[int]:
    """The first row of each step."""
    return [0, *itertools.accumulate(sizes)][:-1]


def _last_rows(sizes: Sequence[int]) -> Tensor:
    """The row of the last step of each sequence."""
    offsets = _offsets(sizes)
    steps = [sum(size > b for size in sizes) for b in range(sizes[0])]
    return torch.tensor([offsets[count - 1] + b for b, count in enumerate(steps)])


def _rows_before(sizes: Sequence[int], reverse: bool) -> Tensor:
    """For each row, that of the state before it in [h_0, y]."""
    offsets, batch, last = _offsets(sizes), sizes[0], len(sizes) - 1
    rows = []
    for t, size in enumerate(sizes):
        before = t + 1 if reverse else t - 1
        known = 0 if before < 0 or before > last else min(size, sizes[before])
        rows += [batch + offsets[before] + b if b < known else b for b in range(size)]
    return torch.tensor(rows)
