"""The Triton kernels in Triton's interpreter, on CPU tensors: the whole vectors file, the corner rules, layouts, alpha.

The interpreter must be asked for before Triton is imported, so these tests run in a process of their own:
    TRITON_INTERPRET=1 pytest tests/test_triton_values.py
It computes with NumPy, each operation rounded as written. What it gets wrong or idealises, `hardware` replaces.
"""

import os

import numpy as np
import pytest
import torch
from torch import Tensor, nn

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs triton and TRITON_INTERPRET=1 in a process of its own", allow_module_level=True)

import triton.language as tl
from triton.runtime import interpreter

import isrlu.torch as it
from isrlu import _core, testing
from isrlu.torch import _triton, _triton_kernels, _triton_norm_kernels

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

CPU = 1  # DLPack's number
TILE = _triton.TILE_BYTES["cuda"] // 4  # float32 elements
DTYPES = {name: getattr(torch, name) for name in testing.DTYPES}
FUNCTIONS = testing.FUNCTIONS
STEEPEST = 2.0**60  # alpha of sisrlu, above which its slope is not yet 0 where x is clamped
# 1/sqrt as the hardware may return it: rsqrt.approx.ftz.f32 is within 2^-22.9, the float64 routines within 1 ulp.
ROOTS = {"exact": (0.0, 0.0), "high": (2**-22.9, 2**-52), "low": (-(2**-22.9), -(2**-52))}


@pytest.fixture(autouse=True, params=["exact"])
def hardware(request, monkeypatch):
    """CPU tensors go to the launcher. bfloat16 is converted to nearest even, subnormals included; 1/sqrt has errors."""
    cast, (single, double) = interpreter.InterpreterBuilder.cast_impl, ROOTS[request.param]

    def convert(self, source, target):
        kinds = source.dtype.scalar, target.scalar
        if kinds == (tl.bfloat16, tl.float32):
            return interpreter.TensorHandle((source.data.astype(np.uint32) << 16).view(np.float32), tl.float32)
        if kinds == (tl.float32, tl.bfloat16):
            rounded = torch.from_numpy(np.array(source.data)).bfloat16().view(torch.int16).numpy().view(np.uint16)
            return interpreter.TensorHandle(rounded, tl.bfloat16)
        return cast(self, source, target)

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def rsqrt(self, d):
        data = d.data
        if data.dtype == np.float64:
            root = (1 / np.sqrt(data.astype(np.longdouble))) * (1 + np.longdouble(double))
        else:
            flushed = np.where(np.abs(data) < np.finfo(np.float32).tiny, np.copysign(0, data), data)  # ftz
            root = (1 / np.sqrt(flushed.astype(np.float64))) * (1 + single)
        return interpreter.TensorHandle(root.astype(data.dtype), d.dtype.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "cast_impl", convert)
    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_rsqrt", rsqrt)
    _core.set_launch_devices([CPU])
    yield
    _core.set_launch_devices(list(_triton.DEVICES.values()))


every_root = pytest.mark.parametrize("hardware", ROOTS, indirect=True)


class Launches:
    """The names of the kernels that ran, in order."""

    def __init__(self, monkeypatch) -> None:
        self.names: list[str] = []
        for name in ("forward_kernel", "backward_kernel"):
            self._watch(monkeypatch, name, getattr(_triton_kernels, name))

    def _watch(self, monkeypatch, name, kernel):
        class Watched:
            def __getitem__(_, grid):
                def launch(*args, **options):
                    self.names.append(name)
                    self.args = args
                    return kernel[grid](*args, **options)

                return launch

        monkeypatch.setattr(_triton_kernels, name, Watched())


@pytest.fixture
def launches(monkeypatch) -> Launches:
    return Launches(monkeypatch)


