"""LSTM and GRU with isru instead of tanh and isru_sigmoid instead of the sigmoid. The rest is as in torch.nn."""

from collections.abc import Sequence
from operator import is_not
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.compiler import is_dynamo_compiling
from torch.nn.utils.rnn import PackedSequence

from isrlu import _core
from isrlu.torch import _packed_modules, _rnn_formula, _rnn_kernels
from isrlu.torch._rnn_formula import GATES, STEPS, States, Weights


class _Gated:
    """Shared by all modules: the choice of the gate functions, and conversion from torch.nn's module."""

    original: ClassVar[type[nn.Module]]
    options: ClassVar[tuple[str, ...]] = ("bias",)

    def __init__(self, *args: Any, gates: str = "isru", **kwargs: Any) -> None:
        if gates not in GATES:
            raise ValueError(f"unknown gates {gates!r}: known are {', '.join(GATES)}")
        super().__init__(*args, **kwargs)
        self.gates = gates

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gates={self.gates}"  # type: ignore[misc]

    @classmethod
    def from_torch(cls, module: nn.Module, gates: str = "isru") -> Self:
        """A new module with the options and copied weights of torch.nn's module. Frozen weights stay frozen."""
        if not isinstance(module, cls.original):
            raise TypeError(f"{cls.__name__}.from_torch takes a torch.nn.{cls.__name__}, got {type(module).__name__}")
        weight = next(module.parameters())
        options = {name: getattr(module, name) for name in cls.options}
        new: Any = cls(
            module.input_size, module.hidden_size, **options, gates=gates, device=weight.device, dtype=weight.dtype
        )
        new.load_state_dict(module.state_dict())
        for name, parameter in module.named_parameters():
            new.get_parameter(name).requires_grad_(parameter.requires_grad)
        return new.train(module.training)


