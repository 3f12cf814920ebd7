"""ISRLU and ISRU for ONNX: the model-local functions `isrlu::ISRLU` and `isrlu::ISRU`, built of standard operators.

They are for graphs that are built by hand. Any runtime can run them without a custom operator. Both take one tensor and
the attribute `alpha` (default 1), and return a tensor of the same type.

>>> graph = onnx.helper.make_graph(
...     [node("ISRLU", "x", "y", alpha=3.0)],
...     "example",
...     [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])],
...     [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])],
... )
>>> model = make_model(graph)
>>> onnx.checker.check_model(model, full_check=True)
"""

from typing import Any

import numpy as np

from isrlu import _formula
from isrlu._checks import check_alpha, require

with require("onnx"):
    import onnx

__all__ = ["DOMAIN", "OPSET", "add_functions", "functions", "make_model", "node"]

DOMAIN = "isrlu"
"""The domain of the model-local functions."""
OPSET = 18
"""The opset of the standard operators. onnxruntime 1.14 and later support it."""
OLDEST = 15  # the first opset with CastLike
LARGEST = float(np.finfo(np.float32).max)

# x is clamped to +-limit, beyond which f is +-1/sqrt(alpha) to the last bit, so that alpha x^2 does not overflow. The
# runtime folds everything that depends only on alpha into constants, including the choice of the branch. ISRLU is the
# larger of x and the curve, which is correct because the root is >= 1. A Where would not do: onnxruntime's turns -0.0
# into 0.0.
_BODY = """
    number = Constant <value_float: float = @alpha> ()
    alpha = Cast <to: int = {type}> (number)
    x = Cast <to: int = {type}> (X)
    zero = Constant <value = {name} {{0.0}}> ()
    linear = Equal (alpha, zero)
    y = If (linear) <
        then_branch = alpha_is_0 () => (passed) {{ passed = Identity (x) }},
        else_branch = alpha_is_positive () => (bent) {{
            one = Constant <value = {name} {{1.0}}> ()
            far = Constant <value = {name} {{{far}}}> ()
            largest = Constant <value = {name} {{{largest}}}> ()
            root_alpha = Sqrt (alpha)
            quotient = Div (far, root_alpha)
            limit = Min (quotient, largest)
            low = Neg (limit)
            m = Clip (x, low, limit)
            alpha_m = Mul (alpha, m)
            alpha_m_m = Mul (alpha_m, m)
            d = Add (one, alpha_m_m)
            root = Sqrt (d)
            curve = Div (m, root)
            bent = {result}
        }}
    >
    Y = CastLike (y, X)
"""
_RESULT = {"ISRLU": "Max (x, curve)", "ISRU": "Identity (curve)"}


def functions(compute: str = "float32", opset: int = OPSET) -> list[onnx.FunctionProto]:
    """Both functions, for tensors of type float, float16 and bfloat16, or with compute="float64" for double.

    Inputs are converted to the type `compute`, and the result is rounded once. The operators are of version `opset`.
    """
    if opset < OLDEST:
        raise ValueError(f"the functions need opset {OLDEST} or later, got {opset}: see onnx.version_converter")
    if compute != _formula.computed(compute):
        raise ValueError(f"unknown compute type {compute!r}: known are float32, float64")
    double = compute == "float64"
    types: dict[str, Any] = {"name": "double" if double else "float", "far": _formula.far(compute)}
    types["largest"] = float(np.finfo(compute).max)
    types["type"] = onnx.TensorProto.DOUBLE if double else onnx.TensorProto.FLOAT
    return [
        onnx.parser.parse_function(
            f'<domain: "{DOMAIN}", opset_import: ["": {opset}]>\n{name} <alpha: float = 1.0> (X) => (Y)\n'
            f"{{{_BODY.format(result=result, **types)}}}"
        )
        for name, result in _RESULT.items()
    ]


def node(function: str, x: str, y: str, *, alpha: float = 1.0) -> onnx.NodeProto:
    """The node y = ISRLU(x) or y = ISRU(x). ONNX stores alpha, an attribute, as a float32."""
    if function not in _RESULT:
        raise ValueError(f"unknown function {function!r}: known are {', '.join(_RESULT)}")
    return onnx.helper.make_node(function, [x], [y], domain=DOMAIN, alpha=min(check_alpha(alpha), LARGEST))


def add_functions(model: onnx.ModelProto, compute: str = "float32") -> onnx.ModelProto:
    """Add the functions and the import of the domain `isrlu` to `model`, unless they are there already."""
    opsets = {each.domain: each.version for each in model.opset_import}
    present = {each.name for each in model.functions if each.domain == DOMAIN}
    opset = opsets.get("", opsets.get("ai.onnx", OPSET))
    model.functions.extend(each for each in functions(compute, opset) if each.name not in present)
    if DOMAIN not in opsets:
        model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return model


def make_model(graph: onnx.GraphProto, compute: str = "float32") -> onnx.ModelProto:
    """`onnx.helper.make_model` with the functions added, for a graph whose other operators are of opset `OPSET`."""
    opset = onnx.helper.make_opsetid("", OPSET)
    return add_functions(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), compute)
