"""A recurrent layer by the kernels: the whole sequence in one call, and its gradient.

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
from torch.nn.functional import linear

from isrlu import _core
from isrlu.torch import _native, _rnn_formula
from isrlu.torch._rnn_formula import States, Weights

DTYPES = {torch.float32: "float32", torch.float64: "float64"}
STATES = {"LSTM": 2, "GRU": 1}


class How(NamedTuple):
    """What is to be computed, but for the tensors."""

    mode: str
    gates: str
    sizes: Sequence[int]
    reverse: bool
    lengths: Tensor | None  # the sizes for the kernels, where they change


def takes(data: Tensor, states: States | None, weights: Weights) -> bool:
    """Whether the kernels can do this layer: plain CPU tensors of one dtype, no projection, no autocast."""
    if weights.hr is not None or torch._C._is_any_autocast_enabled():
        return False
    tensors = (data, *(states or ()), *weights[:4])
    if _core.plain(*tensors):
        return True
    given = [tensor for tensor in tensors if tensor is not None]
    return (data.dtype in DTYPES or data.dtype is torch.bfloat16) and all(
        tensor.dtype is data.dtype and _native.takes(tensor) for tensor in given
    )


def layer(
    mode: str, gates: str, data: Tensor, sizes: Sequence[int], states: States | None, weights: Weights, reverse: bool
) -> tuple[Tensor, States]:
    """Outputs and last states, as `_rnn_formula.layer` has them; bfloat16 is float32 within and rounded at the end."""
    if data.dtype is torch.bfloat16:
        wide = Weights._make(None if weight is None else weight.float() for weight in weights)
        wide_states = states and tuple(s.float() for s in states)
        y, last = layer(mode, gates, data.float(), sizes, wide_states, wide, reverse)
        return y.bfloat16(), tuple(state.bfloat16() for state in last)
    lengths = None if sizes[-1] == sizes[0] else torch.tensor(sizes, dtype=torch.int64, device="cpu")
    how = How(mode, gates, sizes, reverse, lengths)
    if torch.is_grad_enabled():
        tensors = (data, *(states or (None,) * STATES[mode]), *weights[:4])
        if any(tensor is not None and tensor.requires_grad for tensor in tensors):
            y, *last = _Layer.apply(how, *tensors)
            return y, tuple(last)
    y, last, _ = _forward(how, data, states, weights, keep=False)
    return y, last


class _Layer(torch.autograd.Function):
    """y, h_n(, c_n) from data, h_0(, c_0) and the weights."""

    @staticmethod
    def forward(ctx: Any, how: How, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        y, last, kept = _forward(how, *_parted(tensors), keep=True)
        ctx.how, ctx.kept = how, len(kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*kept, *tensors)
        return y, *last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # once: a checkpoint computes them anew, and only one time
        kept, tensors = saved[: ctx.kept], saved[ctx.kept :]
        plain = all(grad is None or grad.numel() == 0 or _native.takes(grad) for grad in grads)
        differentiate = _by_kernels if plain and not torch.is_grad_enabled() else _by_formula
        return None, *differentiate(ctx.how, kept, tensors, grads)


def _parted(tensors: Sequence[Any]) -> tuple[Tensor, States | None, Weights]:
    return tensors[0], None if tensors[1] is None else tuple(tensors[1:-4]), Weights(*tensors[-4:])


def _forward(
    how: How, data: Tensor, states: States | None, weights: Weights, keep: bool
) -> tuple[Tensor, States, tuple[Tensor, ...]]:
    """Outputs, last states, and what the backward pass needs: the outputs, the gates, the cell states."""
    if len(how.sizes) == 1:
        return _one_step(how, data, states or _rnn_formula.zeros(how.mode, data, len(data), weights), weights, keep)
    tensors = (data, *weights[:4], *(states or ()))
    given: list[Any] = [None if tensor is None else tensor.contiguous() for tensor in tensors]
    data, w_ih, w_hh, b_ih, b_hh, *own = given
    rows, width = data.shape
    batch, hidden = how.sizes[0], w_hh.shape[1]
    y, h = data.new_empty(rows, hidden), data.new_empty(1, batch, hidden)
    c = data.new_empty(1, batch, hidden) if how.mode == "LSTM" else None
    gates = data.new_empty(rows, 4 * hidden) if keep else None
    cells = data.new_empty(rows, hidden) if keep and how.mode == "LSTM" else None
    _core.layer_forward(
        *_where(how, w_hh, own),
        *(rows, width, data.data_ptr(), w_ih.data_ptr(), _address(b_ih), _address(b_hh)),
        *(_address(gates), y.data_ptr(), _address(cells), h.data_ptr(), _address(c)),
    )
    kept = tuple(tensor for tensor in (y, gates, cells) if tensor is not None) if keep else ()
    return y, (h,) if c is None else (h, c), kept


def _one_step(
    how: How, data: Tensor, states: States, weights: Weights, keep: bool
) -> tuple[Tensor, States, tuple[Tensor, ...]]:
    """The same for one step: its products are PyTorch's, as weights that are used once are not worth packing."""
    h, *old = [state.contiguous() for state in states]
    x, state = linear(data, weights.ih, weights.b_ih), linear(h, weights.hh, weights.b_hh)
    y, *new = [torch.empty_like(each) for each in (h, *old)]
    gates = h.new_empty(len(h), 4 * h.shape[1]) if keep else None
    _core.layer_step(
        *(_kernel(how.mode, how.gates, h.dtype), *h.shape, x.data_ptr(), state.data_ptr()),
        *(h.data_ptr(), _address(*old), _address(gates), y.data_ptr(), _address(*new)),
    )
    last = tuple([state.unsqueeze(0) for state in (y.clone(), *new)])
    return y, last, () if gates is None else (y, gates, *[state.clone() for state in new])


