"""isrlu.keras on its three backends, one process each: keras_checks.py holds the tests themselves."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(backend: str) -> None:
    for module in ("keras", backend):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module}")
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    # Warnings are left as warnings: those that come from inside the frameworks are not ours to mend.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default"]
    checks = Path(__file__).with_name("keras_checks.py")
    done = subprocess.run([*command, str(checks)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout
