"""The judge judged: vectors, ulps and the assertion that all frameworks' tests rest on."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from isrlu.testing import BOUNDS, DTYPES, FORMATS, FUNCTIONS, assert_ulps, check, load, ulp, ulp_error

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_ulp_is_numpy_spacing(dtype: str) -> None:
    rng = np.random.default_rng(1)
    values = np.ldexp(
        rng.uniform(1, 2, 500), rng.integers(-np.finfo(dtype).maxexp - 9, np.finfo(dtype).maxexp, 500)
    ).astype(dtype)
    np.testing.assert_array_equal(ulp(values, dtype), np.spacing(np.abs(values)).astype(np.float64))
    assert np.finfo(dtype).max == FORMATS[dtype].largest
    assert np.finfo(dtype).smallest_subnormal == FORMATS[dtype].smallest


def test_ulp_of_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    info = ml_dtypes.finfo(ml_dtypes.bfloat16)
    assert float(info.max) == FORMATS["bfloat16"].largest
    assert float(info.smallest_subnormal) == FORMATS["bfloat16"].smallest
    assert float(ulp(1.0, "bfloat16")) == float(info.eps)


@pytest.mark.parametrize(
    ("actual", "true", "error"),
    [
        (1.0, 1.0, 0.0),
        (1.0, 1.0 + 2.0**-24, 0.5),
        (math.nan, math.nan, 0.0),
        (math.nan, 1.0, math.inf),
        (1.0, math.nan, math.inf),
        (math.inf, math.inf, 0.0),
        (math.inf, 1e40, 0.0),
        (-math.inf, -1e40, 0.0),
        (3.4028234663852886e38, 1e40, 1.0),
        (math.inf, 3.4028234663852886e38, 1.0),
        (0.0, 1e-45, 1e-45 / 2.0**-149),
    ],
)
def test_ulp_error(actual: float, true: float, error: float) -> None:
    assert float(ulp_error(actual, true, "float32")) == error


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 0.0, -1.0, 1.0 + 2.0**-21])
def test_assertion_fails_for_a_wrong_answer(wrong: float) -> None:
    assert_ulps([1.0, 2.0], [1.0, 2.0], "float32", 0.5)
    with pytest.raises(AssertionError, match=r"1 of 2 float32 results are off by more than 2 ulps; worst: .* at = 7"):
        assert_ulps([wrong, 2.0], [1.0, 2.0], "float32", 2, at=[7, 8])


def test_assertion_fails_for_nan_shape_and_sign() -> None:
    with pytest.raises(AssertionError, match="should be nan"):
        assert_ulps([1.0], [math.nan], "float32", 1e9)
    with pytest.raises(AssertionError, match="shape"):
        assert_ulps([1.0], [1.0, 1.0], "float32", 1)
    assert_ulps([0.0], [-0.0], "float32", 0)
    with pytest.raises(AssertionError, match="inf ulps"):
        assert_ulps([0.0], [-0.0], "float32", 1e9, signs=True)


def test_flush_forgives_only_zeros_for_subnormals() -> None:
    assert_ulps([0.0], [1e-39], "float32", 0.5, flush=True)
    for actual, true in ((0.0, 2e-38), (1e-38, 1e-39)):
        with pytest.raises(AssertionError):
            assert_ulps([actual], [true], "float32", 0.5, flush=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_check_accepts_the_rounded_truth_and_nothing_else(function: str, dtype: str) -> None:
    vectors = load(function, dtype)
    with np.errstate(over="ignore"):
        truth = vectors.f.astype(_numpy_dtype(dtype))
    check(vectors, "jax", f=truth)
    for wrong in (np.nan, 0.25):
        changed = truth.copy()
        changed[np.flatnonzero(vectors.x == -0.5)[0]] = wrong
        with pytest.raises(AssertionError, match=f"jax, {function}, f: 1 of"):
            check(vectors, "jax", f=changed)
    with pytest.raises(ValueError, match="unknown quantity 'y'"):
        check(vectors, "jax", y=truth)


def _numpy_dtype(dtype: str) -> np.dtype:
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_vectors_hold_the_corner_cases(function: str, dtype: str) -> None:
    vectors, form = load(function, dtype), FORMATS[dtype]
    for x in (-math.inf, math.inf, -form.largest, -form.smallest, -form.smallest_normal):
        assert np.any(vectors.x == x)
    assert np.any(np.isnan(vectors.x))
    assert np.any((vectors.x == 0) & np.signbit(vectors.x))
    np.testing.assert_array_equal(vectors.x, vectors.x.astype(_numpy_dtype(dtype)).astype(np.float64))  # exact
    if dtype != "float64" and function != "isru_sigmoid":
        np.testing.assert_array_equal(vectors.alpha, vectors.alpha.astype(np.float32))
    assert sum(len(part) for _, part in vectors.by_alpha()) == len(vectors)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_obey_the_numeric_rules(dtype: str) -> None:
    vectors = load("isrlu", dtype)
    positive = vectors[vectors.x >= 0]
    np.testing.assert_array_equal(positive.f, positive.x)
    assert np.array_equal(np.signbit(positive.f), np.signbit(positive.x))
    assert np.all(positive.dfdx == 1) and np.all(positive.dfdalpha == 0)
    far = vectors[(vectors.x == -np.inf) & (vectors.alpha > 0)]
    assert_ulps(-1 / np.sqrt(far.alpha), far.f, "float64", 2)
    assert np.all(far.dfdx == 0)
    linear = vectors[(vectors.alpha == 0) & ~np.isnan(vectors.x)]
    np.testing.assert_array_equal(linear.f, linear.x)
    assert np.all(linear.dfdx == 1)


def test_unknown_vectors() -> None:
    with pytest.raises(ValueError, match="no vectors for 'relu' in 'float32'"):
        load("relu", "float32")


def test_script_reproduces_the_committed_vectors(tmp_path: Path) -> None:
    pytest.importorskip("mpmath")
    script = runpy.run_path(str(ROOT / "scripts" / "make_vectors.py"))
    script["write"](tmp_path / "vectors.csv")
    committed = ROOT / "src" / "isrlu" / "testing" / "vectors.csv"
    assert (tmp_path / "vectors.csv").read_bytes() == committed.read_bytes()


def test_every_bound_is_a_number_of_ulps() -> None:
    for table in BOUNDS.values():
        for dtype, bounds in table.items():
            assert dtype in DTYPES
            assert min(bounds.f, bounds.dfdx, bounds.dfdalpha) >= 0.5
