"""Tables, claims and plots, from runs with known numbers; shards as a user runs them."""

import dataclasses
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from isrlu_lab import data
from isrlu_lab.errors import UserError
from isrlu_lab.experiments import stats, study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.mnist import alpha, approx, table4, table5, tables
from isrlu_lab.experiments.result_store import Folder
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training import worker
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.run_store import Run, RunStore

Numbers = Callable[[MnistSpec], dict[str, float]]


def made_up(
    spec: MnistSpec, *, accuracy: float = 99.2, loss: float = 2.5, early: float = 0.5, unit: float = 0.1
) -> Run:
    steps = [600 * (epoch + 1) for epoch in range(spec.epochs)]
    history = {
        "train_steps": steps,
        "train_loss": [early / (epoch + 1) for epoch in range(spec.epochs)],
        "test_steps": steps,
        "test_loss": [loss / 100] * spec.epochs,
        "test_accuracy": [accuracy - 1.0 + min(epoch, 4) / 4 for epoch in range(spec.epochs)],
        "unit_epochs": list(range(spec.epochs + 1)),
        "unit_mean": [[unit] * 4] * (spec.epochs + 1),
        "unit_median": [[unit] * 4] * (spec.epochs + 1),
        "alphas": [[spec.alpha + layer * epoch for layer in range(4)] for epoch in range(spec.epochs + 1)]
        if spec.learnable
        else [],
        "steps_per_epoch": 600,
        "seconds": 1.0,
    }
    return Run(spec, "done", result={"best_accuracy": accuracy, "final_loss": loss, "history": history})


def imagined(rows: list[Row], numbers: Numbers = lambda spec: {}, *, seeds: int = 5, full: bool = True) -> Study:
    found = Study(rows, list(range(seeds)), {}, "mnist", "MNIST", full)
    runs = {spec.hash: made_up(spec, **numbers(spec)) for spec in found.specs()}
    return dataclasses.replace(found, runs=runs)


def noise(spec: MnistSpec) -> float:
    """The part of a run's accuracy that another seed, or another row, changes."""
    return 0.02 * float(np.random.default_rng(int(spec.hash, 16)).normal())


def verdicts(found: Study) -> list[str]:
    return [each.verdict for each in table4._claims(found)]


def test_rows_are_the_papers() -> None:
    rows = table4.rows(True, 1176)
    assert [(row.spec.name, row.spec.pkeep) for row in rows[:4]] == [
        ("ISRLU α=3.0", 0.25),
        ("ELU", 0.4),
        ("ISRLU α=3.0", 0.4),
        ("ReLU", 0.4),
    ]
    assert {row.spec.epochs for row in rows} == {17} and rows[0].accuracy == 99.30 and rows[0].loss == 2.308
    assert [(row.spec.name, row.spec.epochs) for row in table5.rows(True)] == [
        ("ISRLU α=1.0", 20),
        ("ISRLU α=3.0", 20),
        ("ELU", 20),
    ]
    assert {(row.spec.pkeep, row.spec.pkeep_conv) for row in table5.rows(True)} == {(0.4, 0.7)}


@pytest.mark.parametrize(("module", "full", "count"), [(approx, True, 1), (alpha, True, 2), (approx, False, 1)])
def test_runs_that_tables_share_are_trained_once(module, full: bool, count: int) -> None:
    here = {row.spec.hash for width in table4.WIDTHS[full] for row in table4.rows(full, width)}
    assert len(here & {row.spec.hash for row in module.rows(full)}) == count


def test_accuracy_table() -> None:
    rows = table4.rows(True, 1176)
    found = imagined(rows, lambda spec: {"accuracy": 99.0 + spec.seed / 100, "loss": 2.0 + spec.seed})
    made = tables.accuracy(found, "Table 4")
    assert made.caption == "Table 4"
    first = made.rows[0]
    assert first[:3] == ["ISRLU α=3.0", "0.25", 99.30]
    assert first[3] == pytest.approx(99.02) and first[5] == 99.04
    assert first[4] == pytest.approx(2.7764451 * 0.0158114 / math.sqrt(5), rel=1e-4)
    assert first[6:8] == [2.308, 4.0]
    assert first[9:] == [5, "does not"] and made.rows[-1][-1] == "holds"  # 99.30 is too far, 99.00 is not


def test_a_row_that_is_as_far_as_it_may_be() -> None:
    """99.55 - 99.3 is a little more than 0.25 in binary."""
    found = imagined(table5.rows(True), lambda spec: {"accuracy": 99.55000000000001})
    table = tables.accuracy(found, "Table 5")
    assert [(row[2], row[-1]) for row in table.rows] == [(99.32, "holds"), (99.3, "holds"), (99.29, "does not")]


def test_one_seed_does_not_decide() -> None:
    """A row near the paper's, and a loss in its range or outside of it, say nothing without a spread."""
    for loss in (2.5, 1.7):
        found = imagined(table5.rows(True), lambda spec, loss=loss: {"accuracy": 99.3, "loss": loss}, seeds=1)
        assert {row[-1] for row in tables.accuracy(found, "Table 5").rows} == {"undecided"}
        assert [each.verdict for each in table5._claims(found)] == ["undecided", "undecided"]
    assert "Outside with this one: ISRLU α=1.0" in table5._claims(found)[1].reason


def test_the_quick_preset_says_which_width_it_trains() -> None:
    found = imagined(table4.rows(False, 200), seeds=1, full=False)
    width, notes = table4._reading(found, {200: found.rows})
    assert table4.WIDTHS[False] == (width,) == (200,) and "a dense layer of 200 units" in notes[0]


def test_quick_runs_and_other_data_are_labelled_everywhere(tmp_path: Path) -> None:
    rows = table4.rows(False, 1176)
    quick = imagined(rows, seeds=1, full=False)
    digits = dataclasses.replace(quick, full=True, title="scikit-learn digits (not MNIST)", identity="digits")
    assert "[quick preset]" in tables.accuracy(quick, "Table 4").caption
    assert "not MNIST" in tables.epochs_to(digits, "architecture 1").caption
    assert verdicts(quick) == ["not run"] * 5 == verdicts(digits)
    assert quick.notes[0].startswith("Quick preset")
    assert {row[-1] for row in tables.accuracy(quick, "Table 4").rows} == {"not run"}


def test_claims_that_hold() -> None:
    def numbers(spec: MnistSpec) -> dict[str, float]:
        best = spec.alpha == 3.0 and spec.pkeep == 0.25
        lift = 0.1 if spec.activation == "isrlu" else 0.0
        early = {"isrlu": 0.2, "elu": 0.4, "relu": 0.6}[spec.activation] + noise(spec)
        unit = 0.3 if spec.activation == "relu" else 0.05
        return {"accuracy": 99.1 + lift + 0.1 * best + noise(spec), "early": early, "unit": unit}

    assert verdicts(imagined(table4.rows(True, 1176), numbers)) == ["holds"] * 5


def test_claims_that_do_not() -> None:
    def numbers(spec: MnistSpec) -> dict[str, float]:
        better = spec.activation == "relu"
        return {"accuracy": 99.1 + 0.2 * better + noise(spec), "early": 0.5 + noise(spec), "loss": 3.5, "unit": 0.1}

    found = table4._claims(imagined(table4.rows(True, 1176), numbers))
    assert [each.verdict for each in found] == ["does not"] * 5
    assert all(each.reason for each in found)


def test_pure_noise_confirms_no_advantage() -> None:
    found = imagined(table4.rows(True, 1176), lambda spec: {"accuracy": 99.1 + noise(spec), "early": 0.5 + noise(spec)})
    learning, _, relu, *_ = verdicts(found)
    assert learning == relu == "does not"


def test_the_best_of_seven_rows_is_better_by_chance() -> None:
    """One row is above the named one by what is significant (p = 0.03) for a pair that was chosen before."""
    rows = table4.rows(True, 200)

    def numbers(spec: MnistSpec) -> dict[str, float]:
        above = {0: 0.0, 3: 0.1 * (0.5, 1.5, 0.2, 1.9, 0.9)[spec.seed]}
        place = next(place for place, row in enumerate(rows) if dataclasses.replace(row.spec, seed=spec.seed) == spec)
        return {"accuracy": 99.1 + above.get(place, (0.1, -0.1, 0.1, -0.1, 0.0)[spec.seed])}

    found = imagined(rows, numbers)
    alone = stats.paired(*(found.values(rows[place], "best_accuracy") for place in (0, 3)))
    assert alone.significant
    assert table4._best(found).verdict == "undecided"


def test_one_seed_leaves_comparisons_undecided() -> None:
    found = table4._claims(imagined(table4.rows(True, 200), seeds=1))
    assert [each.verdict for each in found] == ["undecided"] * 4 + ["does not"]
    assert all("--seeds" in each.reason or "not significant" in each.reason for each in found[:3])


