"""ReLU and ELU as Triton kernels, written like isrlu/torch/_triton_kernels.py: what a GPU executes for them."""

import triton
import triton.language as tl

from isrlu.torch._triton_tiles import load


@triton.jit
def forward(x, FUNCTION: tl.constexpr):
    return tl.maximum(x, 0.0) if FUNCTION == "relu" else tl.where(x > 0.0, x, tl.exp(x) - 1.0)


@triton.jit
def backward(x, grad, FUNCTION: tl.constexpr):
    return tl.where(x > 0.0, grad, 0.0 if FUNCTION == "relu" else grad * tl.exp(x))


@triton.jit
def forward_tile(x, y, inside, FUNCTION: tl.constexpr):
    tl.store(y, forward(load(x, inside), FUNCTION).to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward_tile(saved, grad, out, inside, FUNCTION: tl.constexpr):
    tl.store(out, backward(load(saved, inside), load(grad, inside), FUNCTION).to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["size"])
def forward_kernel(x, y, size, FUNCTION: tl.constexpr, TILE: tl.constexpr):
    start, lane = tl.program_id(0).to(tl.int64) * TILE, tl.arange(0, TILE)
    left = size - start
    if left >= TILE:
        forward_tile(x + start + lane, y + start + lane, None, FUNCTION)
    else:
        forward_tile(x + start + lane, y + start + lane, lane < left, FUNCTION)


@triton.jit(do_not_specialize=["size"])
def backward_kernel(saved, grad, out, size, FUNCTION: tl.constexpr, TILE: tl.constexpr):
    start, lane = tl.program_id(0).to(tl.int64) * TILE, tl.arange(0, TILE)
    left = size - start
    if left >= TILE:
        backward_tile(saved + start + lane, grad + start + lane, out + start + lane, None, FUNCTION)
    else:
        backward_tile(saved + start + lane, grad + start + lane, out + start + lane, lane < left, FUNCTION)
