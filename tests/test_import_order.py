"""Triton and TensorFlow in one process: Triton has to be imported first. The other order ends the process."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

# A stand-in, where Triton is not installed. Like the real one ("LLVM ... registered more than once"), it ends the
# process if TensorFlow came first. Then it counts as missing.
TRITON = """
import os, sys
if "tensorflow" in sys.modules and "TRITON_CAME_FIRST" not in os.environ:
    os.abort()
os.environ["TRITON_CAME_FIRST"] = "1"
raise ImportError("a stand-in")
"""
PROGRAM = """
import sys
from isrlu_lab.cli import main
try:
    main()
except SystemExit as end:
    print("ended with", end.code, "with TensorFlow" if "tensorflow" in sys.modules else "without")
"""
TRAIN = ("train", "--data", "digits", "--width", "16", "--steps", "2", "--threads", "1", "--tensorboard")


@pytest.mark.slow
def test_tensorboard_comes_after_triton(tmp_path: Path) -> None:
    """TensorBoard loads TensorFlow, and PyTorch's optimisers import its compiler, and with it Triton."""
    for package in ("tensorboard", "tensorflow", "sklearn"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    if importlib.util.find_spec("triton") is None:
        (tmp_path / "triton.py").write_text(TRITON)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *TRAIN, str(tmp_path / "board")],
        capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ended with 0 with TensorFlow" in done.stdout