def test_a_small_advantage_is_not_much() -> None:
    def numbers(spec: MnistSpec) -> dict[str, float]:
        return {"early": 0.48 + 0.0001 * spec.seed if spec.activation == "isrlu" else 0.5}

    learning = table4._claims(imagined(table4.rows(True, 200), numbers))[0]
    assert learning.verdict == "does not" and "0.96 to 0.96 times" in learning.here and "8 of 8" in learning.here


def test_relu_is_compared_by_seed() -> None:
    """The gap between dropouts is not noise, and two dropouts of a seed are not two seeds."""

    def numbers(spec: MnistSpec) -> dict[str, float]:
        gap = {0.25: 0.3, 0.4: 0.0}[spec.pkeep] if spec.activation == "isrlu" else 0.0
        return {"accuracy": 99.0 + gap + noise(spec)}

    relu = table4._claims(imagined(table4.rows(True, 200), numbers, seeds=3))[2]
    assert relu.verdict == "holds" and "+0.1" in relu.here


@pytest.mark.parametrize(
    ("gap", "spread", "verdict"), [(0.0, 0.02, "holds"), (0.3, 0.02, "does not"), (0.0, 0.3, "undecided")]
)
def test_no_difference_in_table5(gap: float, spread: float, verdict: str) -> None:
    def numbers(spec: MnistSpec) -> dict[str, float]:
        return {"accuracy": 99.3 + gap * (spec.activation == "elu") + noise(spec) * spread / 0.02, "loss": 2.3}

    accuracy, loss = table5._claims(imagined(table5.rows(True), numbers))
    assert accuracy.verdict == verdict and loss.verdict == "holds"


def test_losses_outside_the_papers_range_are_named() -> None:
    found = imagined(table5.rows(True), lambda spec: {"loss": 4.0 if spec.activation == "elu" else 2.5})
    _, loss = table5._claims(found)
    assert loss.verdict == "does not" and loss.reason.startswith("Outside: ELU") and "ISRLU" not in loss.reason


@pytest.mark.parametrize(
    ("gap", "spread", "verdict"), [(0.2, 0.02, "holds"), (-0.2, 0.02, "does not"), (0.0, 0.5, "undecided")]
)
def test_learned_alpha_must_be_better(gap: float, spread: float, verdict: str) -> None:
    rows = alpha.rows(True)
    numbers = lambda spec: {"accuracy": 99.0 + gap * spec.learnable + noise(spec) * spread / 0.02}  # noqa: E731
    pairs = list(zip(rows[1::2], rows[::2], strict=True))
    assert alpha._claim(imagined(rows, numbers), pairs).verdict == verdict


def test_where_learned_alphas_end() -> None:
    rows = alpha.rows(True)
    (found,) = alpha._ends(imagined(rows), rows[1::2])
    assert found.rows[:2] == [["α = 1", "1", 1.0, 0.0], ["α = 1", "2", 18.0, 0.0]]
    assert found.rows[-1] == ["α = 3", "4", 54.0, 0.0]
    assert alpha._ends(dataclasses.replace(imagined(rows), runs={}), rows[1::2]) == []


