"""A recurrent layer by the kernels: one call for the whole sequence, and one for its gradient.

The forward pass saves the gate outputs, the cell states and the layer's output. The backward pass computes all
derivatives from them. `_core.gate_layout` describes the layout of a row of gates [4 hidden].
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from isrlu import _core
from isrlu.torch import _rnn_formula
from isrlu.torch._rnn_formula import States, Weights

DTYPES = (torch.float32, torch.float64, torch.bfloat16)


class GateLayout(NamedTuple):
    """The layout of a row of gates [4 hidden]. See core/recurrent/layer.hpp."""

    order: str
    columns: int
    first_input: int
    first_state: int
    first_state_block: int


LAYOUTS = {mode: GateLayout(**_core.gate_layout(mode)) for mode in ("LSTM", "GRU")}
KERNELS = {(mode, gates): _core.recurrent_kernel(mode, gates) for mode in LAYOUTS for gates in ("isru", "exact")}
STATES = {"LSTM": 2, "GRU": 1}


class Call(NamedTuple):
    """The arguments of a layer that are not tensors."""

    mode: str
    gates: str
    sizes: Sequence[int]
    reverse: bool

    @property
    def kernel(self) -> int:
        return KERNELS[self.mode, self.gates]

    @property
    def sequence(self) -> tuple[int, Sequence[int], bool]:
        """The arguments that the forward and backward kernels share."""
        return self.kernel, self.sizes, self.reverse


def can_take(data: Tensor, states: States | None, weights: Weights) -> bool:
    """Whether the kernels support this layer: plain CPU tensors of one dtype, no projection, no autocast."""
    if weights.hr is not None or data.dtype not in DTYPES or torch.is_autocast_enabled("cpu"):
        return False
    return _core.are_plain(data, *(states or ()), *weights[:4])


def layer(
    mode: str,
    gates: str,
    data: Tensor,
    sizes: Sequence[int],
    states: States | None,
    weights: Weights,
    reverse: bool,
    packed: _core.PackedWeights | None = None,
) -> tuple[Tensor, States]:
    """Outputs and last states, as in `_rnn_formula.layer`. bfloat16 is computed in float32 and rounded at the end.

    `packed` are the same weights, packed. Where a gradient is wanted they are not used.
    """
    if data.dtype is torch.bfloat16:
        wide = Weights._make(None if weight is None else weight.float() for weight in weights)
        wide_states = states and tuple(s.float() for s in states)
        y, last = layer(mode, gates, data.float(), sizes, wide_states, wide, reverse)
        return y.bfloat16(), tuple(state.bfloat16() for state in last)
    call = Call(mode, gates, sizes, reverse)
    if torch.is_grad_enabled():
        tensors = (data, *(states or (None,) * STATES[mode]), *weights[:4])
        if any(tensor is not None and tensor.requires_grad for tensor in tensors):
            y, *last = _Layer.apply(call, *tensors)
            return y, tuple(last)
    y, last, _ = _forward(call, data, states, weights, keep=False, packed=packed)
    return y, last


class _Layer(torch.autograd.Function):
    """y, h_n(, c_n) from data, h_0(, c_0) and the weights."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        y, last, kept = _forward(call, *_split(tensors), keep=True)
        ctx.call, ctx.kept = call, len(kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*kept, *tensors)
        return y, *last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once: activation checkpointing recomputes them only once
        kept, tensors = saved[: ctx.kept], saved[ctx.kept :]
        plain = all(grad is None or grad.numel() == 0 or _core.are_plain(grad) for grad in grads)
        differentiate = _by_kernels if plain and not torch.is_grad_enabled() else _by_formula
        return None, *differentiate(ctx.call, kept, tensors, grads)


def _split(tensors: Sequence[Any]) -> tuple[Tensor, States | None, Weights]:
    """Data, states and weights from the inputs of the autograd function."""
    return tensors[0], None if tensors[1] is None else tuple(tensors[1:-4]), Weights(*tensors[-4:])


def _pair(states: Sequence[Tensor] | None) -> tuple[Tensor | None, Tensor | None]:
    """(h, c), each None if missing."""
    h, c, *_ = (*(states or ()), None, None)
    return h, c


def _forward(
    call: Call,
    data: Tensor,
    states: States | None,
    weights: Weights,
    keep: bool,
    packed: _core.PackedWeights | None = None,
) -> tuple[Tensor, States, tuple[Tensor, ...]]:
    """Outputs, last states, and the tensors for the backward pass: outputs, gates, cell states."""
    if len(call.sizes) == 1 and packed is None:
        return _one_step(call, data, states or _rnn_formula.zeros(call.mode, data, len(data), weights), weights, keep)
    data = data.contiguous()
    given = packed or tuple([None if weight is None else weight.contiguous() for weight in weights[:4]])
    initial = _pair([state.contiguous() for state in states or ()])
    rows, batch, hidden = len(data), call.sizes[0], weights.hh.shape[1]
    y, h = data.new_empty(rows, hidden), data.new_empty(1, batch, hidden)
    c = data.new_empty(1, batch, hidden) if call.mode == "LSTM" else None
    gates = data.new_empty(rows, 4 * hidden) if keep else None
    cells = data.new_empty(rows, hidden) if keep and call.mode == "LSTM" else None
    _core.recurrent_forward(*call.sequence, data, given, initial, y, (h, c), (gates, cells))
    kept = tuple(tensor for tensor in (y, gates, cells) if tensor is not None) if keep else ()
    return y, (h,) if c is None else (h, c), kept


def _one_step(
    call: Call, data: Tensor, states: States, weights: Weights, keep: bool
) -> tuple[Tensor, States, tuple[Tensor, ...]]:
    """`_forward` for one step. PyTorch computes the matrix products: packing weights for one use does not pay off."""
    given = [state.contiguous() for state in states]
    h = given[0]
    products = linear(data, weights.ih, weights.b_ih).contiguous(), linear(h, weights.hh, weights.b_hh).contiguous()
    new = [torch.empty_like(each) for each in given]
    gates = h.new_empty(len(h), 4 * h.shape[1]) if keep else None
    _core.recurrent_step(call.kernel, products, _pair(given), _pair(new), gates)
    y, *cells = new
    last = tuple([state.unsqueeze(0) for state in (y.clone(), *cells)])
    return y, last, () if gates is None else (y, gates, *[state.clone() for state in cells])


def _by_kernels(call: Call, kept: Any, tensors: Any, grads: Any) -> tuple[Tensor | None, ...]:
    """Gradients of data, states and weights: one call for the whole sequence, then one product per weight."""
    mode, layout = call.mode, LAYOUTS[call.mode]
    data, states, weights = _split(tensors)
    initial = [state.contiguous() for state in states or ()]
    y, gates, *cells = kept
    w_hh = weights.hh.contiguous()
    hidden = w_hh.shape[1]
    slopes = torch.empty_like(gates)
    grad_y = torch.zeros_like(y) if grads[0] is None else grads[0].contiguous()
    grad_states = tuple(
        y.new_zeros(call.sizes[0], hidden) if grad is None else grad[0].clone(memory_format=torch.contiguous_format)
        for grad in grads[1:]
    )
    one_step = len(call.sizes) == 1
    _core.recurrent_backward(
        *call.sequence,
        None if one_step else w_hh,
        _pair(initial),
        (y, gates, *(cells or [None])),
        (grad_y, *_pair(grad_states)),
        slopes,
    )
    width = layout.columns * hidden
    of_input = slopes.narrow(1, layout.first_input * hidden, width)
    of_state = slopes.narrow(1, layout.first_state * hidden, width)
    shift = -layout.first_state_block * hidden  # from the row order of PyTorch's weight to our column order
    if one_step:
        grad_states[0].addmm_(of_state, w_hh.roll(shift, 0) if shift else w_hh)
    grad_ih = of_input.t() @ data
    grad_hh = _grad_state_weight(call, of_state, y, *initial[:1])
    b_ih = None if weights.b_ih is None else of_input.sum(0)
    b_hh = None if b_ih is None else b_ih.clone() if mode == "LSTM" else of_state.sum(0).roll(-shift, 0)
    if shift:
        grad_hh = grad_hh.roll(-shift, 0)
    found = grad_states if states else (None,) * len(grad_states)
    return of_input @ weights.ih, *found, grad_ih, grad_hh, b_ih, b_hh


def _grad_state_weight(call: Call, slopes: Tensor, y: Tensor, h0: Tensor | None = None) -> Tensor:
    """Gradient of W_hh: product of the slopes and the state before each step (the previous output, or h_0)."""
    sizes, reverse = call.sizes, call.reverse
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


def _by_formula(call: Call, kept: Any, tensors: Any, grads: Any) -> tuple[Tensor | None, ...]:
    """`_by_kernels` by the formula in torch ops: for double backward, and for gradients that are not plain tensors."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        tensors = [t if t is None or t.requires_grad else t.detach().requires_grad_() for t in tensors]
        data, states, weights = _split(tensors)
        y, last = _rnn_formula.layer(call.mode, call.gates, data, call.sizes, states, weights, call.reverse)
        outputs, given = zip(*((o, g) for o, g in zip((y, *last), grads, strict=True) if g is not None), strict=True)
        inputs = [t for t in tensors if t is not None]
        found = iter(torch.autograd.grad(outputs, inputs, given, create_graph=create_graph, allow_unused=True))
    return tuple(None if t is None else next(found) for t in tensors)


def _offsets(sizes: Sequence[int]) -> list[int]:
    """The first row of each step."""
    return [0, *itertools.accumulate(sizes)][:-1]


def _rows_before(sizes: Sequence[int], reverse: bool) -> Tensor:
    """For each row, the row of its previous state in [h_0, y]."""
    offsets, batch, last = _offsets(sizes), sizes[0], len(sizes) - 1
    rows = []
    for t, size in enumerate(sizes):
        before = t + 1 if reverse else t - 1
        known = 0 if before < 0 or before > last else min(size, sizes[before])
        rows += [batch + offsets[before] + b if b < known else b for b in range(size)]
    return torch.tensor(rows, device="cpu")
