"""Examples and the code of pages run as a user would run them; an example reaches the figure that its head names."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
# file -> packages it needs, what its last line must show
EXPECTED = {
    "torch_classifier.py": (["torch", "sklearn"], lambda figure: figure > 0.95),
    "keras_classifier.py": (["keras", "jax", "sklearn"], lambda figure: figure > 0.95),
    "flax_classifier.py": (["flax", "optax", "sklearn"], lambda figure: figure > 0.94),
    "swap_activations.py": (["torch", "sklearn"], lambda figure: figure > 0.94),
    "swap_norms.py": (["torch", "sklearn"], lambda figure: figure > 0.94),
    "onnx_export.py": (["torch", "onnx", "onnxruntime", "onnxscript"], lambda figure: figure < 1e-6),
}


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str) -> None:
    packages, holds = EXPECTED[name]
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}")
    environment = os.environ | {"KERAS_BACKEND": "jax", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    figure = re.fullmatch(r".*: ([-+.\de]+)", done.stdout.splitlines()[-1])
    assert figure is not None and holds(float(figure.group(1))), done.stdout


@pytest.mark.parametrize(
    ("page", "heading", "package"), [("README.md", "# isrlu", "torch"), ("docs/frameworks.md", "## NumPy", "numpy")]
)
def test_code_of_a_page(page: str, heading: str, package: str) -> None:
    """As it stands, without a warning (which is an error in these tests)."""
    pytest.importorskip(package)
    section = (ROOT / page).read_text().partition(heading + "\n")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    assert code
    exec(code, {})
