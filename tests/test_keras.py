"""isrlu.keras on its three backends: keras_checks.py holds the checks, and each counts once per backend.

Keras has one backend per process, so pytest runs keras_checks.py in a process of its own for each backend, once. The
tests here report what became of each check there.
"""

import ast
import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

CHECKS = Path(__file__).with_name("keras_checks.py")
BACKENDS = ("tensorflow", "jax", "torch")


def every_check() -> Iterator[tuple[str, str]]:
    """(backend, check), read without an import of Keras. `@on_torch` marks a check of that backend alone."""
    functions = [each for each in ast.parse(CHECKS.read_text()).body if isinstance(each, ast.FunctionDef)]
    for backend in BACKENDS:
        for function in functions:
            marks = {each.id for each in function.decorator_list if isinstance(each, ast.Name)}
            if function.name.startswith("test_") and marks <= {f"on_{backend}"}:
                yield backend, function.name


@functools.cache
def outcomes(backend: str, checks: Path = CHECKS) -> dict[str, list[ElementTree.Element]] | str:
    """check -> the JUnit elements of its cases on `backend`; or, if the process died, what it said."""
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    # Warnings are left as warnings: those that come from inside the frameworks are not ours to mend.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command += [f"--junit-xml={report}", str(checks)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if not report.exists():
            return f"the process ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        found: dict[str, list[ElementTree.Element]] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            found.setdefault(case.attrib["name"].partition("[")[0], []).append(case)
    return found


def report(backend: str, check: str, checks: Path = CHECKS) -> None:
    """Fail if a case of the check failed on `backend` or none ran; skip if one was skipped."""
    found = outcomes(backend, checks)
    assert not isinstance(found, str), found
    cases = found.get(check, [])
    assert cases, f"{check} did not run on {backend}"
    wrong = [part for case in cases for part in case if part.tag in ("failure", "error")]
    assert not wrong, f"{len(wrong)} of {len(cases)} cases:\n" + "\n".join(part.text or "" for part in wrong)
    for skipped in (part for case in cases for part in case if part.tag == "skipped"):
        pytest.skip(skipped.attrib["message"])


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "check"), list(every_check()))
def test_check(backend: str, check: str) -> None:
    for module in ("keras", backend):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module}")
    report(backend, check)


REPORTED = """
import os, sys, pytest
def test_right() -> None: pass
@pytest.mark.parametrize("number", [1, 2])
def test_wrong(number: int) -> None: assert number == 1
def test_skipped() -> None: pytest.skip("no package")
"""


@pytest.mark.slow
def test_each_outcome_is_reported(tmp_path: Path) -> None:
    checks = tmp_path / "checks.py"
    checks.write_text(REPORTED)
    report("any", "test_right", checks)
    with pytest.raises(AssertionError, match=r"(?s)1 of 2 cases:.*assert 2 == 1"):
        report("any", "test_wrong", checks)
    with pytest.raises(pytest.skip.Exception, match="no package"):
        report("any", "test_skipped", checks)
    with pytest.raises(AssertionError, match="test_absent did not run on any"):
        report("any", "test_absent", checks)


def test_a_process_that_dies_fails_every_check(tmp_path: Path) -> None:
    checks = tmp_path / "checks.py"
    checks.write_text(REPORTED + "def test_death() -> None: os._exit(7)\n")
    for check in ("test_right", "test_death"):
        with pytest.raises(AssertionError, match="the process ended with 7"):
            report("any", check, checks)
