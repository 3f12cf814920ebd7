"""Bring docs/results up to date with the code: scripts/ship_results.py NAME... [--out FOLDER]

Without --out, the results of training experiments are made again from docs/results/*/runs.json: tables, claims and
figures follow the code, while machine, date and command stay those of the training. With --out, results (full preset)
are copied from that output folder, where `isrlu reproduce --full` made them. Figures are stored as SVG. The package
contains these results: see CMakeLists.txt and `isrlu_lab.report.shipped`.
"""

import argparse
import dataclasses
import json
import re
import shutil
import tempfile
from pathlib import Path

from rich.console import Console

from isrlu_lab import reproduce
from isrlu_lab.atomic_files import encode_json
from isrlu_lab.experiments.result_store import Record, Store
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.run_store import RunStore

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="experiments")
    parser.add_argument("--out", type=Path, help="output folder to copy results from")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = arguments.out or rebuild(arguments.names, Path(folder))
        for name in arguments.names:
            ship(name, Store(OutputFolder(out)))


def rebuild(names: list[str], out: Path) -> Path:
    """Make the results of `names` from the stored runs, in the output folder `out`."""
    with RunStore(OutputFolder(out)) as store:
        for path in sorted(RESULTS.glob("*/runs.json")):
            store.merge(path)
    for name in names:
        old = json.loads((RESULTS / name / "result.json").read_text())
        old["result"]["figures"] = []  # their SVG files may be missing
        path = OutputFolder(out).result(name, "full")
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(old))
        options = {"stored": True, "seeds": old["environment"]["runs"]["seeds"]}
        console = Console(stderr=True)
        if reproduce.reproduce([name], out, full=True, again=False, console=console, errors=console, options=options):
            raise SystemExit(f"{name} failed")
        store = Store(OutputFolder(out))
        new = load(name, store)
        kept = {**old["environment"], "runs": new.environment["runs"]}
        store.save(dataclasses.replace(new, seconds=old["seconds"], environment=kept))
    return out


def load(name: str, store: Store) -> Record:
    record = store.load(name, "full")
    if record is None:
        raise SystemExit(f"no result of {name} (full preset) in {store.output.root}")
    return record


def ship(name: str, store: Store) -> None:
    """Copy the result and its figures to docs/results, and remove other figures there."""
    record, source, target = load(name, store), store.folder(name, "full").path, RESULTS / name
    target.mkdir(exist_ok=True)
    for path in (*target.glob("*.svg"), *target.glob("*.png")):
        path.unlink()
    for file in ("result.json", *(f"{figure.name}.svg" for figure in record.result.figures)):
        shutil.copyfile(source / file, target / file)
    data = json.loads((target / "result.json").read_text())
    command = data["environment"]["command"]
    data["environment"]["command"] = re.sub(r" --(out|data) \S+", "", command)  # without the paths of one machine
    (target / "result.json").write_bytes(encode_json(data))
    print(f"{target}: {len(record.result.figures)} figures, {len(record.result.tables)} tables")


if __name__ == "__main__":
    main()
