"""The ONNX functions ISRLU and ISRU against onnxruntime's own activations, alone and in a small model."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from isrlu.onnx import make_model, node
from isrlu_lab.measure.framework_bench import LAYOUT, SIZES, check, compare
from isrlu_lab.measure.measurement import Measurement
from isrlu_lab.measure.printer import Tables

NAME = "onnxruntime"
BATCH, WIDTHS = 64, (784, 256, 256, 10)

Node = Callable[[str, str], onnx.NodeProto]
ACTIVATIONS: dict[str, Node] = {
    "relu": lambda x, y: onnx.helper.make_node("Relu", [x], [y]),
    "elu": lambda x, y: onnx.helper.make_node("Elu", [x], [y]),
    "tanh": lambda x, y: onnx.helper.make_node("Tanh", [x], [y]),
    "isrlu": lambda x, y: node("ISRLU", x, y),
    "isru": lambda x, y: node("ISRU", x, y),
}


def bench(*, size: list[int] | None, rounds: int, progress: Callable[[str], None]) -> Tables:
    """`isrlu bench onnx`."""
    return [(LAYOUT, run(size or SIZES, rounds=rounds, progress=progress))]


def run(
    sizes: Iterable[int] = SIZES, *, rounds: int = 25, progress: Callable[[str], object] = lambda _: None
) -> list[Measurement]:
    """Measure all activations on `sizes` elements each, and then a perceptron with each of them."""
    found: list[Measurement] = []
    random = np.random.default_rng(0)
    for size in sizes:
        progress(f"{NAME}, {size:,} elements")
        x = random.standard_normal(size).astype(np.float32)
        calls = {name: _call([make("x", "y")], x) for name, make in ACTIVATIONS.items()}
        check(calls, "forward", x, x)
        found += compare(NAME, "forward", size, calls, rounds=rounds)
    progress(f"{NAME}, perceptron")
    x = random.standard_normal((BATCH, WIDTHS[0])).astype(np.float32)
    calls = {}
    for name, make in ACTIVATIONS.items():
        nodes, weights = _perceptron(make)
        calls[name] = _call(nodes, x, weights)
    return found + compare(NAME, "perceptron", BATCH, calls, rounds=rounds)


def _perceptron(activation: Node) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Dense layers of the given widths with the activation between them."""
    random = np.random.default_rng(1)
    nodes, weights, value = [], [], "x"
    for layer, (rows, columns) in enumerate(pairwise(WIDTHS)):
        weight = random.standard_normal((rows, columns)).astype(np.float32) / np.float32(rows**0.5)
        weights.append(onnx.numpy_helper.from_array(weight, f"w{layer}"))
        last = layer == len(WIDTHS) - 2
        nodes.append(onnx.helper.make_node("MatMul", [value, f"w{layer}"], ["y" if last else f"z{layer}"]))
        value = f"a{layer}"
        nodes += [] if last else [activation(f"z{layer}", value)]
    return nodes, weights


def _call(
    nodes: list[onnx.NodeProto], x: NDArray[np.float32], weights: Sequence[onnx.TensorProto] = ()
) -> Callable[[], Any]:
    """A call that runs the graph of `nodes`, from "x" to "y"."""
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * x.ndim) for name in "xy"]
    model = make_model(onnx.helper.make_graph(nodes, "bench", ends[:1], ends[1:], list(weights)))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]
