"""The model-local functions `isrlu::ISRLU`, `isrlu::ISRU` and `isrlu::SISRLU` for ONNX, built of standard operators.

They are for graphs that are built by hand. Any runtime can run them without a custom operator. They take one tensor and
the attribute `alpha` (default 1), and return a tensor of the same type. SISRLU has no default alpha and also takes the
attributes `positive` and `negative`, which `node` computes: lambda and lambda beta, as tensors with one double.

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
from isrlu.signal import SISRLU_ALPHA, sisrlu_constants

with require("onnx"):
    import onnx

__all__ = ["DOMAIN", "OPSET", "add_functions", "functions", "make_model", "node"]

DOMAIN = "isrlu"
OPSET = 18  # of the standard operators; supported by onnxruntime 1.14 and later
OLDEST = 15  # the first opset with CastLike
LARGEST = float(np.finfo(np.float32).max)

# x is clamped to +-limit, beyond which f is +-1/sqrt(alpha) to the last bit, so that alpha x^2 does not overflow. The
# runtime folds everything that depends only on alpha into constants, including the choice of the branch. ISRLU is the
# larger of x and the curve, which is correct because the root is >= 1. A Where would not do: onnxruntime's turns -0.0
# into 0.0. SISRLU is ISRLU times one of two constants.
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
            {result}
        }}
    >
    Y = CastLike (y, X)
"""
_SCALE = """
            number_positive = Constant <value: tensor = @positive> ()
            number_negative = Constant <value: tensor = @negative> ()
            scale_positive = Cast <to: int = {type}> (number_positive)
            scale_negative = Cast <to: int = {type}> (number_negative)
            is_negative = Less (x, zero)
            scale = Where (is_negative, scale_negative, scale_positive)
            isrlu = Max (x, curve)
            bent = Mul (scale, isrlu)"""
_ALPHA = "alpha: float = 1.0"
# name -> attributes, and how the result follows from x and the curve
_FUNCTIONS = {
    "ISRLU": (_ALPHA, "bent = Max (x, curve)"),
    "ISRU": (_ALPHA, "bent = Identity (curve)"),
    "SISRLU": ("alpha, positive, negative", _SCALE.strip()),
}


def functions(compute: str = "float32", opset: int = OPSET) -> list[onnx.FunctionProto]:
    """The functions, for tensors of type float, float16 and bfloat16, or with compute="float64" for double.

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
            f'<domain: "{DOMAIN}", opset_import: ["": {opset}]>\n{name} <{attributes}> (X) => (Y)\n'
            f"{{{_BODY.format(result=result.format(**types), **types)}}}"
        )
        for name, (attributes, result) in _FUNCTIONS.items()
    ]


def node(function: str, x: str, y: str, *, alpha: float | None = None) -> onnx.NodeProto:
    """The node y = ISRLU(x), y = ISRU(x) or y = SISRLU(x). ONNX stores alpha, an attribute, as a float32.

    alpha is 1 by default, for SISRLU 0.70832.
    """
    if function not in _FUNCTIONS:
        raise ValueError(f"unknown function {function!r}: known are {', '.join(_FUNCTIONS)}")
    default = SISRLU_ALPHA if function == "SISRLU" else 1.0
    number = float(np.float32(min(check_alpha(default if alpha is None else alpha), LARGEST)))
    attributes: dict[str, Any] = {"alpha": number}
    if function == "SISRLU":
        beta, lambda_ = sisrlu_constants(number)
        attributes |= {"positive": _scalar(lambda_), "negative": _scalar(lambda_ * beta)}
    return onnx.helper.make_node(function, [x], [y], domain=DOMAIN, **attributes)


def _scalar(number: float) -> onnx.TensorProto:
    return onnx.helper.make_tensor("number", onnx.TensorProto.DOUBLE, [], [number])


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
