"""An experiment of six parts that notes every start in a file: what the tests kill, interrupt and let fail.

`python toy_experiment.py ARGUMENTS...` is `isrlu ARGUMENTS...` with the registry holding "toy" and "other" alone.
"""

import os
import sys
import time
from pathlib import Path

from isrlu_lab.experiments import registry
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Column, Experiment, Result, Table

PARTS = 6


def run(context: Context) -> Result:
    values = []
    for part in range(PARTS):
        context.progress(f"part {part}", part, PARTS)
        values.append(context.remember(f"part-{part}", lambda part=part: _part(part)))
    if os.environ.get("TOY_FAILS"):
        raise RuntimeError("the toy is broken\nand this line is for the traceback")
    columns = [
        Column("part"),
        Column("value", "paper", "{:.1f}", bar=True),
        Column("value", "here", "{:.1f}", bar=True),
        Column("value", "spread", "± {:.0%}"),
        Column("agrees", "verdict"),
    ]
    rows = [[f"part {part}", part + 0.5, value, 0.02, "holds"] for part, value in enumerate(values)]
    rows[-1] = ["<b>last & least</b>", None, values[-1], None, "not run"]
    claims = [
        Claim("Toys are fast.", "section 0", "holds", "0.1 s"),
        Claim("Toys are <i>cheap</i>.", "section 0", "does not", "9 EUR", "Wood is dear: see `isrlu info`."),
    ]
    return Result([Table("Parts of the toy", columns, rows)], claims, notes=["A note on `toys`: ∞ of them."], seeds=[7])


def _part(part: int) -> float:
    with open(os.environ["TOY_LOG"], "a") as log:
        log.write(f"{part}\n")
    time.sleep(float(os.environ.get("TOY_SECONDS", "0")))
    return part * 1.0


def entry(name: str) -> Experiment:
    return Experiment(name, f"Table 0: {name}", "a toy", "1 s", "2 s", "toy_experiment")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    registry.EXPERIMENTS = (entry("toy"), entry("other"))
    from isrlu_lab.cli import main

    main()