def _by_kernels(how: How, kept: Any, tensors: Any, grads: Any) -> tuple[Tensor | None, ...]:
    """Gradients of data, states and weights: the sequence backwards in one call, then one product for each weight."""
    mode = how.mode
    data, states, weights = _parted(tensors)
    own = [state.contiguous() for state in states or ()]
    y, buffer, *cells = kept
    w_hh = weights.hh.contiguous()
    hidden = w_hh.shape[1]
    slopes = torch.empty_like(buffer)
    grad_y = torch.zeros_like(y) if grads[0] is None else grads[0].contiguous()
    grad_states = tuple(
        y.new_zeros(how.sizes[0], hidden) if grad is None else grad[0].clone(memory_format=torch.contiguous_format)
        for grad in grads[1:]
    )
    kernel, *extents, address, h0, c0 = _where(how, w_hh, own)
    one_step = len(how.sizes) == 1
    _core.layer_backward(
        *(kernel, *extents, 0 if one_step else address, h0, c0),
        *(buffer.data_ptr(), y.data_ptr(), _address(*cells), grad_y.data_ptr(), slopes.data_ptr()),
        *(grad_states[0].data_ptr(), _address(*grad_states[1:])),
    )
    of_input = slopes if mode == "LSTM" else slopes[:, hidden:]
    of_state = slopes if mode == "LSTM" else slopes[:, : 3 * hidden]
    if one_step:
        _add_product(grad_states[0], mode, slopes, w_hh)
    grad_ih = of_input.t() @ data
    grad_hh = _state_weight(how, of_state, y, *own[:1])
    b_ih = None if weights.b_ih is None else of_input.sum(0)
    b_hh = b_ih
    if mode == "GRU":
        grad_hh = grad_hh.roll(-hidden, 0)
        b_hh = None if b_ih is None else torch.cat([b_ih[: 2 * hidden], slopes[:, :hidden].sum(0)])
    elif b_ih is not None:
        b_hh = b_ih.clone()
    found = grad_states if states else (None,) * len(grad_states)
    return of_input @ weights.ih, *found, grad_ih, grad_hh, b_ih, b_hh


