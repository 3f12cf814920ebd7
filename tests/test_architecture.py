"""Who may import whom: the contracts in pyproject.toml hold, and a tree that breaks one is found out."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Finders that are instances belong to editable installs: they would find the installed packages instead of the tree.
LINT = """
import sys
tree, config = sys.argv[1:]
sys.path.insert(0, tree)
sys.meta_path[:] = [finder for finder in sys.meta_path if isinstance(finder, type)]
from importlinter.cli import lint_imports
sys.exit(lint_imports(config_filename=config, no_cache=True, no_logo=True))
"""
LIBRARY = "The library never imports the laboratory"
FRAMEWORKS = "Each framework is on its own"
LAYERS = "The laboratory's layers, top to bottom"
TRAINING = "Training in general knows no kind of run, and kinds do not know each other"
CYCLES = "No cycles inside the laboratory"


def _lint(tree: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LINT, str(tree), str(ROOT / "pyproject.toml")]
    return subprocess.run(command, capture_output=True, text=True, cwd=tree)


def test_contracts_hold() -> None:
    done = _lint(ROOT / "src")
    assert done.returncode == 0, done.stdout + done.stderr
    for contract in (LIBRARY, FRAMEWORKS, LAYERS, TRAINING, CYCLES):
        assert f"{contract} KEPT" in done.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("isrlu/numpy.py", "import isrlu_lab.errors", LIBRARY),
        ("isrlu/jax.py", "def lazy():\n    import isrlu.torch", FRAMEWORKS),
        ("isrlu_lab/measure/timer.py", "def lazy():\n    from isrlu_lab.experiments import registry", LAYERS),
        ("isrlu_lab/in_no_layer.py", "", LAYERS),
        ("isrlu_lab/training/worker.py", "import isrlu_lab.training.mnist.networks", TRAINING),
        ("isrlu_lab/experiments/experiment.py", "import isrlu_lab.experiments.result_store", CYCLES),
    ],
)
def test_a_broken_contract_is_found(tmp_path: Path, file: str, line: str, contract: str) -> None:
    for package in ("isrlu", "isrlu_lab"):
        shutil.copytree(
            ROOT / "src" / package, tmp_path / package, ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
    with open(tmp_path / file, "a") as source:
        source.write(f"\n{line}\n")
    done = _lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{contract} BROKEN" in done.stdout


def test_no_file_name_stands_for_two_things() -> None:
    names = Counter(path.name for path in (ROOT / "src" / "isrlu_lab").rglob("*.py") if path.name != "__init__.py")
    assert len(names) > 50
    assert [name for name, count in names.items() if count > 1] == []
