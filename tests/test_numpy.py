"""isrlu.numpy: a ufunc in every respect that NumPy users rely on."""

import os
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import isrlu
import isrlu.numpy as inp
from isrlu._checks import METHODS
from isrlu.testing import bounds, check, expect, reference, root_error, ulp

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
WITH_ALPHA = [inp.isrlu, inp.isrlu_grad, inp.isru, inp.isru_grad]
WITHOUT_ALPHA = [inp.isru_sigmoid, inp.isru_sigmoid_grad, inp.rsqrt]
EVERY = WITH_ALPHA + WITHOUT_ALPHA
SIZES = [*range(10), 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 1023]


def numbers(size, dtype=np.float32, seed=0):
    return (np.random.default_rng(seed).standard_normal(size) * 3).astype(dtype)


def bits(array):
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", EVERY)
def test_dtype_and_shape_are_kept(function, dtype):
    for shape in [(), (0,), (3, 0, 2), (5,), (2, 3, 4)]:
        y = function(np.abs(numbers(shape, dtype)))
        assert y.dtype == dtype and y.shape == shape


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_integers_are_promoted_as_sqrt_promotes_them(kind):
    x = np.array([0, 1, 1], kind)
    assert inp.isrlu(x).dtype == np.sqrt(x).dtype
    assert inp.isru_sigmoid(x).dtype == np.sqrt(x).dtype
    assert inp.isrlu(x, alpha=3).dtype == np.sqrt(x).dtype


