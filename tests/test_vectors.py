"""Every framework on the one set of test vectors, within the one table of bounds."""

import importlib.util

import pytest

from isrlu.testing import BOUNDS, DTYPES, FUNCTIONS, QUANTITIES, check, evaluate, questions
from isrlu.testing.__main__ import measure_apart, table

HERE = {"jax": "jax", "onnxruntime": "onnxruntime"}
APART = {"keras-tensorflow": "tensorflow", "keras-jax": "jax", "keras-torch": "torch"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("framework", HERE)
def test_framework(framework: str, function: str, dtype: str) -> None:
    pytest.importorskip(HERE[framework])
    vectors = questions(framework, function, dtype)
    if len(vectors) == 0:
        pytest.skip(f"{framework} has no {function}")
    check(vectors, framework, **evaluate(framework, vectors))


@pytest.mark.parametrize("framework", APART)
def test_keras(framework: str) -> None:
    for module in ("keras", APART[framework]):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module}")
    errors = measure_apart(framework)
    for function in FUNCTIONS:
        for dtype in DTYPES:
            for quantity in QUANTITIES[: 2 if function == "isru_sigmoid" else 3]:
                bound = getattr(BOUNDS[framework, "full"][dtype], quantity)
                assert errors[function][dtype][quantity] <= bound, (function, dtype, quantity)
    assert f"| {framework} | dfdalpha | " in table({framework: errors})
