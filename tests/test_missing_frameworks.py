"""A framework that is not installed: `import isrlu.<framework>` says in one line what to install."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# module of ours -> the package that it needs, the extra that installs it
NEEDS = {
    "isrlu.jax": ("jax", "jax"),
    "isrlu.flax": ("flax", "jax"),
    "isrlu.keras": ("keras", "keras"),
    "isrlu.onnx": ("onnx", "onnx"),
    "isrlu.torch": ("torch", "torch"),
}
BLOCKED = "import sys; sys.modules[{blocked!r}] = None; import {module}"


def _import(module: str, blocked: str) -> subprocess.CompletedProcess[str]:
    program = BLOCKED.format(module=module, blocked=blocked)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


@pytest.mark.parametrize("module", NEEDS)
def test_message(module: str) -> None:
    package, extra = NEEDS[module]
    done = _import(module, package)
    assert done.returncode == 1
    command = f"pip install -c constraints.txt '.[{extra}]' in a checkout of isrlu"
    expected = f"ModuleNotFoundError: {package} is not installed: {command}"
    assert done.stderr.splitlines()[-1] == expected
    assert "During handling" not in done.stderr


def test_nothing_is_said_where_nothing_is_missing() -> None:
    """The test above can fail: with another package blocked, the import succeeds."""
    pytest.importorskip("jax")
    done = _import("isrlu.jax", "no_such_package")
    assert (done.returncode, done.stderr) == (0, "")


def test_package_imports_no_framework() -> None:
    program = "import sys, isrlu; print(sorted({'torch', 'jax', 'keras', 'tensorflow', 'onnx'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_table_of_errors_leaves_out_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("""raise ModuleNotFoundError("No module named 'jax'", name="jax")""")
    command = [sys.executable, "-m", "isrlu.testing", "numpy", "jax", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 3
    assert list(json.loads(done.stdout)) == ["numpy"]
    assert done.stderr == (
        "isrlu: jax is left out: the package jax is not installed: "
        "pip install -c constraints.txt '.[jax]' in a checkout of isrlu\n"
    )


def test_a_framework_that_is_broken_itself_is_not_called_missing() -> None:
    from isrlu._checks import require

    with pytest.raises(ModuleNotFoundError, match="No module named 'isrlu_no_such_module'"), require("jax"):
        import isrlu_no_such_module  # noqa: F401