def test_python_scalars_and_lists():
    assert inp.isrlu(-1) == pytest.approx(-(0.5**0.5)) and isinstance(inp.isrlu(-1.0), np.float64)
    assert inp.isrlu([-1, 2]).tolist() == [pytest.approx(-(0.5**0.5)), 2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", EVERY)
def test_same_bits_whatever_position_length_and_alignment(function, dtype):
    x = np.abs(numbers(1200, dtype)) if function is inp.rsqrt else numbers(1200, dtype)
    whole = bits(function(x))
    for size in SIZES:
        for start in (0, 1, 3, 7):
            assert (bits(function(x[start : start + size])) == whole[start : start + size]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides(dtype):
    x = numbers((40, 50), dtype)
    expected = inp.isrlu(x, 0.7)
    for view in (np.s_[::-1], np.s_[:, ::-1], np.s_[::3, 1::7], np.s_[:, 5:6], np.s_[::-2, ::-3]):
        assert (bits(inp.isrlu(x[view], 0.7)) == bits(expected)[view]).all()
    assert (bits(inp.isrlu(x.T, 0.7)) == bits(expected).T).all()
    assert (bits(inp.isrlu(np.asfortranarray(x), 0.7)) == bits(expected)).all()
    spread = np.zeros((40, 100), dtype)
    inp.isrlu(x, 0.7, out=spread[:, ::2])
    assert (bits(spread[:, ::2]) == bits(expected)).all() and not spread[:, 1::2].astype(bool).any()


@pytest.mark.parametrize("function", WITH_ALPHA)
@pytest.mark.parametrize("dtype", DTYPES)
def test_alpha_broadcasts_with_the_same_bits_as_one_alpha(function, dtype):
    wide = np.float64 if dtype == np.float64 else np.float32
    x, alphas = numbers((6, 70), dtype), np.array([0, 1e-30, 0.1, 1, 3, 1e30], wide)
    together = function(x, alphas[:, None])
    assert together.dtype == dtype
    for row, alpha in enumerate(alphas):
        assert (bits(together[row]) == bits(function(x[row], float(alpha)))).all()
    same = function(np.broadcast_to(x[0], (6, 70)), np.repeat(alphas[:, None], 70, 1))
    assert (bits(same[3]) == bits(function(x[0]))).all()


def test_a_wider_alpha_widens_the_result_as_in_numpy():
    assert inp.isrlu(np.float32([-1]), np.float64([1])).dtype == np.float64
    assert inp.isrlu(np.float32([-1]), 2).dtype == np.float32


def test_out_where_dtype_casting():
    x = numbers(100)
    out = np.full(100, 7, np.float32)
    assert inp.isrlu(x, out=out, where=x < 0) is out
    assert (out[x >= 0] == 7).all() and (bits(out)[x < 0] == bits(inp.isrlu(x))[x < 0]).all()
    assert inp.isrlu(x, dtype=np.float64).dtype == np.float64
    assert (inp.isrlu(x, dtype=np.float64) == inp.isrlu(x.astype(np.float64))).all()
    assert inp.isrlu(x.astype(np.float64), out=out) is out
    with pytest.raises(TypeError, match="safe"):
        inp.isrlu(x.astype(np.float64), out=out, casting="safe")


def test_in_place_and_overlap():
    x = numbers(1000)
    expected = bits(inp.isrlu(x))
    same = x.copy()
    inp.isrlu(same, out=same)
    assert (bits(same) == expected).all()
    for shift in (1, 5, 500):
        memory = x.copy()
        inp.isrlu(memory[:-shift], out=memory[shift:])
        assert (bits(memory[shift:]) == expected[:-shift]).all()
        memory = x.copy()
        inp.isrlu(memory[shift:], out=memory[:-shift])
        assert (bits(memory[:-shift]) == expected[shift:]).all()
    memory = x.copy()
    inp.isrlu(memory[::-1], out=memory)
    assert (bits(memory) == expected[::-1]).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numeric_rules(dtype, method):
    info = ml_dtypes.finfo(dtype)
    large, tiny = info.max, info.smallest_subnormal
    passed = np.array([0.0, tiny, info.smallest_normal, 1, large, np.inf], dtype)
    for alpha in (0, 1e-6, 1.0, 3, 1e6):
        assert (bits(inp.isrlu(passed, alpha, method=method)) == bits(passed)).all()
        assert (inp.isrlu_grad(passed, alpha, method=method) == 1).all()
        negative_zero = inp.isrlu(np.array(-0.0, dtype), alpha, method=method)
        assert negative_zero == 0 and np.signbit(negative_zero)
        assert np.isnan(inp.isrlu(np.array([np.nan, -np.nan], dtype), alpha, method=method)).all()
        assert np.isnan(inp.isrlu_grad(np.array([np.nan, -np.nan], dtype), alpha, method=method)).all()
        subnormal = np.array([-tiny, -tiny * dtype(3)], dtype)
        y, slope = (f(subnormal, alpha, method=method) for f in (inp.isrlu, inp.isrlu_grad))
        check(expect("isrlu", subnormal, alpha), "numpy", method, f=y, dfdx=slope)
    for alpha in (1e-3, 1.0, 3):
        saturated = np.array([-np.inf, -large], dtype)
        check(expect("isrlu", saturated, alpha), "numpy", method, f=inp.isrlu(saturated, alpha, method=method))
        check(expect("isru", -saturated, alpha), "numpy", method, f=inp.isru(-saturated, alpha, method=method))
        assert (inp.isrlu_grad(np.array(-np.inf, dtype), alpha, method=method) == 0).all()
    everything = np.array([-np.inf, -large, -1, -tiny, -0.0, 1, np.inf], dtype)
    assert (bits(inp.isrlu(everything, 0, method=method)) == bits(everything)).all()
    assert (inp.isrlu_grad(everything, 0, method=method) == 1).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("function", EVERY)
def test_16_bit_results_are_the_float32_ones_rounded_once(function, dtype):
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = function(x.astype(np.float32)).astype(dtype)
        actual = function(x)
        # isnan warns of a signaling NaN
        same_or_nan = (bits(actual) == bits(expected)) | (np.isnan(actual) & np.isnan(expected))
    assert same_or_nan.all()


def test_odd_monotone_and_bounded():
    x = np.sort(numbers(10_000, seed=1))
    assert (inp.isru(-x) == -inp.isru(x)).all()
    assert (np.abs(inp.isru(x, 0.25)) < 2).all() and (inp.isrlu(x) > -1).all()
    steps = np.diff(inp.isrlu(x.astype(np.float64)))
    assert (steps >= 0).all()
    slack = 2 * bounds("numpy", "isru_sigmoid", "float32").f * float(ulp(0.5, "float32"))
    assert inp.isru_sigmoid(x) + inp.isru_sigmoid(-x) == pytest.approx(1, abs=slack)


@pytest.mark.parametrize("function", [inp.isrlu, inp.isru_grad, inp.isru_sigmoid])
def test_keywords_of_a_ufunc(function):
    x = np.float32([-2, 0, 3])
    expected, out = function(x), np.empty(3, np.float32)
    assert function(x, out=(out,)) is out and (out == expected).all()
    for dtype in (np.float16, np.float32, np.float64):
        y = function(x, dtype=dtype)
        assert y.dtype == dtype
        name, grad, _ = function.__name__.partition("_grad")
        check(expect(name, x.astype(dtype)), "numpy", **{"dfdx" if grad else "f": y})
        assert function([-2, 0, 3], dtype=dtype).dtype == dtype
    assert function(x, dtype=None).dtype == np.float32
    with pytest.raises(TypeError, match="Cannot cast"):
        function(np.arange(3), out=np.empty(3, np.int64))
    with pytest.raises(TypeError, match=r"unexpected|invalid keyword"):
        function(np.arange(3), nonsense=1)


def test_arrays_of_other_libraries():
    class Foreign:
        dtype = "float32 of its own kind"

        def __array__(self, dtype=None, copy=None):
            return np.float32([-1.0, 2.0])

    assert inp.isrlu(Foreign()).tolist() == inp.isrlu(np.float32([-1.0, 2.0])).tolist()


@pytest.mark.parametrize("values", ([-1.0, 2.0], [-1, 2]), ids=("floats", "integers"))
def test_objects_that_take_ufuncs_over(values):
    class Frame:
        """As a data frame: neither an array nor convertible to one, with a dtype of NumPy's."""

        def __init__(self, values):
            self.values = np.array(values)
            self.dtype = self.values.dtype

        def __array_ufunc__(self, ufunc, method, *operands, **keywords):
            return Frame(getattr(ufunc, method)(*(getattr(each, "values", each) for each in operands), **keywords))

    class Series(Frame):
        def astype(self, dtype):
            return Series(self.values.astype(dtype))

    for dtype in (np.int8, np.int16):  # as np.sqrt promotes them
        assert inp.isrlu(Series(np.array(values, dtype))).values.dtype == np.sqrt(np.ones(1, dtype)).dtype
    frame = Frame(values)
    del frame.dtype  # columns may have several
    assert isinstance(inp.isrlu(frame), Frame)
    y = inp.isrlu(Frame(values), 3.0)
    assert isinstance(y, Frame) and y.values.tolist() == [-0.5, 2.0]
    assert inp.isru_sigmoid(Frame(values)).values.tolist() == inp.isru_sigmoid(values).tolist()
    assert inp.isrlu(Frame(values), dtype=np.float32).values.dtype == np.float32


def test_sigmoid_keeps_its_tail():
    for dtype in (np.float64, np.float32):
        x = -np.logspace(0, 18, 50).astype(dtype)
        check(expect("isru_sigmoid", x), "numpy", f=inp.isru_sigmoid(x))
    assert inp.isru_sigmoid(np.float32([-np.inf, np.inf])).tolist() == [0, 1]


@pytest.mark.parametrize("method", METHODS)
def test_rsqrt(method):
    x = np.float32([0, 1e-45, 1e-40, 1, 4, 3e38, np.inf])
    error = root_error(method) + 3 * 2.0**-23  # and at most three roundings, of an ulp each
    assert inp.rsqrt(x[1:-1], method=method) == pytest.approx(reference("rsqrt", x[1:-1]), rel=error, abs=0)
    assert inp.rsqrt(x[[0, -1]], method=method).tolist() == [np.inf, 0]
    assert np.isnan(inp.rsqrt(np.float32([-1, np.nan, -np.inf]), method=method)).all()


def test_no_warning_for_lanes_that_nobody_reads():
    with np.errstate(all="raise"):
        inp.isrlu(np.float32([1e38, -1e38, 1e-45, np.inf, -np.inf]))
        inp.isru(np.float64([1e300, -1e300, 1e-320]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: inp.isrlu(1j), TypeError, r"isrlu takes real numbers \(float16, bfloat16, .*\), got complex128"),
        (lambda: inp.isru(np.array(["a"])), TypeError, "isru takes real numbers .*, got <U1"),
        (lambda: inp.isru_sigmoid(np.datetime64("2020-01-01")), TypeError, "got datetime64"),
        (lambda: inp.isrlu(1.0, -1), ValueError, "alpha must be a finite number >= 0, got -1"),
        (lambda: inp.isrlu(1.0, float("nan")), ValueError, "alpha must be a finite number >= 0, got nan"),
        (lambda: inp.isrlu(1.0, np.inf), ValueError, "alpha must be a finite number >= 0, got inf"),
        (lambda: inp.isrlu(1.0, np.array([1, -2.0])), ValueError, "alpha must be a finite number >= 0, got -2.0"),
        (lambda: inp.isrlu(1.0, "1"), TypeError, "alpha must be a real number or an array of them, got '1'"),
        (lambda: inp.isrlu(1.0, 1j), TypeError, "alpha must be a real number"),
        (lambda: inp.isrlu(1.0, [1j]), TypeError, "alpha must be a real number or an array of them, got an array of"),
        (lambda: inp.isrlu(1.0, method="fast"), ValueError, "unknown method 'fast': known are full, approx, newton1"),
        (lambda: inp.isrlu(np.zeros(3), np.ones(2)), ValueError, "could not be broadcast"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_threads_run_at_the_same_time_without_trouble():
    x = numbers(100_000)
    expected, results = bits(inp.isrlu(x)), [None] * 4

    def work(i):
        results[i] = bits(inp.isrlu(x))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((result == expected).all() for result in results)


def run_with(simd, code):
    environment = os.environ | {"ISRLU_SIMD": simd}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("simd", isrlu.simd_available())
def test_a_forced_instruction_set_is_the_one_that_runs(simd):
    code = "import isrlu, isrlu.numpy, numpy; print(isrlu.simd(), isrlu.numpy.isrlu(numpy.float32([-1, 2])).tolist())"
    done = run_with(simd, code)
    assert done.stdout.split(" ", 1)[0] == simd, done.stderr
    assert done.stdout.split(" ", 1)[1].startswith("[-0.7071067")


@pytest.mark.parametrize("word", ["fast", "AVX2", "neon" if "sse2" in isrlu.simd_available() else "avx2"])
def test_an_instruction_set_that_is_not_there_is_an_error_at_import(word):
    done = run_with(word, "import isrlu")
    assert done.returncode != 0
    assert f"ImportError: ISRLU_SIMD: {'instruction set' if word in ('neon', 'avx2') else 'unknown'}" in done.stderr
    assert f"this CPU has {', '.join(isrlu.simd_available())}" in done.stderr


def test_import_isrlu_imports_no_framework():
    code = "import sys, isrlu; print([m for m in ('numpy', 'torch', 'jax', 'keras', 'tensorflow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("function", [inp.isrlu, inp.isru])
def test_alpha_beyond_the_dtype_saturates_at_once(function) -> None:
    """1e300 is a good alpha, though float32 has no such number."""
    with np.errstate(over="ignore"):  # NumPy's own word on the cast of alpha
        y = function(np.float32([-np.inf, -2.0, -0.0, 0.0]), 1e300)
    np.testing.assert_allclose(y, 0.0, atol=1e-18)
