"""Launch the Triton kernels of DyISRU. The gate for its tensors, core/python/torch_norm.cpp, calls this."""

import torch
from torch import Tensor

from isrlu.torch import _triton

Number = float | Tensor


def forward(x: Tensor, y: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Number, shift: Number) -> bool:
    """y = dyisru(x, ...), for contiguous tensors. False if the kernels can't run here."""

    def launch() -> bool:
        from isrlu.torch import _triton_norm_kernels as kernels

        tiles, sizes = _divide(x, weight, bias)
        if tiles.programs > _triton.most_programs(x):
            return False
        kernels.norm_forward_kernel[(tiles.programs,)](
            x, y, weight, bias, *_numbers(x, alpha, shift), *sizes, **_triton.options(x, tiles)
        )
        return True

    return _triton.first_or_raise(x, launch)


def backward(
    x: Tensor, grad: Tensor, out: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Number, shift: Number
) -> tuple[Tensor | None, ...]:
    """out = the gradient of x. Returns those of weight, bias, alpha and shift, None for what is no tensor."""
    from isrlu.torch import _triton_norm_kernels as kernels

    tiles, sizes = _divide(x, weight, bias)
    strips = tiles.programs // sizes[3]
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    scales = numbers = None
    if weight is not None or bias is not None:
        scales = torch.empty(2, strips * sizes[2] // sizes[4], sizes[4], dtype=wide, device=x.device)
    if isinstance(alpha, Tensor) or isinstance(shift, Tensor):
        numbers = torch.empty(2, tiles.programs, dtype=wide, device=x.device)
    with _triton.on_device_of(x):
        kernels.norm_backward_kernel[(tiles.programs,)](
            x, grad, out, scales, numbers, weight, *_numbers(x, alpha, shift), *sizes, **_triton.options(x, tiles)
        )
    sums: list[Tensor | None] = [None, None] if scales is None else [*scales.sum(1)]
    sums += [None, None] if numbers is None else [*numbers.sum(1)]
    given = weight, bias, alpha, shift
    return tuple(
        total.to(each.dtype).view(each.shape) if isinstance(each, Tensor) and total is not None else None
        for each, total in zip(given, sums, strict=True)
    )


def _divide(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[_triton.Tiles, tuple[int, ...]]:
    """The tiles, and the sizes that the kernels take: size, rows, columns, blocks, channels."""
    channels = next((each.numel() for each in (weight, bias) if each is not None), 1)
    tiles = _triton.divide_columns(x.numel(), channels, 1, _triton.tile_of(x), _triton.ROWS)
    size, rows, columns, blocks, _, channels = tiles.sizes
    return tiles, (size, rows, columns, blocks, channels)


def _numbers(x: Tensor, alpha: Number, shift: Number) -> tuple[Tensor | None, Tensor | None, int, int]:
    """alpha and shift as tensors, and as the bits of numbers."""
    given = alpha, shift
    tensors = [each if isinstance(each, Tensor) else None for each in given]
    bits = [0 if isinstance(each, Tensor) else _triton.bits(each, x) for each in given]
    return tensors[0], tensors[1], bits[0], bits[1]
