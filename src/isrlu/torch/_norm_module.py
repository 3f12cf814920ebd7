"""`DyISRU`: the element-wise replacement of nn.LayerNorm and nn.RMSNorm."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from isrlu._checks import check_finite
from isrlu.torch._norm import check_shape, dyisru


class DyISRU(nn.Module):
    """weight * u / sqrt(1 + u^2) + bias, u = alpha x + shift, in place of nn.LayerNorm or nn.RMSNorm.

    weight and bias have the shape `normalized_shape`, the last dims of the input. alpha and shift are one number each.
    All four are learned. No mean and no variance is computed: every element is mapped on its own.

    The state_dict of an nn.LayerNorm or nn.RMSNorm loads, also with strict=True: alpha, shift and a bias that it does
    not have keep their values.

    Args:
        normalized_shape: the last dims of the input, an integer or a sequence of integers, as in nn.LayerNorm.
        alpha: alpha at the start.
        shift: shift at the start.
        elementwise_affine: False: no weight and no bias.
        bias: False: no bias.
        device: of the parameters.
        dtype: of the parameters.

    >>> DyISRU(8)
    DyISRU((8,), alpha=0.5, shift=0, elementwise_affine=True, bias=True)
    """

    normalized_shape: tuple[int, ...]
    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        alpha: float = 0.5,
        shift: float = 0.0,
        *,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.elementwise_affine = elementwise_affine
        self._start = check_finite("alpha", alpha), check_finite("shift", shift)
        self._norm: list[nn.Module] = []  # in a list: its parameters are not this layer's

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.register_parameter("weight", parameter(*self.normalized_shape) if elementwise_affine else None)
        self.register_parameter("bias", parameter(*self.normalized_shape) if elementwise_affine and bias else None)
        self.alpha, self.shift = parameter(), parameter()
        self.reset_parameters()

    @classmethod
    def from_norm(cls, old: nn.Module, alpha: float = 0.5, shift: float = 0.0) -> "DyISRU":
        """A layer with the shape, weight and bias of an nn.LayerNorm or nn.RMSNorm, for `swap`.

        The new layer has copies of its parameters, with their dtype, device and requires_grad. It remembers the old
        layer until `fit` has been called or `forget_norm()`.

        >>> DyISRU.from_norm(nn.RMSNorm(8))
        DyISRU((8,), alpha=0.5, shift=0, elementwise_affine=True, bias=False)
        """
        if not isinstance(old, (nn.LayerNorm, nn.RMSNorm)):
            raise TypeError(f"from_norm takes an nn.LayerNorm or an nn.RMSNorm, got {type(old).__name__}")
        weight, bias = old.weight, getattr(old, "bias", None)
        new = cls(
            old.normalized_shape,
            alpha,
            shift,
            elementwise_affine=weight is not None,
            bias=bias is not None,
            device=None if weight is None else weight.device,
            dtype=None if weight is None else weight.dtype,
        )
        with torch.no_grad():
            for name, given in (("weight", weight), ("bias", bias)):
                if given is not None:
                    getattr(new, name).copy_(given).requires_grad_(given.requires_grad)
        new.train(old.training)
        new._norm = [old]
        return new

    @property
    def old_norm(self) -> nn.Module | None:
        """The layer that `from_norm` was given, until `fit` or `forget_norm`."""
        return self._norm[0] if self._norm else None

    def forget_norm(self) -> None:
        """Drop the old layer that `from_norm` remembers for `fit`."""
        self._norm = []

    def reset_parameters(self) -> None:
        """Set weight to 1, bias to 0, alpha and shift to their first values."""
        with torch.no_grad():
            for parameter, number in zip((self.alpha, self.shift), self._start, strict=True):
                parameter.fill_(number)
            if self.weight is not None:
                self.weight.fill_(1.0)
            if self.bias is not None:
                self.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if self.weight is None:
            check_shape(x, self.normalized_shape)
        return dyisru(x, self.weight, self.bias, self.alpha, self.shift)

    def extra_repr(self) -> str:
        known = type(self.alpha) in (nn.Parameter, Tensor) and not self.alpha.is_meta  # not a fake tensor
        alpha, shift = (self.alpha.item(), self.shift.item()) if known else self._start
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, alpha={alpha:.4g}, shift={shift:.4g}, {affine}"

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: list[str], *others: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *others)
        own = [prefix + name for name in ("alpha", "shift")]
        if any(key in state_dict for key in own):
            return
        if prefix + "weight" in state_dict or self.weight is None:  # the state of a norm
            for key in (*own, prefix + "bias"):
                if key in missing:
                    missing.remove(key)


def _shape(given: Any) -> tuple[int, ...]:
    sizes = (given,) if isinstance(given, Integral) else tuple(given) if isinstance(given, Iterable) else ()
    if not sizes or not all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 0 for n in sizes):
        raise ValueError(f"normalized_shape must be an integer or a sequence of integers, at least one, got {given!r}")
    return tuple(map(int, sizes))
