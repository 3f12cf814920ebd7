"""Evaluate the test vectors in each framework. Results are float64 arrays: f, df/dx and, with an alpha, df/dalpha."""

import functools
import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrlu.testing._vectors import QUANTITIES, WITH_ALPHA_DERIVATIVE, Vectors, load

Results = dict[str, NDArray[np.float64]]


def questions(framework: str, function: str, dtype: str) -> Vectors:
    """The test vectors that `framework` supports.

    ONNX has no isru_sigmoid, and its alpha is always float32. XLA and TensorFlow read a subnormal x as 0. sisrlu, which
    multiplies every x and has a kink at 0, then has another value and another slope.
    """
    vectors = load(function, dtype)
    if function == "sisrlu" and framework not in ("numpy", "torch"):
        least = np.finfo("float64" if dtype == "float64" else "float32").tiny
        if framework in ("jax", "keras-tensorflow", "keras-jax"):
            vectors = vectors[~((vectors.x != 0) & (np.abs(vectors.x) < least))]
        # Where alpha x^2 overflows, the formula has the slope 0. For such an alpha the true slope may be subnormal.
        vectors = vectors[~((vectors.alpha > 1e30) & (vectors.dfdx > 0) & (vectors.dfdx < least))]
    if framework == "onnxruntime":
        with np.errstate(over="ignore"):
            return vectors[vectors.alpha.astype(np.float32) == vectors.alpha]
    return vectors


def evaluate(framework: str, vectors: Vectors) -> Results:
    """The results of `framework` for the vectors. Keras only supports the backend that this process runs."""
    evaluator = EVALUATORS[framework]
    if vectors.function != "sisrlu" or framework in ("torch.compile", "onnxruntime"):
        return evaluator(vectors)
    results = {quantity: np.empty_like(vectors.x) for quantity in ("f", "dfdx")}  # its alpha is a number
    for alpha, part in vectors.by_alpha():
        for quantity, values in evaluator(part).items():
            results[quantity][vectors.alpha == alpha] = values
    return results


def _function(module: ModuleType, vectors: Vectors, suffix: str = "") -> Callable[..., Any]:
    """The function of `module`. For sisrlu, with the alpha of the vectors, which must all have the same."""
    function = getattr(module, vectors.function + suffix)
    if vectors.function != "sisrlu":
        return function
    return functools.partial(function, alpha=float(vectors.alpha[0]))


def _arguments(vectors: Vectors) -> list[NDArray[Any]]:
    """x in its dtype, and alpha if it can be an array. NumPy converts them, because XLA flushes subnormals to 0."""
    import ml_dtypes

    x = vectors.x.astype(ml_dtypes.bfloat16 if vectors.dtype == "bfloat16" else vectors.dtype)
    alpha = vectors.alpha.astype("float64" if vectors.dtype == "float64" else "float32")
    return [x, alpha] if vectors.function in WITH_ALPHA_DERIVATIVE else [x]


def _named(results: list[Any]) -> Results:
    """The arrays by quantity, converted to float64 by NumPy for the same reason."""
    arrays = (np.asarray(result).astype(np.float64) for result in results)
    return dict(zip(QUANTITIES, arrays, strict=False))


def _numpy(vectors: Vectors) -> Results:
    import isrlu.numpy

    value, slope = (_function(isrlu.numpy, vectors, suffix) for suffix in ("", "_grad"))
    arguments = _arguments(vectors)
    return _named([value(*arguments), slope(*arguments)])


def _torch(vectors: Vectors) -> Results:
    import isrlu.torch

    return _torch_results(_function(isrlu.torch, vectors), vectors)


def _torch_compile(vectors: Vectors) -> Results:
    import torch

    import isrlu.torch

    torch.compiler.reset()
    function = getattr(isrlu.torch, vectors.function)
    if vectors.function == "sisrlu":  # all numbers in one graph: each of its own would take seconds to compile
        runs = [(alpha, len(list(rows))) for alpha, rows in itertools.groupby(vectors.alpha.tolist())]

        def function(x: Any) -> Any:
            parts = x.split([count for _, count in runs], 1)
            return torch.cat([isrlu.torch.sisrlu(part, alpha) for part, (alpha, _) in zip(parts, runs, strict=True)], 1)

    return _torch_results(torch.compile(function, fullgraph=True), vectors)


def _torch_results(function: Callable[..., Any], vectors: Vectors) -> Results:
    """One channel for each x, so that each alpha gets a separate gradient."""
    import torch

    arguments = [torch.tensor(vectors.x).to(getattr(torch, vectors.dtype))[None]]
    if vectors.function in WITH_ALPHA_DERIVATIVE:
        arguments.append(torch.tensor(vectors.alpha).to(torch.float64 if vectors.dtype == "float64" else torch.float32))
    return _named([part.double().reshape(-1) for part in _torch_vjp(function, arguments)])


def _jax(vectors: Vectors) -> Results:
    import jax
    import jax.numpy as jnp

    import isrlu.jax

    with jax.enable_x64(True):
        arguments = [jnp.asarray(array) for array in _arguments(vectors)]
        return _named(_jax_vjp(_function(isrlu.jax, vectors), arguments))


def _keras(vectors: Vectors) -> Results:
    import keras
    from keras import ops

    import isrlu.keras

    vjp = VJP[keras.backend.backend()]
    arguments = [ops.convert_to_tensor(array) for array in _arguments(vectors)]
    return _named([ops.convert_to_numpy(part) for part in vjp(_function(isrlu.keras, vectors), arguments)])


def _tensorflow_vjp(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(arguments)
        f = function(*arguments)
    return [f, *tape.gradient(f, arguments)]


def _jax_vjp(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    import jax

    f, pull = jax.vjp(function, *arguments)
    return [f, *pull(jax.numpy.ones_like(f))]


def _torch_vjp(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    f = function(*leaves)
    f.backward(f.new_ones(f.shape))
    return [f.detach(), *(leaf.grad for leaf in leaves)]


# backend of Keras -> function that returns f and its gradients
VJP = {"tensorflow": _tensorflow_vjp, "jax": _jax_vjp, "torch": _torch_vjp}


def _onnxruntime(vectors: Vectors) -> Results:
    """Only f, and no isru_sigmoid."""
    import onnx
    import onnxruntime

    from isrlu.onnx import make_model, node

    names = {"float64": "DOUBLE", "float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "BFLOAT16"}
    data_type = onnx.TensorProto.DataType.Value(names[vectors.dtype])
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, ["n"]) for name in ("x64", "y64")]
    f = np.empty_like(vectors.x)
    for alpha, part in vectors.by_alpha():
        nodes = [
            onnx.helper.make_node("Cast", ["x64"], ["x"], to=data_type),
            node(vectors.function.upper(), "x", "y", alpha=alpha),
            onnx.helper.make_node("Cast", ["y"], ["y64"], to=onnx.TensorProto.DOUBLE),
        ]
        graph = onnx.helper.make_graph(nodes, "vectors", ends[:1], ends[1:])
        model = make_model(graph, "float64" if vectors.dtype == "float64" else "float32")
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        f[vectors.alpha == alpha] = session.run(None, {"x64": part.x})[0]
    return {"f": f}


EVALUATORS: dict[str, Callable[[Vectors], Results]] = {
    "numpy": _numpy,
    "torch": _torch,
    "torch.compile": _torch_compile,
    "jax": _jax,
    "keras-tensorflow": _keras,
    "keras-jax": _keras,
    "keras-torch": _keras,
    "onnxruntime": _onnxruntime,
}
