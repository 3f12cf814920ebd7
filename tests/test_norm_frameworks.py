"""dyisru in NumPy, JAX, Flax and ONNX. (PyTorch: test_norm.py; Keras: keras_checks.py.)"""

import ml_dtypes
import numpy as np
import pytest
from norm_vectors import groups

import isrlu.numpy
from isrlu.testing import DTYPES, check_norm, load_norm

DERIVATIVES = ("dx", "dweight", "dalpha", "dshift")


def array(values, dtype: str) -> np.ndarray:
    return np.asarray(values, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_vectors(dtype: str) -> None:
    vectors = load_norm(dtype)
    y = np.empty_like(vectors.y)
    for mask, (weight, bias, alpha, shift) in groups(vectors):
        x = array(vectors.x[mask], dtype)
        scale = [array(np.full(x.shape, each), dtype) for each in (weight, bias)]
        found = isrlu.numpy.dyisru(x, *scale, alpha, shift)
        assert found.dtype == x.dtype
        y[mask] = found.astype(np.float64)
    check_norm(vectors, "numpy", y=y)


def test_numpy_arguments() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert isrlu.numpy.dyisru(x, np.ones((2, 3))).shape == (2, 3)
    assert isrlu.numpy.dyisru(np.arange(3), alpha=1).dtype == np.float64
    assert isrlu.numpy.dyisru(1.5) == pytest.approx(0.6)
    swapped = isrlu.numpy.dyisru(np.array([1.5], ">f4"))
    assert swapped == pytest.approx(0.6) and swapped.dtype == np.float32
    with pytest.raises(ValueError, match="alpha must be a finite number, got 1000"):
        isrlu.numpy.dyisru(1.5, alpha=10**400)
    for keywords, message in (
        ({"weight": np.ones(2)}, r"x of shape \(2, 3\) does not end in the shape \(2,\) of weight"),
        ({"bias": 1.0}, "bias needs at least 1 dim"),
        ({"shift": float("nan")}, "shift must be a finite number, got nan"),
    ):
        with pytest.raises(ValueError, match=message):
            isrlu.numpy.dyisru(x, **keywords)
    with pytest.raises(TypeError, match=r"dyisru takes real numbers .* got complex128"):
        isrlu.numpy.dyisru(x + 1j)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_jax_vectors(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    from isrlu.jax import dyisru

    def one(x, weight, bias, alpha, shift):
        return dyisru(x[None], weight[None], bias[None], alpha, shift)[0]

    vectors = load_norm(dtype)
    inputs = [array(getattr(vectors, name), dtype) for name in ("x", "weight", "bias", "alpha", "shift")]
    gradients = jax.vmap(jax.grad(one, (0, 1, 3, 4)))(*inputs)
    results = dict(zip(DERIVATIVES, gradients, strict=True), y=jax.vmap(one)(*inputs))
    check_norm(vectors, "jax", **{name: np.asarray(each).astype(np.float64) for name, each in results.items()})


def test_jax_arguments_and_second_derivative() -> None:
    jax = pytest.importorskip("jax")
    from isrlu.jax import dyisru

    x = np.float32([[0.5, -1.0, 2.0]])
    second = jax.grad(jax.grad(lambda x: dyisru(x, alpha=1.0)))(0.5)
    assert float(second) == pytest.approx(-3 * 0.5 / 1.25**2.5, rel=1e-5)
    with pytest.raises(ValueError, match=r"x of shape \(1, 3\) does not end in the shape \(2,\) of weight"):
        dyisru(x, np.ones(2))
    with pytest.raises(ValueError, match="alpha must be a number or an array with one value"):
        dyisru(x, alpha=np.ones(2))


def test_flax_module() -> None:
    pytest.importorskip("flax")
    import jax
    from flax import nnx

    from isrlu.flax import DyISRU

    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    layer = DyISRU(8, alpha=0.7, shift=0.1, rngs=nnx.Rngs(0))
    np.testing.assert_allclose(layer(x), isrlu.numpy.dyisru(x, alpha=0.7, shift=0.1), rtol=1e-6)
    grads = nnx.grad(lambda each: each(x).sum())(layer)
    assert set(nnx.state(grads)) == {"weight", "bias", "alpha", "shift"}
    np.testing.assert_allclose(grads["bias"][...], 4.0)
    graph, state = nnx.split(layer)
    np.testing.assert_array_equal(nnx.merge(graph, jax.tree.map(lambda each: each, state))(x), layer(x))
    plain = DyISRU(8, use_bias=False, use_scale=False)
    assert set(nnx.state(plain)) == {"alpha", "shift"}
    with pytest.raises(ValueError, match=r"x must be of shape \[\*, 8\], got \[4, 7\]"):
        layer(x[:, :7])
    for wrong in ((2, 4), 0, 8.0, True):
        with pytest.raises(ValueError, match="num_features must be an integer >= 1, got"):
            DyISRU(wrong)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_onnx_vectors(dtype: str) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from isrlu.onnx import make_model, norm_node

    names = ("x", "weight", "bias", "alpha", "shift")
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = [onnx.helper.make_tensor_value_info(name, kind, ["n"] if name in names[:3] else []) for name in names]
    out = onnx.helper.make_tensor_value_info("y", kind, ["n"])
    graph = onnx.helper.make_graph([norm_node(*names, "y")], "norm", values, [out])
    model = make_model(graph, "float64" if dtype == "float64" else "float32")
    onnx.checker.check_model(model, full_check=True)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    vectors = load_norm(dtype)
    y = np.empty_like(vectors.y)
    for mask, given in groups(vectors):
        x = array(vectors.x[mask], dtype)
        inputs = [x, *[np.full(x.shape, each, dtype) for each in given[:2]], *[np.asarray(e, dtype) for e in given[2:]]]
        (found,) = session.run(None, dict(zip(names, inputs, strict=True)))
        y[mask] = found
    check_norm(vectors, "onnxruntime", y=y)