def _add_product(grad_h: Tensor, mode: str, slopes: Tensor, w_hh: Tensor) -> None:
    """grad_h += slopes W_hh, by PyTorch: for one step, for which W_hh is not worth packing."""
    if mode == "LSTM":
        grad_h.addmm_(slopes, w_hh)
    else:
        hidden = w_hh.shape[1]
        grad_h.addmm_(slopes[:, hidden : 3 * hidden], w_hh[: 2 * hidden]).addmm_(slopes[:, :hidden], w_hh[2 * hidden :])


def _state_weight(how: How, slopes: Tensor, y: Tensor, h0: Tensor | None = None) -> Tensor:
    """Slopes' product with the state before each step, which is the output of the step before, or h_0."""
    sizes, reverse = how.sizes, how.reverse
    batch = sizes[0]
    if sizes[-1] != batch:
        before = torch.cat([y.new_zeros(batch, y.shape[1]) if h0 is None else h0, y])
        return slopes.t() @ before[_rows_before(sizes, reverse)]
    later, before = (slopes[:-batch], y[batch:]) if reverse else (slopes[batch:], y[:-batch])
    first = slopes[-batch:] if reverse else slopes[:batch]
    if len(sizes) == 1 and h0 is not None:
        return first.t() @ h0
    product = torch.mm(later.t(), before)
    return product if h0 is None else product.addmm_(first.t(), h0)


def _by_formula(how: How, kept: Any, tensors: Any, grads: Any) -> tuple[Tensor | None, ...]:
    """The same through the formula in torch ops: itself differentiable, and for gradients that are no plain tensors."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        tensors = [t if t is None or t.requires_grad else t.detach().requires_grad_() for t in tensors]
        data, states, weights = _parted(tensors)
        y, last = _rnn_formula.layer(how.mode, how.gates, data, how.sizes, states, weights, how.reverse)
        outputs, given = zip(*((o, g) for o, g in zip((y, *last), grads, strict=True) if g is not None), strict=True)
        inputs = [t for t in tensors if t is not None]
        found = iter(torch.autograd.grad(outputs, inputs, given, create_graph=create_graph, allow_unused=True))
    return tuple(None if t is None else next(found) for t in tensors)


def _where(how: How, w_hh: Tensor, states: Sequence[Tensor]) -> tuple[Any, ...]:
    """What both kernels are told first: the kind of layer, its extents, W_hh and the initial states, if any."""
    extents = len(how.sizes), how.sizes[0], w_hh.shape[1]
    state_addresses = _address(*states[:1]), _address(*states[1:])
    kernel = _kernel(how.mode, how.gates, w_hh.dtype)
    return kernel, *extents, _address(how.lengths), how.reverse, w_hh.data_ptr(), *state_addresses


def _address(tensor: Tensor | None = None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


@functools.cache
def _kernel(mode: str, gates: str, dtype: torch.dtype) -> int:
    return _core.layer_kernel(mode, gates, DTYPES[dtype])


def _offsets(sizes: Sequence[int]) -> list[int]:
    """The first row of each step."""
    return [0, *itertools.accumulate(sizes)][:-1]


def _rows_before(sizes: Sequence[int], reverse: bool) -> Tensor:
    """For each row, that of the state before it in [h_0, y]."""
    offsets, batch, last = _offsets(sizes), sizes[0], len(sizes) - 1
    rows = []
    for t, size in enumerate(sizes):
        before = t + 1 if reverse else t - 1
        known = 0 if before < 0 or before > last else min(size, sizes[before])
        rows += [batch + offsets[before] + b if b < known else b for b in range(size)]
    return torch.tensor(rows, device="cpu")
