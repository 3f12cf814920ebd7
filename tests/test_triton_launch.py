"""The launcher of the Triton kernels, without Triton: what happens where it is missing; how data are divided."""

import contextlib
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest
import torch

import isrlu.torch as it
from isrlu import _core
from isrlu._missing import install_extra
from isrlu.torch import _triton

CPU = 1  # DLPack's number


@pytest.fixture
def gpu(monkeypatch):
    """CPU tensors take the way of tensors on a GPU."""
    monkeypatch.setattr(_triton, "_state", {"launched": False})
    _core.set_launch_devices([CPU])
    yield
    _core.set_launch_devices(list(_triton.DEVICES.values()))


def check_formula(message: str) -> None:
    """One warning in all; values and gradients by the formula."""
    x = torch.randn(4, 3, requires_grad=True)
    expected = torch.where(x >= 0, x, x / torch.sqrt(1 + 2 * x * x))
    with pytest.warns(UserWarning, match=message) as said:
        y = it.isrlu(x, 2.0)
    assert len(said) == 1 and "\n" not in str(said[0].message)
    torch.testing.assert_close(y, expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y.sum().backward()
        assert it.isrlu(x.detach().clone(), 2.0, inplace=True).grad_fn is None
        alpha = torch.ones(3, requires_grad=True)
        it.isru(x, alpha).sum().backward()
    assert alpha.grad is not None


def test_triton_is_missing(gpu, monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "isrlu.torch._triton_kernels", raising=False)
    monkeypatch.delattr(it, "_triton_kernels", raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)
    check_formula(rf"slower formula in torch ops: Triton is missing .*; {re.escape(install_extra('gpu'))}")


def test_tensorflow_was_first(gpu, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    check_formula("Triton can't be imported after TensorFlow; import triton first")


def test_the_first_launch_fails(gpu, monkeypatch) -> None:
    def fail(*args, **options):
        raise RuntimeError("Failed to find C compiler.\nmore lines")

    kernels = types.SimpleNamespace(forward_kernel={(1,): fail})
    monkeypatch.setattr(it, "_triton_kernels", kernels, raising=False)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)  # another test may have imported it
    check_formula(r"Triton can't run here \(RuntimeError: Failed to find C compiler.\)")


def test_importing_isrlu_imports_no_triton() -> None:
    program = "import sys, torch; before = 'triton' in sys.modules; import isrlu.torch as t; t.isrlu(torch.ones(2));"
    program += "print(before or 'triton' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "True\n"


def test_triton_launches_on_the_device_of_the_tensor(monkeypatch) -> None:
    """Triton takes the current stream of the current device."""
    entered = []
    x = types.SimpleNamespace(get_device=lambda: 1)
    monkeypatch.setattr(torch.accelerator, "device_index", lambda index: entered.append(index))
    for current in (1, 0):
        monkeypatch.setattr(torch.accelerator, "current_device_index", lambda index=current: index)
        _triton.on_device_of(x)
    assert entered == [1]


class Kernels:
    """Records launches in the place of Triton's kernels, and computes nothing."""

    def __init__(self, record) -> None:
        self.record = record

    def __getattr__(self, kernel: str):
        return type("Kernel", (), {"__getitem__": lambda _, grid: lambda *args, **options: self.record(kernel)})()


def test_every_launch_is_inside_of_the_device(gpu, monkeypatch) -> None:
    seen = []

    @contextlib.contextmanager
    def on_device_of(x):
        seen.append("enter")
        yield
        seen.append("exit")

    monkeypatch.setattr(_triton, "on_device_of", on_device_of)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    for name in ("_triton_kernels", "_triton_norm_kernels"):
        monkeypatch.setattr(it, name, Kernels(seen.append), raising=False)
    x = torch.randn(4, 3, requires_grad=True)
    it.isrlu(x, torch.ones(3, requires_grad=True)).sum().backward()
    it.dyisru(x, torch.ones(3, requires_grad=True)).sum().backward()
    kernels = ["forward_kernel", "backward_kernel", "norm_forward_kernel", "norm_backward_kernel"]
    assert seen == [word for kernel in kernels for word in ("enter", kernel, "exit")]


@pytest.mark.parametrize("function", [it.isrlu, it.dyisru])
def test_a_grid_that_is_too_large_takes_the_formula(function, gpu, monkeypatch) -> None:
    """HIP launches fewer than 2^32 threads. The next call of a smaller tensor is launched."""
    assert _triton.MOST_PROGRAMS["hip"] * 256 < 2**32 <= (_triton.MOST_PROGRAMS["hip"] + 1) * 256
    launched = []
    monkeypatch.setattr(torch.version, "hip", "7.0")
    monkeypatch.setitem(_triton.MOST_PROGRAMS, "hip", 1)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    for name in ("_triton_kernels", "_triton_norm_kernels"):
        monkeypatch.setattr(it, name, Kernels(launched.append), raising=False)
    x = torch.randn(_triton.tile_of(torch.empty(0)) * _triton.ROWS + 1)
    _core.set_launch_devices([])
    expected = function(x)
    _core.set_launch_devices([CPU])
    torch.testing.assert_close(function(x), expected)
    assert not launched
    function(x[:9].clone())
    assert len(launched) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
def test_no_value_of_a_tensor_is_read(tmp_path) -> None:
    """So nothing waits for the GPU, and a CUDA graph can be captured."""
    program = Path(__file__).parent / "unreadable_tensors.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "isrlu", "forward_kernel", "backward_kernel", "isru", "forward_kernel", "backward_kernel",
        "dyisru", "norm_forward_kernel", "norm_backward_kernel", "inplace", "forward_kernel",
    ]  # fmt: skip


# shape, channels
CASES = [
    ((1,), 1), ((5000,), 1), ((3, 7), 7), ((2, 64, 7, 7), 64), ((2, 3, 40, 40), 3), ((1, 2, 513), 2),
    ((40, 9000), 9000),
    ((2**20, 2**12), 1), ((2**20, 2**12), 2**12), ((2, 2, 2**31), 2), ((4, 2**31), 2**31),
]  # fmt: skip


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "channels"), CASES, ids=str)
def test_every_element_is_in_one_tile(shape, channels, last) -> None:
    """Rows and columns cover the data, 32-bit numbers suffice where they are used, and the partial sums fit."""
    x = torch.empty(shape, device="meta")
    if last:
        x = x.movedim(-1, 1) if x.dim() > 2 else x
    if channels > 1 and x.shape[1] != channels:
        channels = x.shape[1]
    alpha = torch.empty(channels, device="meta") if channels > 1 else 1.0
    tiles = _triton.divide(x, alpha, 512, 16)
    size, rows, columns, blocks, inner, found = tiles.sizes
    assert size == x.numel() and found == channels
    assert (rows - 1) * columns < size <= rows * columns
    assert (blocks - 1) * 512 < columns <= blocks * 512
    assert tiles.programs == -(-rows // tiles.rows) * blocks
    assert tiles.partials[1] == channels
    stored = -(-rows // tiles.rows) * columns if tiles.channel == "column" else tiles.programs
    assert torch.Size(tiles.partials).numel() == stored
    if tiles.channel == "column":
        assert columns % (channels * inner) == 0 and columns < 2**31
        assert columns == size or columns % 16 == 0 or channels * inner >= 16 * 512
