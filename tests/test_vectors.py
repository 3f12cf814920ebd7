"""Every framework on the one set of test vectors, within the one table of bounds."""

import importlib.util

import pytest

from isrlu.testing import DTYPES, EVALUATORS, FUNCTIONS, WITH_ALPHA_DERIVATIVE, bounds, check, evaluate, questions
from isrlu.testing.__main__ import measure_apart, table

# framework -> the packages that it needs
HERE = {"numpy": ["numpy"], "torch": ["torch"], "jax": ["jax"], "onnxruntime": ["onnx", "onnxruntime"]}
APART = {
    "torch.compile": ["torch"],
    "keras-tensorflow": ["keras", "tensorflow"],
    "keras-jax": ["keras", "jax"],
    "keras-torch": ["keras", "torch"],
}


def _skip_without(packages: list[str]) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}")


def test_no_framework_is_forgotten() -> None:
    assert set(HERE) | set(APART) == set(EVALUATORS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("framework", HERE)
def test_framework(framework: str, function: str, dtype: str) -> None:
    _skip_without(HERE[framework])
    vectors = questions(framework, function, dtype)
    if len(vectors) == 0:
        pytest.skip(f"{framework} has no {function}")
    check(vectors, framework, **evaluate(framework, vectors))


@pytest.mark.slow
@pytest.mark.parametrize("framework", APART)
def test_framework_in_its_own_process(framework: str) -> None:
    _skip_without(APART[framework])
    errors = measure_apart(framework)
    assert set(errors) == set(FUNCTIONS)
    for function, by_dtype in errors.items():
        assert set(by_dtype) == set(DTYPES)
        for dtype, found in by_dtype.items():
            assert set(found) == {"f", "dfdx"} | ({"dfdalpha"} if function in WITH_ALPHA_DERIVATIVE else set())
            for quantity, error in found.items():
                assert error <= getattr(bounds(framework, function, dtype), quantity), (function, dtype, quantity)
    assert f"| {framework} | dfdalpha | " in table({framework: errors})
