"""`isrlu reproduce --stored`: results and report from what is stored; nothing is trained, measured or fetched."""

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from test_mnist_tables import made_up

from isrlu_lab import environment, reproduce
from isrlu_lab.cli import app
from isrlu_lab.errors import UserError
from isrlu_lab.experiments import rnn, study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Column, Result, Table
from isrlu_lab.experiments.mnist import table5
from isrlu_lab.experiments.result_store import Record, Store
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.run_store import Run, RunStore


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ISRLU_DATA", raising=False)
    monkeypatch.setattr(study, "make_engine", lambda *_, **__: pytest.fail("an engine was started"))
    monkeypatch.setattr(study.IMAGES, "find", lambda *_: pytest.fail("data was looked for"))
    monkeypatch.setattr(Context, "remember", lambda *_: pytest.fail("something was measured"))


def store_table5(out: Path, *, data: str = "mnist", but: int = 0) -> None:
    """The runs of table 5 in full over two seeds, without the last `but`."""
    specs = [dataclasses.replace(row.spec, seed=seed, data=data) for seed in range(2) for row in table5.rows(True)]
    with RunStore(OutputFolder(out)) as store:
        for spec in specs[: len(specs) - but]:
            store.add(made_up(spec))


def run(out: Path, *names: str, **options: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `isrlu reproduce NAMES --full --stored`."""
    output, errors = (Console(file=io.StringIO(), width=300) for _ in range(2))
    options = {"stored": True, "seeds": 2, **options}
    code = reproduce.reproduce(names, out, full=True, again=False, console=output, errors=errors, options=options)
    return code, output.file.getvalue(), errors.file.getvalue()


def load(out: Path, name: str) -> Result:
    record = Store(OutputFolder(out)).load(name, "full")
    assert record is not None
    return record.result


@pytest.mark.slow
def test_all_runs_are_stored(tmp_path: Path) -> None:
    store_table5(tmp_path)
    code, output, errors = run(tmp_path, "table5")
    assert code == 0 and not errors and "Table 5: architecture 2" in output
    result = load(tmp_path, "table5")
    assert [row[-2] for row in result.tables[0].rows] == [2, 2, 2] and result.environment["runs"]["complete"]
    assert "not run" not in {each.verdict for each in result.claims}
    assert result.figures and "Table 5: architecture 2" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_missing_runs_are_named_and_leave_no_verdict(tmp_path: Path) -> None:
    store_table5(tmp_path, but=2)
    assert run(tmp_path, "table5")[0] == 0
    result = load(tmp_path, "table5")
    assert [row[-2] for row in result.tables[0].rows] == [2, 1, 1] and not result.environment["runs"]["complete"]
    names = "ISRLU α=3.0, pkeep 0.7 conv, 0.4, seed 1; ELU, pkeep 0.7 conv, 0.4, seed 1"
    assert f"2 runs of the grid are missing ({names}): " in result.notes[-1]
    assert {each.verdict for each in result.claims} == {"not run"}
    assert "2 of the 6 runs are missing" in result.claims[0].reason and "without --stored" in result.claims[0].reason


@pytest.mark.slow
def test_the_data_is_that_of_the_runs_unless_it_is_given(tmp_path: Path) -> None:
    store_table5(tmp_path, data="digits")
    assert run(tmp_path, "table5")[0] == 0
    assert "not MNIST" in load(tmp_path, "table5").tables[0].caption
    store_table5(tmp_path, data="mnist")
    assert run(tmp_path, "table5")[0] == 0
    assert "not MNIST" not in load(tmp_path, "table5").tables[0].caption
    assert run(tmp_path, "table5", data="digits")[0] == 0
    assert "not MNIST" in load(tmp_path, "table5").tables[0].caption


def store_result(out: Path, name: str, *, claims: list[Claim] | None = None, caption: str = "An old table") -> None:
    table = Table(caption, [Column("a")], [["an-old-cell"]])
    record = Record(name, "full", 1.0, environment.capture(), Result([table], claims or []))
    Store(OutputFolder(out)).save(record)


def test_a_stored_result_stands_where_there_are_no_runs(tmp_path: Path) -> None:
    """table3 measures; of table5 there is a result, but not its runs."""
    for name in ("table3", "table5"):
        store_result(tmp_path, name)
    before = {path: path.read_bytes() for path in tmp_path.rglob("result.json")}
    code, output, errors = run(tmp_path, "table1", "table3", "table5")
    assert code == 0 and output.count("an-old-cell") == 2
    assert errors == (
        f"isrlu: nothing is stored in {tmp_path} for table1 (full preset): `isrlu reproduce table1 --full` makes it\n"
    )
    assert len(before) == 2 and {path: path.read_bytes() for path in tmp_path.rglob("result.json")} == before


def test_nothing_at_all_is_one_line(tmp_path: Path) -> None:
    line = "^nothing is stored in .* for table3, table5 .full preset.: `isrlu reproduce table3 table5 --full` makes it$"
    with pytest.raises(UserError, match=line):
        run(tmp_path / "absent", "table3", "table5")
    assert not (tmp_path / "absent").exists()
    store_table5(tmp_path, but=6)
    with pytest.raises(UserError, match=line):
        run(tmp_path, "table3", "table5")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("measured", [True, False])
def test_recurrent_speeds_are_those_of_the_stored_result(tmp_path: Path, measured: bool) -> None:
    spec = dataclasses.replace(rnn.rows(True)[0].spec, seed=0)
    history = {"steps": [300, 600], "score": [90.0, 98.5], "loss": [0.5, 0.1]}
    with RunStore(OutputFolder(tmp_path)) as store:
        store.add(Run(spec, "done", result={"final_score": 98.5, "history": history}))
    caption = f"{rnn.GATES_CAPTION}, float32"
    if measured:
        speed = Claim(rnn.numbers.claim("rnn.speed")["text"], "section 1", "holds", "twice as fast")
        store_result(tmp_path, "rnn", claims=[speed], caption=caption)
    assert run(tmp_path, "rnn")[0] == 0
    result = load(tmp_path, "rnn")
    assert (result.tables[0].caption == caption) == measured
    assert [each.verdict for each in result.claims] == ["not run", "holds" if measured else "not run"]
    assert ("The speed has not been measured: run it without --stored." in result.notes) != measured


@pytest.mark.parametrize("option", [["--shard", "1/2"], ["--engine", "ray"], ["--again"]])
def test_options_that_do_not_go_together(tmp_path: Path, option: list[str]) -> None:
    with pytest.raises(UserError, match=r"^--stored trains and measures nothing: give it without --engine, --shard"):
        app(["reproduce", "table5", "--stored", "--out", str(tmp_path), *option], standalone_mode=False)


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_table5(tmp_path)
    app(["reproduce", "table5", "--full", "--seeds", "2", "--stored", "--out", str(tmp_path)], standalone_mode=False)
    assert "report.html" in capsys.readouterr().out.replace("\n", "")
    assert json.loads(OutputFolder(tmp_path).result("table5", "full").read_text())["result"]["seeds"] == [0, 1]
