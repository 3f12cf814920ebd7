"""The functions in plain torch ops, for compilers, exporters, function transforms, subclasses and other devices.

    isrlu(x)        = x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0
    isru(x)         = x / sqrt(1 + alpha x^2)
    isru_sigmoid(x) = (1 + isru(x / 2)) / 2
    sisrlu(x)       = lambda isrlu(x) for x >= 0, lambda beta isrlu(x) for x < 0

Computed this way, x^2 overflows. Also, with r = 1/sqrt(1 + alpha x^2), autograd's derivative of x r has two terms that
cancel for large |x|: r - alpha x^2 r^3. Where z = sqrt(alpha) x is large, the function is therefore written in t = 1/z,
which has neither problem at any order of derivative:

    isru(x) = sign(x) / sqrt(alpha) / sqrt(1 + t^2)         derivative: t^3 / (1 + t^2)^(3/2)

Every `where` gets finite numbers in the branch that it does not select. Autograd multiplies that branch's derivative by
zero, and zero times infinity is NaN.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_exporting

from isrlu.signal import sisrlu_constants
from isrlu.torch import _private

BEND = 0.5  # t = 1/z is used above this |z|. Below it, the derivative's two terms differ by a factor of 5 or more.


def isrlu(x: Tensor, alpha: float | Tensor) -> Tensor:
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0; alpha is a number or broadcasts against x."""
    return _inverse_root_unit(x, alpha, linear=True)


def isru(x: Tensor, alpha: float | Tensor) -> Tensor:
    """x / sqrt(1 + alpha x^2); alpha is a number or broadcasts against x."""
    return _inverse_root_unit(x, alpha, linear=False)


def isru_sigmoid(x: Tensor) -> Tensor:
    """(1 + a) / 2, a = isru(|x|/2); for x < 0 r^2 / (2 (1 + a)), r = 1/sqrt(1 + x^2/4), accurate in the tail."""
    half = compute(x) * 0.5
    v = torch.where(half < 0, -half, half)  # not abs(), whose derivative at 0 is 0
    far = v > BEND
    t = torch.where(far, torch.where(far, v, 1.0).reciprocal(), torch.where(far, 0.0, v))
    w = torch.rsqrt(1 + t * t)
    a, r = torch.where(far, w, t * w), torch.where(far, t * w, w)
    return torch.where(half < 0, (0.5 * r) * (r / (1 + a)), 0.5 + 0.5 * a).to(x.dtype)


def sisrlu(x: Tensor, alpha: float) -> Tensor:
    """isrlu(x) times lambda for x >= 0, times lambda beta for x < 0."""
    wide = compute(x)
    positive, negative = sisrlu_scales(alpha)
    y = isrlu(wide, alpha)
    return torch.where(wide >= 0, y * positive, y * negative).to(x.dtype)  # where() of two numbers would be float32


def sisrlu_scales(alpha: float) -> tuple[float, float]:
    """lambda and lambda beta. Compiled code keeps the numbers, and a new alpha is compiled again."""
    return _sisrlu_scales(alpha.__float__())  # for Dynamo this call, not float(), makes a constant of alpha


@_private.constant_result
def _sisrlu_scales(alpha: float) -> tuple[float, float]:
    """Dynamo calls this function while it traces, instead of tracing it."""
    beta, lambda_ = sisrlu_constants(alpha)
    return lambda_, lambda_ * beta


def apply(function: str, x: Tensor, alpha: float | Tensor) -> Tensor:
    """Apply the function of this name. isru_sigmoid ignores alpha."""
    if function == "isru_sigmoid":
        return isru_sigmoid(x)
    if function == "sisrlu":
        assert not isinstance(alpha, Tensor)
        return sisrlu(x, alpha)
    return _inverse_root_unit(x, alpha, linear=function == "isrlu")


def compute(x: Tensor) -> Tensor:
    """x in the dtype of the computation: float32 for float16 and bfloat16, whose results are rounded once."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def exact(number: Any, dtype: torch.dtype) -> Any:
    """A number of the formula. torch.onnx.export stores numbers in float32: in float64 they are tensors there."""
    if isinstance(number, Tensor) or dtype is not torch.float64 or not is_exporting():
        return number
    return torch.tensor(number, dtype=dtype)


def per_channel(alpha: float | Tensor, x: Tensor) -> float | Tensor:
    """Reshape a tensor of one alpha, or one per channel (dim 1), to broadcast; limit a number to the dtype's range."""
    if not isinstance(alpha, Tensor):
        return min(alpha, torch.finfo(torch.float64 if x.dtype is torch.float64 else torch.float32).max)
    return alpha.reshape(()) if alpha.numel() == 1 else alpha.reshape(alpha.numel(), *[1] * (x.dim() - 2))


def is_zero(alpha: float, dtype: torch.dtype) -> bool:
    """Whether a number alpha is 0 in the dtype of the computation, as it is in the kernels."""
    return alpha <= (0.0 if dtype is torch.float64 else 2.0**-150)


def tensor_if_zero(alpha: float | Tensor, x: Tensor) -> float | Tensor:
    """Convert the number 0 to a tensor. Only the code for tensors handles alpha = 0 without infinities and NaN."""
    if isinstance(alpha, Tensor) or not is_zero(alpha, x.dtype):
        return alpha
    return torch.zeros((), dtype=x.dtype, device=x.device)


def _inverse_root_unit(x: Tensor, alpha: float | Tensor, *, linear: bool) -> Tensor:
    wide = compute(x)
    alpha = tensor_if_zero(alpha, wide)
    if isinstance(alpha, Tensor):
        alpha = alpha.to(wide.dtype)
        root: float | Tensor = torch.where(alpha > 0, alpha, 1.0).sqrt()
        limit = torch.finfo(wide.dtype).max
        z = root * wide.clamp(-limit, limit)  # for infinite x the gradient of alpha would be 0 * inf
    else:
        root = math.sqrt(alpha)
        z = root * wide
    far = z < -BEND if linear else z.abs() > BEND
    same = wide >= 0 if linear else None
    if isinstance(alpha, Tensor):  # alpha may be 0: then f(x) = x, which must not be computed where x^2 overflows
        far = far & (alpha > 0)
        huge = (wide.abs() > math.sqrt(torch.finfo(wide.dtype).max)) & (alpha == 0)
        same = huge if same is None else huge | same
    near = torch.where(far if same is None else far | same, 0.0, wide)
    t = torch.where(far, z, 1.0).reciprocal()
    w = torch.rsqrt(1 + torch.where(far, t * t, (alpha * near) * near))
    saturated = w * (-1 / root) if linear else torch.sign(wide) * (w * (1 / root))
    y = torch.where(far, saturated, near * w)
    return (y if same is None else torch.where(same, wide, y)).to(x.dtype)
