"""Print the largest error of every framework and dtype on the test vectors, in ulps, as a Markdown table.

    python -m isrlu.testing                       # the table in docs/frameworks.md
    python -m isrlu.testing jax keras-torch           # only these frameworks
    python -m isrlu.testing --json jax                # as JSON

Each framework runs in a separate process, because Keras supports one backend per process.
"""

import argparse
import json
import os
import subprocess
import sys

from isrlu._missing import install_hint
from isrlu.testing._bounds import bounds, judged
from isrlu.testing._frameworks import EVALUATORS, evaluate, questions
from isrlu.testing._ulps import ulp_error
from isrlu.testing._vectors import DTYPES, FUNCTIONS, QUANTITIES

MISSING = 3  # exit code of a process whose framework is not installed
Errors = dict[str, dict[str, dict[str, float]]]  # function -> dtype -> quantity -> largest error in ulps


def measure(framework: str) -> Errors:
    """The largest errors of one framework, measured in this process."""
    errors: Errors = {}
    for function in FUNCTIONS:
        for dtype in DTYPES:
            vectors = questions(framework, function, dtype)
            for quantity, actual in evaluate(framework, vectors).items() if len(vectors) else ():
                rules = judged(vectors, quantity, flush=bounds(framework, function, dtype).flush)
                error = ulp_error(actual, getattr(vectors, quantity), **rules).max()
                errors.setdefault(function, {}).setdefault(dtype, {})[quantity] = float(error)
    return errors


def measure_apart(framework: str) -> Errors:
    """The largest errors of one framework, measured in a new process that sets the Keras backend and JAX's float64.

    Empty if the framework is not installed. The process reports that on standard error.
    """
    environment = os.environ | {"JAX_ENABLE_X64": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    if framework.startswith("keras-"):
        environment["KERAS_BACKEND"] = framework.removeprefix("keras-")
    command = [sys.executable, "-m", "isrlu.testing", "--here", framework]
    done = subprocess.run(command, env=environment, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode == MISSING:
        return {}
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def table(errors: dict[str, Errors]) -> str:
    """A Markdown table: one row per framework and quantity, one column per dtype, the largest error of any function."""
    lines = [f"| framework | | {' | '.join(DTYPES)} |", "|---" * (2 + len(DTYPES)) + "|"]
    for framework, found in errors.items():
        for quantity in QUANTITIES:
            cells = [
                [of[dtype][quantity] for of in found.values() if quantity in of.get(dtype, {})] for dtype in DTYPES
            ]
            if any(cells):
                shown = " | ".join(f"{max(cell):.2f}" if cell else "" for cell in cells)
                lines.append(f"| {framework} | {quantity} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m isrlu.testing", description=__doc__.partition("\n")[0])
    parser.add_argument("frameworks", nargs="*", metavar="framework", help=f"of {', '.join(EVALUATORS)} (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON, by function, dtype and quantity")
    parser.add_argument("--here", action="store_true", help="measure one framework in this process and print JSON")
    arguments = parser.parse_args()
    if unknown := set(arguments.frameworks) - set(EVALUATORS):
        parser.error(f"unknown framework {', '.join(sorted(unknown))}: known are {', '.join(EVALUATORS)}")
    if arguments.here:
        try:
            print(json.dumps(measure(*arguments.frameworks)))
        except ModuleNotFoundError as error:
            print(f"isrlu: {arguments.frameworks[0]} is left out: {install_hint(error)}", file=sys.stderr)
            sys.exit(MISSING)
        return
    found = {framework: measure_apart(framework) for framework in arguments.frameworks or EVALUATORS}
    errors = {framework: each for framework, each in found.items() if each}
    print(json.dumps(errors, indent=1) if arguments.json else table(errors))
    sys.exit(0 if len(errors) == len(found) else MISSING)


if __name__ == "__main__":
    main()
