"""The way of tensors on a GPU, taken by CPU tensors on pages that can't be accessed: reading a value ends the process.

tests/test_triton_launch.py runs it in a process of its own.
"""

import ctypes
import mmap

import torch
from test_triton_launch import CPU, Kernels
from torch import Tensor

import isrlu.torch as it
from isrlu import _core

buffers = []


def unreadable(*shape: int) -> Tensor:
    """A tensor that learns, on a page of its own."""
    buffers.append(mmap.mmap(-1, mmap.PAGESIZE))
    x = torch.frombuffer(buffers[-1], dtype=torch.float32, count=torch.Size(shape).numel()).view(shape)
    no_access = 0
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(x.data_ptr()), mmap.PAGESIZE, no_access) == 0
    return x.requires_grad_()


def main() -> None:
    """Every function forward, backward and in place; the kernels only print their names."""
    _core.set_launch_devices([CPU])
    for name in ("_triton_kernels", "_triton_norm_kernels"):
        setattr(it, name, Kernels(lambda kernel: print(kernel, flush=True)))
    x, grad = unreadable(4, 3), unreadable(4, 3).detach()
    for function in (it.isrlu, it.isru):
        print(function.__name__)
        alpha = unreadable(3)
        torch.autograd.grad(function(x, alpha), [x, alpha], grad)
    print("dyisru")
    parameters = [unreadable(3), unreadable(3), unreadable(1), unreadable(1)]
    torch.autograd.grad(it.dyisru(x, *parameters), [x, *parameters], grad)
    print("inplace")
    it.isrlu(x.detach(), alpha.detach(), inplace=True)


if __name__ == "__main__":
    main()
