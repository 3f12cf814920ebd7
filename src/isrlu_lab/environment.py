"""The environment of a measurement: CPU, instruction set, threads, versions, date, command."""

import datetime
import importlib.metadata
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import isrlu

PACKAGES = ("isrlu", "numpy", "torch", "jax", "keras", "tensorflow-cpu", "onnxruntime")


def cpu_name() -> str:
    """The CPU's model name as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model")))
    return next(names, platform.machine())


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that can influence a result."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def threads() -> int:
    """Number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def capture() -> dict[str, Any]:
    """The environment as a dictionary that can be stored as JSON."""
    return {
        "cpu": cpu_name(),
        "simd": isrlu.simd(),
        "simd_available": list(isrlu.simd_available()),
        "threads": threads(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }
