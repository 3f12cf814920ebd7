"""A recurrent layer by the kernels: one call for the whole sequence, and one for its gradient.

The forward pass saves the gate outputs, the cell states and the layer's output. The backward pass computes all
derivatives from them. `_core.gate_layout` describes the layout of a row of gates [4 hidden].
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import linear

from isrlu import _core
from isrlu.torch import _rnn_formula
from isrlu.torch._rnn_formula import States, Weights

CONTIGUOUS = torch.contiguous_format
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
        return None, *differentiate(ctx.call, kept, tensors, grads, ctx.needs_input_grad[1:])


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
    gates = _kept(data, rows, 4 * hidden) if keep else None
    cells = _kept(data, rows, hidden) if keep and call.mode == "LSTM" else None
    _core.recurrent_forward(*call.sequence, data, given, initial, y, (h, c), (gates, cells))
    kept = tuple(tensor for tensor in (y, gates, cells) if tensor is not None) if keep else ()
    return y, (h,) if c is None else (h, c), kept


def _kept(like: Tensor, rows: int, columns: int) -> Tensor:
    """Memory for the backward pass. Beyond 128 KB malloc may return it to the system after each training step."""
    if rows * columns < 1 << 15:
        return like.new_empty(rows, columns)
    return cast(Tensor, _core.pooled_tensor(like, rows, columns))


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


def _by_kernels(call: Call, kept: Any, tensors: Any, grads: Any, needed: Sequence[bool]) -> tuple[Tensor | None, ...]:
    """Gradients of data, states and weights. Those of the data and the weights are None where they are not needed."""
    data, states, weights = _split(tensors)
    y, gates, *cells = kept
    initial = _pair([state.contiguous() for state in states or ()])
    grad_y = torch.zeros_like(y) if grads[0] is None else grads[0].contiguous()
    grad_states = tuple(
        y.new_zeros(call.sizes[0], y.shape[1]) if grad is None else grad[0].clone(memory_format=torch.contiguous_format)
        for grad in grads[1:]
    )
    of_kernels = initial, (y, gates, *(cells or [None])), (grad_y, *_pair(grad_states))
    found = grad_states if states else (None,) * len(grad_states)
    if len(call.sizes) == 1:
        of_data, *of_weights = _one_step_gradients(call, data, weights, of_kernels)
        return of_data, *found, *of_weights
    bias = weights.b_ih is not None and (needed[-1] or needed[-2])
    wanted = needed[0], *needed[-4:-2], bias, bias
    inputs = data.contiguous(), weights.ih.contiguous(), weights.hh.contiguous()
    like = data, weights.ih, weights.hh, weights.b_ih, weights.b_hh
    results = tuple(
        None if tensor is None or not is_wanted else torch.empty_like(tensor, memory_format=CONTIGUOUS)
        for tensor, is_wanted in zip(like, wanted, strict=True)
    )
    _core.recurrent_gradients(*call.sequence, inputs, *of_kernels, results)
    return results[0], *found, *results[1:]


def _one_step_gradients(call: Call, data: Tensor, weights: Weights, of_kernels: Any) -> tuple[Tensor | None, ...]:
    """Gradients of data and weights for one step. The first state's is completed in place. As `_one_step`."""
    layout = LAYOUTS[call.mode]
    states, kept, grads = of_kernels
    (h0, _), (y, gates, _), (_, grad_h, _) = states, kept, grads
    slopes, hidden = torch.empty_like(gates), y.shape[1]
    _core.recurrent_step_backward(call.kernel, states, kept, grads, slopes)
    width = layout.columns * hidden
    of_input = slopes.narrow(1, layout.first_input * hidden, width)
    of_state = slopes.narrow(1, layout.first_state * hidden, width)
    shift = layout.first_state_block * hidden  # from our column order to the row order of PyTorch's weight
    grad_h.addmm_(of_state, _roll(weights.hh, -shift))
    grad_hh = torch.zeros_like(weights.hh) if h0 is None else _roll(of_state.t() @ h0, shift)
    b_ih = b_hh = None
    if weights.b_ih is not None:
        b_ih, b_hh = of_input.sum(0), _roll(of_state.sum(0), shift)
    return of_input @ weights.ih, of_input.t() @ data, grad_hh, b_ih, b_hh


def _roll(weight: Tensor, rows: int) -> Tensor:
    return weight.roll(rows, 0) if rows else weight


def _by_formula(call: Call, kept: Any, tensors: Any, grads: Any, needed: Any) -> tuple[Tensor | None, ...]:
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