class _Recurrent(_Gated):
    """Shapes, states and layers of LSTM and GRU, with torch.nn's constructor and checks.

    The base class is nn.RNNBase, because torch.compile rejects subclasses of nn.LSTM and nn.GRU.
    """

    options: ClassVar[tuple[str, ...]] = ("num_layers", "bias", "batch_first", "dropout", "bidirectional")
    _packed_weights: tuple[_core.PackedWeights, ...] | None = None  # of each layer and direction

    def pack_weights(self) -> Self:
        """Declare that the weights do not change: pack them once, for inference, instead of in every call.

        For many short calls, as in real-time audio. Results are the same as without, bit for bit, for sequences of two
        or more steps. The packed copy is used where no gradient is wanted, and dropped as soon as a weight changes in a
        way that PyTorch counts: an optimizer's step, load_state_dict, assignment of a parameter or of its `.data`,
        `to`, `train()`. Then calls are correct, but as slow as before; pack again. Not seen: a write into a weight
        through `.data`, `.detach().numpy()` or shared memory. Call `unpack_weights` before, or `pack_weights` after it.

        Copies (copy.deepcopy, pickle) start unpacked. Returns the module.

        Raises:
            ValueError: a weight is not a plain float32 or float64 parameter on the CPU, or there is a projection.

        >>> lstm = LSTM(10, 20).eval().pack_weights()
        >>> with torch.inference_mode():
        ...     output, states = lstm(torch.zeros(1, 1, 10))
        """
        module: Any = self  # an nn.RNNBase too
        if module.proj_size:
            raise ValueError(f"{module.mode}: weights with a projection (proj_size {module.proj_size}) can't be packed")
        kernel = _rnn_kernels.KERNELS[module.mode, module.gates]
        packed = [_core.PackedWeights(kernel, module._parameters, tuple(names)) for names in module._all_weights]
        self._packed_weights = tuple(packed)
        _packed_modules.watch(self)
        return self

    def unpack_weights(self: Any) -> None:
        """Drop the packed copy."""
        self.__dict__.pop("_packed_weights", None)

    @property
    def weights_packed(self: Any) -> bool:
        """Whether the next call in inference uses a packed copy of the weights."""
        packed = self._packed_weights
        return packed is not None and all(each.is_current(self._parameters) for each in packed)

    def train(self, mode: bool = True) -> Self:
        """As in torch.nn. train() drops packed weights, eval() keeps them."""
        if mode:
            self.unpack_weights()
        return super().train(mode)  # type: ignore[misc]

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        self.unpack_weights()
        return super()._apply(*args, **kwargs)  # type: ignore[misc]

    def __getstate__(self: Any) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_packed_weights"}  # type: ignore[attr-defined]

    def forward(self: Any, input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        """Outputs and last states; arguments and shapes as in torch.nn's module."""
        if self._packed_weights is not None and not is_dynamo_compiling():
            if len(self._packed_weights) == 1 and not torch.is_autocast_enabled("cpu"):
                found = _core.packed_forward(self._packed_weights[0], self._parameters, input, hx, self.batch_first)
                if found is not None:
                    return found
            if not self.weights_packed:
                self.unpack_weights()
        if any(map(is_not, self._flat_weights, map(self._parameters.get, self._flat_weights_names))):
            self._update_flat_weights()  # parametrized weights, or torch.func.functional_call
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(f"{self.mode}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        states = None if hx is None else self._unpacked(hx)
        if states is not None and any(state.dim() != input.dim() for state in states):
            kind = "batched 3-D" if input.dim() == 3 else "unbatched 2-D"
            dims = ", ".join(f"{state.dim()}-D" for state in states)
            raise RuntimeError(f"For {kind} input, the initial states should also be {kind[-3:]} but got {dims}")
        if input.dim() == 3:
            output, states = self._forward_batched(input, states)
        else:
            side = 0 if self.batch_first else 1
            states = None if states is None else tuple(state.unsqueeze(1) for state in states)
            output, states = self._forward_batched(input.unsqueeze(side), states)
            output, states = output.squeeze(side), tuple(state.squeeze(1) for state in states)
        return output, self._packed(states)

    def _forward_batched(self: Any, input: Tensor, states: States | None) -> tuple[Tensor, States]:
        self._check(input, states, None)
        steps = input.transpose(0, 1) if self.batch_first else input
        length, batch, width = steps.shape
        if length == 0:
            raise RuntimeError(f"{self.mode}: Expected sequence length to be larger than 0")
        data, states = self._layers(steps.reshape(length * batch, width), (batch,) * length, states)
        output = data.view(length, batch, data.shape[1])
        return output.transpose(0, 1) if self.batch_first else output, states

    def _forward_packed(self: Any, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, sorted_indices, unsorted_indices = input
        sizes = batch_sizes.tolist()
        if sorted(sizes, reverse=True) != sizes or sum(sizes) != len(data):
            raise RuntimeError(
                f"{self.mode}: the batch sizes of a PackedSequence must not increase and must add up to its "
                f"{len(data)} rows, got {sizes}; make it with pack_padded_sequence or pack_sequence"
            )
        if hx is not None:
            hx = self._packed(self._unpacked(hx))
            hx = self._unpacked(self.permute_hidden(hx, sorted_indices))
        self._check(data, hx, batch_sizes)
        data, states = self._layers(data, sizes, hx)
        packed = PackedSequence(data, batch_sizes, sorted_indices, unsorted_indices)
        return packed, self.permute_hidden(self._packed(states), unsorted_indices)

    def _check(self: Any, input: Tensor, states: States | None, batch_sizes: Tensor | None) -> None:
        """Run torch.nn's checks of input and initial states. They are slow, so they are skipped if the input fits."""
        if states is not None:
            self.check_forward_args(input, self._packed(states), batch_sizes)
        elif input.dtype is not self._flat_weights[0].dtype or input.shape[-1] != self.input_size:
            self.check_input(input, batch_sizes)

    def _layers(self: Any, data: Tensor, sizes: Sequence[int], states: States | None) -> tuple[Tensor, States]:
        """Run all layers and directions. Under autocast use its dtype where torch.nn's module does.

        torch.nn.LSTM does so on every device, torch.nn.GRU on every device except the CPU.
        """
        device = data.device.type
        reduced = torch.is_autocast_enabled(device) and (self.mode == "LSTM" or device != "cpu")
        if not reduced or data.dtype is torch.float64:
            return self._run(data, sizes, states, self._flat_weights, self._packed_weights)
        dtype = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            states = states and tuple(state.to(dtype) for state in states)
            return self._run(data.to(dtype), sizes, states, [weight.to(dtype) for weight in self._flat_weights])

    def _run(
        self: Any,
        data: Tensor,
        sizes: Sequence[int],
        states: States | None,
        flat_weights: Sequence[Tensor],
        packed: Sequence[_core.PackedWeights] | None = None,
    ) -> tuple[Tensor, States]:
        """Run all layers and directions. The rows of `data` are ordered as in a PackedSequence."""
        directions = 2 if self.bidirectional else 1
        runs = self.num_layers * directions
        each = len(flat_weights) // runs
        last: list[States] = []
        for k in range(0, runs, directions):
            outputs = []
            for i in range(k, k + directions):
                flat = flat_weights[i * each : (i + 1) * each]
                weights = Weights(*flat) if self.bias or not self.proj_size else Weights(flat[0], flat[1], hr=flat[2])
                initial = states and tuple(state[i] for state in states)
                native = not is_dynamo_compiling() and _rnn_kernels.can_take(data, initial, weights)
                args = (self.mode, self.gates, data, sizes, initial, weights, i != k)
                ready = packed[i] if packed else None
                y, new = _rnn_kernels.layer(*args, ready) if native else _rnn_formula.layer(*args)
                outputs.append(y)
                last.append(new)
            data = outputs[0] if directions == 1 else torch.cat(outputs, 1)
            if self.dropout and self.training and k + directions < runs:
                data = nn.functional.dropout(data, self.dropout)
        return data, last[0] if runs == 1 else tuple(torch.cat(states) for states in zip(*last, strict=True))


class LSTM(_Recurrent, nn.RNNBase):
    """i, f, o = isru_sigmoid(...), g = isru(...), c' = f c + i g, h' = o isru(c').

    Arguments, shapes, parameters and state_dict are those of torch.nn.LSTM.

    Args:
        gates: "isru", or "exact" for sigmoid and tanh.

    >>> lstm = LSTM(10, 20, num_layers=2)
    >>> output, (h, c) = lstm(torch.zeros(5, 3, 10))
    >>> output.shape, h.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    original = nn.LSTM
    options = (*_Recurrent.options, "proj_size")
    check_forward_args = nn.LSTM.check_forward_args  # type: ignore[assignment]
    get_expected_cell_size = nn.LSTM.get_expected_cell_size
    permute_hidden = nn.LSTM.permute_hidden  # type: ignore[assignment]

    def __init__(self, *args: Any, gates: str = "isru", **kwargs: Any) -> None:
        super().__init__("LSTM", *args, gates=gates, **kwargs)

    @staticmethod
    def _unpacked(hx: Any) -> States:
        if isinstance(hx, Tensor) or len(hx) != 2:
            raise TypeError("LSTM: the initial states must be a pair of tensors (h_0, c_0)")
        return tuple(hx)

    @staticmethod
    def _packed(states: States) -> tuple[Tensor, Tensor]:
        h, c = states
        return h, c


class GRU(_Recurrent, nn.RNNBase):
    """r, z = isru_sigmoid(...), n = isru(...), h' = (1 - z) n + z h.

    Arguments, shapes, parameters and state_dict are those of torch.nn.GRU.

    Args:
        gates: "isru", or "exact" for sigmoid and tanh.

    >>> gru = GRU(10, 20, bidirectional=True)
    >>> output, h = gru(torch.zeros(5, 3, 10))
    >>> output.shape, h.shape
    (torch.Size([5, 3, 40]), torch.Size([2, 3, 20]))
    """

    original = nn.GRU

    def __init__(self, *args: Any, gates: str = "isru", **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, gates=gates, **kwargs)

    @staticmethod
    def _unpacked(hx: Any) -> States:
        if not isinstance(hx, Tensor):
            raise TypeError(f"GRU: the initial state must be a tensor, got {type(hx).__name__}")
        return (hx,)

    @staticmethod
    def _packed(states: States) -> Tensor:
        return states[0]


class _Cell(_Gated):
    """One step: checks and shapes of LSTMCell and GRUCell."""

    def _step(self: Any, input: Tensor, states: States | None, mode: str) -> States:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: input has inconsistent input_size: got {input.shape[-1]}, expected {self.input_size}"
            )
        shape = (*input.shape[:-1], self.hidden_size)
        if states is None:
            states = (input.new_zeros(shape),) * (2 if mode == "LSTM" else 1)
        for state in states:
            if state.shape != shape:
                raise RuntimeError(f"{name}: Expected a state of shape {shape}, got {tuple(state.shape)}")
        if input.dim() == 1:
            return tuple(
                s.squeeze(0) for s in self._step(input.unsqueeze(0), tuple(s.unsqueeze(0) for s in states), mode)
            )
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if not is_dynamo_compiling() and _rnn_kernels.can_take(input, states, weights):
            h, last = _rnn_kernels.layer(mode, self.gates, input, (len(input),), states, weights, reverse=False)
            return h, *(state.squeeze(0) for state in last[1:])
        x = nn.functional.linear(input, weights.ih, weights.b_ih)
        return STEPS[mode](x, states, weights, GATES[self.gates])


class LSTMCell(_Cell, nn.LSTMCell):
    """One step of `LSTM`, with the interface of torch.nn.LSTMCell.

    >>> h, c = LSTMCell(10, 20)(torch.zeros(3, 10))
    >>> h.shape
    torch.Size([3, 20])
    """

    original = nn.LSTMCell

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """(h', c') from the input [batch, input_size] or [input_size] and (h, c), which default to zeros."""
        h, c = self._step(input, None if hx is None else LSTM._unpacked(hx), "LSTM")
        return h, c


class GRUCell(_Cell, nn.GRUCell):
    """One step of `GRU`, with the interface of torch.nn.GRUCell.

    >>> GRUCell(10, 20)(torch.zeros(3, 10)).shape
    torch.Size([3, 20])
    """

    original = nn.GRUCell

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """h' from the input [batch, input_size] or [input_size] and h, which defaults to zeros."""
        return self._step(input, None if hx is None else GRU._unpacked(hx), "GRU")[0]