def value_and_grads(function: str, x: Tensor, *alpha, grad: Tensor | None = None, inplace: bool = False):
    leaf = x.detach().requires_grad_()
    given = leaf.clone() if inplace else leaf
    y = getattr(it, function)(given, *alpha, inplace=inplace)
    inputs = [leaf, *(a for a in alpha if isinstance(a, Tensor) and a.requires_grad)]
    return y.detach(), *torch.autograd.grad(y, inputs, torch.ones_like(y) if grad is None else grad)


def by_cpu_kernels(function: str, x: Tensor, *alpha, **options):
    _core.set_launch_devices([])
    try:
        return value_and_grads(function, x, *alpha, **options)
    finally:
        _core.set_launch_devices([CPU])


@every_root
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", ["isrlu", "isru"])
def test_vectors_with_an_alpha_per_channel(function, dtype, launches) -> None:
    vectors = testing.load(function, dtype)
    testing.check(vectors, "torch", **testing.evaluate("torch", vectors))
    assert launches.names == ["forward_kernel", "backward_kernel"]


@every_root
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_vectors_with_a_number(function, dtype, launches) -> None:
    vectors = testing.load(function, dtype)
    for alpha, part in vectors.by_alpha():
        if function == "sisrlu" and alpha > STEEPEST:
            continue
        given = () if function == "isru_sigmoid" else (alpha,)
        f, dfdx = value_and_grads(function, torch.tensor(part.x).to(DTYPES[dtype]), *given)
        testing.check(part, "torch", f=f.double(), dfdx=dfdx.double())
    assert {*launches.names} == {"forward_kernel", "backward_kernel"}


@every_root
@pytest.mark.parametrize("function", ["isrlu", "isru"])
def test_approx_is_the_bare_instruction(function, hardware) -> None:
    vectors = testing.load(function, "float32")
    x = torch.tensor(vectors.x).float()[None].requires_grad_()
    y = getattr(it, function)(x, torch.tensor(vectors.alpha).float(), method="approx")
    (grad,) = torch.autograd.grad(y.sum(), x)
    testing.check(vectors, "torch", "approx", simd="rsqrt.approx", f=y.detach().double()[0], dfdx=grad.double()[0])


