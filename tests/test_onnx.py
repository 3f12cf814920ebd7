"""isrlu.onnx: the model-local functions in a hand-built graph, run by onnxruntime. (Values: test_vectors.py.)"""

import math

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from isrlu.onnx import DOMAIN, add_functions, functions, make_model, node  # noqa: E402
from isrlu.testing import assert_ulps, bounds, check, expect, reference  # noqa: E402

TYPES = {"float64": onnx.TensorProto.DOUBLE, "float32": onnx.TensorProto.FLOAT, "float16": onnx.TensorProto.FLOAT16}
CURVES = ("ISRLU", "ISRU", "SISRLU")


def _run(nodes: list, x: np.ndarray, compute: str = "float32") -> np.ndarray:
    info = onnx.helper.make_tensor_value_info
    shape, data_type = [None] * x.ndim, TYPES[x.dtype.name]
    graph = onnx.helper.make_graph(nodes, "test", [info("x", data_type, shape)], [info("y", data_type, shape)])
    model = make_model(graph, compute)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("function", CURVES)
def test_function_keeps_type_and_shape(function: str, dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(dtype)
    y = _run([node(function, "x", "y", alpha=3.0)], x, "float64" if dtype == "float64" else "float32")
    assert y.dtype == dtype and y.shape == x.shape
    check(expect(function.lower(), x, 3.0), "onnxruntime", f=y)


def test_alpha_is_1_unless_given() -> None:
    x = np.array([-2.0, -0.5, 1.0], np.float32)
    bare = onnx.helper.make_node("ISRLU", ["x"], ["y"], domain=DOMAIN)
    np.testing.assert_array_equal(_run([bare], x), _run([node("ISRLU", "x", "y")], x))


def test_two_nodes_with_different_alphas() -> None:
    x = np.linspace(-3, 3, 13, dtype=np.float32)
    y = _run([node("ISRU", "x", "h", alpha=0.5), node("ISRLU", "h", "y", alpha=3.0)], x)
    bound = 2 * bounds("onnxruntime", "isru", "float32").f  # one function's error, passed on by another
    assert_ulps(y, reference("isrlu", reference("isru", x, 0.5), 3.0), "float32", bound)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 65])
def test_any_length(size: int) -> None:
    x = -np.arange(size, dtype=np.float32)
    check(expect("isrlu", x), "onnxruntime", f=_run([node("ISRLU", "x", "y")], x))


@pytest.mark.parametrize("alpha", [1e300, 3.4e38, 1e-42, 1e-45])
@pytest.mark.parametrize("function", CURVES)
def test_extreme_alphas(function: str, alpha: float) -> None:
    x = np.float32([-np.inf, -3e38, -2, 0, 3, np.inf])
    y = _run([node(function, "x", "y", alpha=alpha)], x)
    check(expect(function.lower(), x, min(alpha, 3.4028234663852886e38)), "onnxruntime", f=y)


@pytest.mark.parametrize("opset", [15, 17, 18, 20, 22])
def test_functions_are_of_the_models_opset(opset: int) -> None:
    info = onnx.helper.make_tensor_value_info
    ends = [info(name, onnx.TensorProto.FLOAT, [None]) for name in "xy"]
    graph = onnx.helper.make_graph([node("ISRLU", "x", "y", alpha=3.0)], "test", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    for _ in range(2):  # the second time there is nothing left to add
        add_functions(model)
        onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.float32([-1, 2])})[0].tolist() == [-0.5, 2]
    model.opset_import[0].version = 13
    del model.functions[:]
    with pytest.raises(ValueError, match="the functions need opset 15 or later, got 13"):
        add_functions(model)


def test_float16_beyond_255() -> None:
    x = np.array([-256, -1000, -65504, -np.inf], np.float16)
    assert np.all(_run([node("ISRLU", "x", "y", alpha=4.0)], x) == np.float16(-0.5))


def test_bad_arguments() -> None:
    for alpha in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match="alpha must be a finite number >= 0, got "):
            node("ISRLU", "x", "y", alpha=alpha)
    with pytest.raises(ValueError, match="unknown function 'isrlu': known are ISRLU, ISRU, SISRLU"):
        node("isrlu", "x", "y")
    with pytest.raises(ValueError, match="unknown compute type 'float16': known are float32, float64"):
        functions("float16")