@pytest.mark.parametrize("nearer", [200, 1176])
def test_claims_are_judged_in_the_reading_nearer_to_the_paper(nearer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    by_width = {width: table4.rows(True, width) for width in (1176, 200)}
    members = [row for each in by_width.values() for row in each]
    paper = {(row.spec.name, row.spec.pkeep): row.accuracy for row in members}
    found = imagined(
        members, lambda spec: {"accuracy": paper[spec.name, spec.pkeep] - (0.1 if spec.width == nearer else 0.4)}
    )
    width, (note,) = table4._reading(found, by_width)
    assert width == nearer and f"{nearer} units: 0.100 points" in note and f"judged with {nearer} units" in note
    monkeypatch.setattr(study, "run_study", lambda *args, **options: found)
    for figures in ("learning_curves", "mean_activations"):
        monkeypatch.setattr(table4.plots, figures, lambda *args: [])
    first, *_ = table4.run(SimpleNamespace(full=True)).tables
    assert f"dense layer of {nearer}" in first.caption, "the tables that decide come first"


def test_missing_rows_give_no_verdict() -> None:
    rows = table4.rows(True, 1176)
    found = imagined(rows)
    lost = [spec.hash for spec in found.specs() if spec.activation == "relu"]
    runs = {key: run for key, run in found.runs.items() if key not in lost}
    runs[lost[0]] = dataclasses.replace(found.runs[lost[0]], status="diverged", reason="the loss is nan at step 7")
    partial = dataclasses.replace(found, runs=runs)
    assert verdicts(partial) == ["not run"] * 5 and not partial.complete
    assert tables.accuracy(partial, "Table 4").rows[3][3] is None
    notes = " ".join(partial.notes)
    names = "ReLU, pkeep 0.25, seed 0, 1, 2, 3, 4; ReLU, pkeep 0.4, seed 1, 2, 3, 4"
    assert f"9 runs of the grid are missing ({names})" in notes and "diverged, the loss is nan at step 7" in notes


def test_one_missing_run_gives_no_verdict() -> None:
    found = imagined(table4.rows(True, 200))
    runs = dict(list(found.runs.items())[1:])
    claims = table4._claims(dataclasses.replace(found, runs=runs))
    assert {each.verdict for each in claims} == {"not run"} and "1 of the 40 runs are missing" in claims[0].reason


def test_one_diverged_run_gives_no_verdict() -> None:
    found = imagined(approx.rows(True))
    key = found.specs()[-1].hash
    lame = dataclasses.replace(found.runs[key], status="diverged", reason="the loss is nan at step 7")
    partial = dataclasses.replace(found, runs={**found.runs, key: lame})
    assert partial.complete and not found.no_verdict and partial.no_verdict == "Runs diverged: see the notes."


def test_epochs_to_99() -> None:
    rows = table4.rows(True, 1176)
    found = imagined(rows, lambda spec: {"accuracy": 99.5 if spec.seed else 98.0})
    row = tables.epochs_to(found, "architecture 1").rows[0]
    assert row[2:4] == ["4 of 5", 3.0]  # 98.5, 98.75, 99.0
    assert row[4:] == pytest.approx([0.5, 0.5 / 17])


@pytest.mark.parametrize(("gap", "verdict"), [(0.0, "holds"), (0.3, "does not")])
def test_approximations_are_judged_by_equivalence(gap: float, verdict: str) -> None:
    rows = approx.rows(True)
    found = imagined(rows, lambda spec: {"accuracy": 99.2 - gap * (spec.method == "kinney") + noise(spec)})
    pairs = [(row, rows[0]) for row in rows[1:]]
    assert [row.spec.method for row, _ in pairs] == ["approx", "kinney"]
    assert approx._claim(found, pairs).verdict == verdict
    assert approx._claim(imagined(rows, seeds=1), pairs).verdict == "undecided"


def test_the_significance_table_pairs_by_seed() -> None:
    rows = table5.rows(True)
    found = imagined(rows, lambda spec: {"accuracy": 99 + spec.seed + (spec.activation == "elu") * 0.1 + noise(spec)})
    (made,) = tables.significance(found, tables.same_dropout(rows), "Differences")
    assert [row[-1] for row in made.rows] == ["no", "yes", "yes"], "a seed's own level must not hide a difference"
    assert tables.significance(imagined(rows, seeds=1), tables.same_dropout(rows), "Differences") == []


# From stored runs to a result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "rows"),
    [
        (table4, lambda: table4.rows(True, 1176) + table4.rows(True, 200)),
        (table5, lambda: table5.rows(True)),
        (approx, lambda: approx.rows(True)),
        (alpha, lambda: alpha.rows(True)),
    ],
)
def test_results_from_stored_runs(tmp_path: Path, module, rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs are there: nothing is trained, and tables, claims and figures are made of them."""
    monkeypatch.setattr(study.IMAGES, "find", lambda folder: ("digits", ""))
    monkeypatch.setattr(study.IMAGES, "at_hand", lambda folder: "digits")
    digits = data.digits()
    monkeypatch.setattr(study, "load_any", lambda source: dataclasses.replace(digits, identity="mnist", title="MNIST"))
    found = imagined(rows(), lambda spec: {"accuracy": 99.2 + noise(spec)}, seeds=2)
    with RunStore(OutputFolder(tmp_path)) as store:
        for run in found.runs.values():
            store.add(run)
    context = Context(Folder(OutputFolder(tmp_path), "x-full"), full=True, options={"seeds": 2})
    result = module.run(context)
    assert all(table.rows for table in result.tables)
    assert result.claims and "not run" not in {each.verdict for each in result.claims}
    assert all((tmp_path / "x-full" / f"{figure.name}.svg").stat().st_size > 5000 for figure in result.figures)
    assert result.seeds == [0, 1] and result.environment["runs"]["complete"]
    json.dumps(result.to_json(), allow_nan=False)
    assert module.is_current(result.environment, context)
    assert not module.is_current(result.environment, dataclasses.replace(context, options={"seeds": 3}))
    assert not module.is_current({}, context)


def test_a_result_on_digits_for_want_of_mnist_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study.IMAGES, "at_hand", lambda folder: folder)
    stored = dataclasses.replace(imagined(table5.rows(True)), identity="digits")
    stored = dataclasses.replace(stored, runs={spec.hash: made_up(spec) for spec in stored.specs()})
    assert stored.complete
    for folder, current in (("digits", True), (None, False)):
        context = Context(Folder(OutputFolder(Path()), "x-full"), full=True, options={"seeds": 5, "data": folder})
        assert table5.is_current(stored.environment, context) is current


def test_an_empty_shard_is_no_failure(tmp_path: Path) -> None:
    options = {"data": "digits", "shard": "9/9"}
    result = table5.run(Context(Folder(OutputFolder(tmp_path), "x-quick"), options=options))
    assert {row[-2] for row in result.tables[0].rows} == {0} and "3 runs of the grid are missing" in result.notes[-1]
    svg = (tmp_path / "x-quick" / f"{result.figures[0].name}.svg").read_text()
    assert "[quick preset; scikit-learn digits" in svg


@pytest.mark.slow
def test_no_finished_run_is_an_error(tmp_path: Path) -> None:
    row = Row(MnistSpec(activation="elu", alpha=1e38, width=16, epochs=1, batch=500))
    context = Context(Folder(OutputFolder(tmp_path), "x-quick"), options={"data": "digits"})
    with pytest.raises(UserError, match=r"no run finished: the mean activation is (nan|-?inf) at step 0"):
        study.run_study(context, [row], seeds=1)


# The command


def isrlu(*arguments: str, out: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "isrlu", *arguments, "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_shards_are_merged_into_the_whole(tmp_path: Path) -> None:
    """Two machines that share nothing train half of a table each; the merged stores make the whole."""
    for part in (1, 2):
        done = isrlu("reproduce", "alpha", "--data", "digits", "--shard", f"{part}/2", out=tmp_path / f"{part}")
        assert done.returncode == 0, done.stderr
        stored = json.loads((tmp_path / f"{part}" / "alpha-quick" / "result.json").read_text())
        assert not stored["environment"]["runs"]["complete"]
    merged = isrlu("results", "merge", str(tmp_path / "2"), out=tmp_path / "1")
    assert merged.returncode == 0 and "1 runs from" in merged.stdout.replace("\n", " "), merged.stderr
    whole = isrlu("reproduce", "alpha", "--data", "digits", out=tmp_path / "1")
    assert whole.returncode == 0, whole.stderr
    stored = json.loads((tmp_path / "1" / "alpha-quick" / "result.json").read_text())
    assert stored["environment"]["runs"].items() >= {"complete": True, "seeds": 1, "data": "digits"}.items()
    assert "done alpha" in isrlu("reproduce", "alpha", "--data", "digits", out=tmp_path / "1").stdout
    listed = isrlu("results", "show", "--json", str(tmp_path / "runs.json"), out=tmp_path / "1")
    assert listed.returncode == 0 and len(json.loads((tmp_path / "runs.json").read_text())["runs"]) == 2
    report = (tmp_path / "1" / "report.html").read_text()
    assert "not MNIST" in report and "quick preset" in report


@pytest.mark.slow
def test_a_crashed_run_is_told_and_tried_again(tmp_path: Path) -> None:
    spec = dataclasses.replace(alpha.rows(False)[0].spec, data="digits")
    in_the_way = worker.checkpoint_path(OutputFolder(tmp_path).checkpoints, spec)
    in_the_way.mkdir(parents=True)
    done = isrlu("reproduce", "alpha", "--data", "digits", out=tmp_path)
    first, second = done.stderr.splitlines()
    assert first.startswith(f"isrlu: {spec.label}, seed 0: crashed, cannot read the checkpoint {in_the_way}")
    assert done.returncode == 1 and second == "isrlu: 1 of 1 failed: alpha"
    in_the_way.rmdir()
    assert isrlu("reproduce", "alpha", "--data", "digits", out=tmp_path).returncode == 0


@pytest.mark.slow
def test_a_damaged_store_fails_the_table_in_one_line(tmp_path: Path) -> None:
    path = OutputFolder(tmp_path).runs
    path.parent.mkdir(parents=True)
    path.write_bytes(b"rotten" * 1000)
    done = isrlu("reproduce", "alpha", "--data", "digits", out=tmp_path)
    assert done.returncode == 1
    assert "isrlu: alpha failed: the store of runs" in done.stderr and "is damaged" in done.stderr
    assert "Traceback" not in done.stderr and path.read_bytes() == b"rotten" * 1000