def test_approx_is_not_corrected() -> None:
    """Correction takes other operations: some of the last bits differ."""
    x = -torch.rand(TILE, generator=torch.Generator().manual_seed(0)) * 9
    assert not torch.equal(it.isru(x), it.isru(x, method="approx"))
    assert torch.equal(it.isru(x), it.isru(x, method="newton2"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_corner_rules(dtype) -> None:
    tiny, inf, nan = torch.finfo(DTYPES[dtype]).smallest_normal / 4, float("inf"), float("nan")
    x = torch.tensor([0.0, 3.0, inf, -0.0, -tiny, -inf, nan], dtype=DTYPES[dtype])
    y, grad = value_and_grads("isrlu", x, 4.0)
    expected = torch.tensor([0.0, 3.0, inf, -0.0, -tiny, -0.5, nan], dtype=x.dtype)
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(y.signbit()[:6], expected.signbit()[:6])
    torch.testing.assert_close(grad.double(), torch.tensor([1.0, 1, 1, 1, 1, 0, nan]).double(), equal_nan=True)
    for alpha in (0.0, torch.zeros(1, dtype=torch.float64 if dtype == "float64" else torch.float32)):
        y, grad = value_and_grads("isru", x, alpha)[:2]
        torch.testing.assert_close(y, x, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(grad[:6], torch.ones_like(x)[:6]) and grad[6].isnan()


@pytest.mark.parametrize("size", [1, 2, TILE - 1, TILE, TILE + 1, 2 * TILE + 3])
def test_a_result_depends_on_the_value_alone(size) -> None:
    x = torch.randn(3 * TILE, generator=torch.Generator().manual_seed(size)) * 3
    whole, part = value_and_grads("isrlu", x, 2.0), value_and_grads("isrlu", x[-size:].clone(), 2.0)
    assert all(torch.equal(a[-size:], b) for a, b in zip(whole, part, strict=True))


# shape and number of channels: a channel of a tile or more is a row, smaller ones are columns
SHAPES = [
    (7, 3),
    (5, 10, 3),
    (2, 3, 5, 7),
    (40, 300),
    (3, 2, TILE),
    (2, 3, TILE + 1),
    (1, 4, 2 * TILE + 5),
    (900, 10, 3),
    (2, 9 * TILE),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("function", ["isrlu", "isru"])
def test_alpha_per_channel(function, shape, monkeypatch) -> None:
    """The gradient of alpha is a sum: its error is measured against the sum of the terms' magnitudes."""
    monkeypatch.setattr(_triton, "ROWS", 2)
    generator = torch.Generator().manual_seed(len(shape))
    x, grad = (torch.randn(shape, generator=generator) for _ in range(2))
    alpha = torch.rand(shape[1], generator=generator).add(0.1).requires_grad_()
    got = value_and_grads(function, x, alpha, grad=grad)
    again = value_and_grads(function, x, alpha, grad=grad)
    assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True))
    expected = testing.expect(function, x.numpy(), alpha.detach().view(-1, *[1] * (len(shape) - 2)).numpy())
    testing.check(expected, "torch", upstream=grad.numpy(), f=got[0], dfdx=got[1])
    terms = torch.from_numpy(expected.dfdalpha) * grad.double()
    dims = [d for d in range(len(shape)) if d != 1]
    assert ((got[2].double() - terms.sum(dims)).abs() <= 1e-6 * terms.abs().sum(dims)).all()


@pytest.mark.parametrize("size", [3, TILE + 7])
def test_one_learned_alpha(size) -> None:
    x = torch.randn(size, generator=torch.Generator().manual_seed(1)).double()
    alpha = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    (_, dx, dalpha), expected = value_and_grads("isru", x, alpha), testing.expect("isru", x.numpy(), 0.7)
    torch.testing.assert_close(dalpha, torch.tensor([expected.dfdalpha.sum()]))
    testing.check(expected, "torch", dfdx=dx)


def layouts(shape: tuple[int, ...]) -> dict[str, Tensor]:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    wide = torch.randn(*shape[:-1], 2 * shape[-1], generator=torch.Generator().manual_seed(3))
    return {
        "contiguous": x,
        "channels last": x.to(memory_format=torch.channels_last),
        "transposed": x.transpose(0, 3),
        "every second": wide[..., ::2],
        "expanded": x[:1].expand(shape),
        "flipped": x.flip(1)[:, 1:],
        "offset": x.flatten()[1:].clone()[2:],
        "no dims": x[0, 0, 0, 0],
    }


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("layout", layouts((2, 3, 4, 5)))
def test_layouts(layout, inplace, launches) -> None:
    x = layouts((2, 3, 4, 5))[layout]
    if inplace and layout == "expanded":
        pytest.skip("PyTorch refuses to write into an expanded tensor")
    channels = x.shape[1] if x.dim() > 1 else 1
    for alpha in (1.5, torch.linspace(0.5, 2, channels)):
        grad = torch.randn(x.shape)
        got = value_and_grads("isrlu", x, alpha, grad=grad, inplace=inplace)
        expected = by_cpu_kernels("isrlu", x, alpha, grad=grad, inplace=inplace)
        for a, b in zip(got[:2], expected[:2], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
            assert a.stride() == b.stride()
    assert launches.names == ["forward_kernel", "backward_kernel"] * 2


@pytest.mark.parametrize("layout", ["contiguous", "channels last", "transposed"])
def test_dense_layouts_are_not_copied(layout, launches) -> None:
    x = layouts((2, 3, 4, 5))[layout]
    y = it.isrlu(x)
    assert launches.args[0] is x and y.stride() == x.stride()
    it.isrlu(x, 1.0, True)
    assert launches.args[0] is x and launches.args[1] is x


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_trains_from_the_output(function, dtype, launches) -> None:
    x = torch.randn(3, 200, generator=torch.Generator().manual_seed(4)).to(DTYPES[dtype])
    learned = torch.full((1,), 0.8, dtype=torch.promote_types(x.dtype, torch.float32), requires_grad=True)
    alpha = {"isru_sigmoid": [], "sisrlu": [0.8]}.get(function, [learned])
    got, expected = (of(function, x, *alpha, inplace=True) for of in (value_and_grads, by_cpu_kernels))
    bits = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=bits, atol=bits / 4)
    assert launches.names == ["forward_kernel", "backward_kernel"]


def test_modules(launches) -> None:
    layer = it.ISRLU(2.0, learnable=True, num_parameters=6)
    layer(torch.randn(4, 6, 5)).sum().backward()
    assert layer.log_alpha.grad.shape == (6,)
    it.ISRUSigmoid(inplace=True)(torch.randn(3)), it.ISRU()(torch.randn(3))
    assert launches.names == ["forward_kernel", "backward_kernel", "forward_kernel", "forward_kernel"]


@pytest.mark.parametrize("inplace", [False, True])
def test_saved_is_one_tensor(inplace) -> None:
    saved: list[Tensor] = []
    x = torch.randn(5, requires_grad=True)
    given = x.clone() if inplace else x
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = it.isru(given, 2.0, inplace)
    assert [t.data_ptr() for t in saved] == [given.data_ptr()]
    assert (y.data_ptr() == given.data_ptr()) == inplace


def test_what_keeps_the_formula(launches) -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    torch.func.vmap(it.isrlu)(x.detach())
    torch.func.jvp(it.isrlu, (x.detach(),), (torch.ones_like(x),))
    torch.func.grad(lambda x: it.isrlu(x).sum())(x.detach())
    torch.export.export(nn.Sequential(it.ISRLU()), (x.detach(),))
    it.isrlu(torch.empty(0, 3))
    assert launches.names == []
    assert torch.autograd.gradgradcheck(it.isrlu, x) and torch.autograd.gradcheck(it.isrlu, x)


def test_errors_are_those_of_the_cpu() -> None:
    x = torch.randn(2, 3)
    with pytest.raises(ValueError, match="alpha must be a finite number >= 0, got -1"):
        it.isrlu(x, -1)
    with pytest.raises(ValueError, match="alpha is on meta, x on cpu: move one of them"):
        it.isrlu(x, torch.ones(3, device="meta"))
    with pytest.raises(ValueError, match=r"alpha must hold one value or one per channel \(3 for"):
        it.isrlu(x, torch.ones(4))
    with pytest.raises(TypeError, match="x must be float16, bfloat16, float32 or float64"):
        it.isrlu(torch.ones(3, dtype=torch.int32))


def test_an_error_of_a_later_launch_is_raised(monkeypatch) -> None:
    it.isrlu(torch.randn(3))
    monkeypatch.setattr(_triton_kernels, "forward_kernel", None)
    with pytest.raises(TypeError):
        it.isrlu(torch.randn(3))


def test_empty_tensors(launches) -> None:
    for function in FUNCTIONS:
        for inplace in (False, True):
            y, grad = value_and_grads(function, torch.empty(0, 3), inplace=inplace)
            assert y.shape == grad.shape == (0, 3)
    alpha = torch.ones(3, requires_grad=True)
    assert torch.equal(value_and_grads("isrlu", torch.empty(0, 3), alpha)[2], torch.zeros(3))
    weight = torch.ones(3, requires_grad=True)
    it.dyisru(torch.empty(0, 3), weight).sum().backward()
    assert torch.equal(weight.grad, torch.zeros(3))
    assert launches.names == []


# shape, channels (0: alpha is a number), function; the last element is in the last program
HUGE = [
    ((2**31 + 1500,), 0, "isrlu"),
    ((1, 2, 2**30 + 750), 2, "isrlu"),
    ((2**21, 2, 1024), 2, "isrlu"),
    ((2**19 + 16, 2**12), 2**12, "isrlu"),
    ((2**19 + 16, 2**12), 2**12, "dyisru"),
]


@pytest.mark.parametrize(("shape", "channels", "function"), HUGE, ids=str)
def test_the_last_of_more_than_2_to_31_elements(shape, channels, function, monkeypatch) -> None:
    """The last program alone runs, forward and backward. The memory of the others is never touched."""
    builder = interpreter.InterpreterBuilder
    set_index, set_count = builder.set_grid_idx, builder.set_grid_dim
    programs = []

    class LastProgram:
        def __init__(self, kernel) -> None:
            self.kernel = kernel

        def __getitem__(self, grid):
            programs.append(grid[0])
            monkeypatch.setattr(builder, "set_grid_idx", lambda b, x, y, z: set_index(b, grid[0] - 1, y, z))
            monkeypatch.setattr(builder, "set_grid_dim", lambda b, x, y, z: set_count(b, grid[0], y, z))
            return self.kernel[(1,)]

    for module in (_triton_kernels, _triton_norm_kernels):
        for name in vars(module):
            if name.endswith("_kernel"):
                monkeypatch.setattr(module, name, LastProgram(getattr(module, name)))
    known = 256  # at the end of the last program's tile
    x, grad = (torch.empty(shape, dtype=torch.float16) for _ in range(2))
    ends = [torch.randn(known, generator=torch.Generator().manual_seed(k)).half() for k in range(2)]
    for tensor, end in zip((x, grad), ends, strict=True):
        tensor.view(-1)[-known:] = end
    learned = torch.linspace(0.5, 2, max(channels, 1)).to(x.dtype if function == "dyisru" else torch.float32)
    given = (learned.requires_grad_(), None, 0.5) if function == "dyisru" else (learned,) if channels else (2.0,)
    y = getattr(it, function)(x.requires_grad_(), *given)
    (of_x,) = torch.autograd.grad(y, x, grad)
    assert x.numel() > 2**31 and len(programs) == 2 and min(programs) > 2**14
    v, g = (end.double() for end in ends)
    at = torch.arange(x.numel() - known, x.numel()) // (x.stride(1) if channels else 1) % max(channels, 1)
    each = learned.detach().double()[at] if channels else torch.tensor(2.0).double()
    if function == "dyisru":
        d = 1 + 0.25 * v * v
        want, slope = each * 0.5 * v / d.sqrt(), each * 0.5 * d**-1.5
    else:
        d = torch.where(v >= 0, 1.0, 1 + each * v * v)
        want, slope = v / d.sqrt(), d**-1.5
    torch.testing.assert_close(y.detach().view(-1)[-known:].double(), want, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(of_x.view(-1)[-known:].double(), g * slope, rtol=2e-3, atol=1e-4)


def test_the_bench_command(launches, monkeypatch) -> None:
    """`isrlu bench torch --device cuda`, with CPU tensors in the place of those on a GPU."""
    from typer.testing import CliRunner

    from isrlu_lab.cli import app
    from isrlu_lab.measure import torch_bench

    waits: list[bool] = []
    to = Tensor.to
    monkeypatch.setattr(Tensor, "to", lambda x, *place, **rest: x if place == ("cuda",) else to(x, *place, **rest))
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(True))
    monkeypatch.setitem(torch_bench.CONTENDERS, "formula compiled", lambda: torch_bench.paper)  # no compiler here
    done = CliRunner().invoke(app, ["bench", "torch", "--device", "cuda", "--size", "16", "--rounds", "2"])
    assert done.exit_code == 0, done.output
    assert "cuda, 16 elements, forward and backward" in done.output and "isrlu approx" in done.output
    assert {*launches.names} == {"forward_kernel", "backward_kernel"} and waits
