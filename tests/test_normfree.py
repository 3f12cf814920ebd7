"""The character-level GPT: its specification, its training, its swaps, its tables, and the whole experiment."""

import dataclasses
import io
import math
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn

from isrlu_lab import reproduce
from isrlu_lab.data import Text, text
from isrlu_lab.errors import UserError
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.gpt import norm_tables, normfree, verdicts
from isrlu_lab.experiments.result_store import Folder, Store
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.measure import gpt_bench
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.gpt import train_gpt, train_swap
from isrlu_lab.training.gpt.gpt_spec import ELEMENTWISE, NORMS, STARTS, SWAPS, GptSpec, SwapSpec
from isrlu_lab.training.gpt.model import Gpt
from isrlu_lab.training.gpt.norms import Derf, DyT
from isrlu_lab.training.kinds import load_spec
from isrlu_lab.training.run_store import Run, RunStore
from isrlu_lab.training.text_tensors import TextTensors
from isrlu_lab.training.worker import Diverged, execute

SMALL = {"layers": 1, "heads": 2, "width": 8, "context": 8, "batch": 4}
TINY = {**SMALL, "steps": 5, "warmup": 2, "interval": 2, "data": "text-tiny"}


@pytest.fixture(scope="module")
def tensors() -> TextTensors:
    letters = "abcdefgh " * 450  # the next letter follows from the last one
    return TextTensors(Text("text-tiny", "tiny", letters))


def numbers(history: train_gpt.History) -> dict:
    return {**dataclasses.asdict(history), "seconds": 0.0}


def test_specification() -> None:
    spec = GptSpec(norm="dyisru", alpha=32.0, rate=2e-3, seed=3)
    assert load_spec(spec.to_json()) == spec and spec.label == "DyISRU, rate 0.002, alpha 32"
    assert GptSpec(alpha=8.0) == GptSpec(), "LayerNorm has no alpha: one identity for one network"
    swapped = SwapSpec(swap="plain", seed=3)
    assert load_spec(swapped.to_json()) == swapped and swapped.parent == GptSpec(seed=3)
    assert len({swapped.hash, swapped.parent.hash, dataclasses.replace(swapped, swap="fit").hash}) == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"norm": "batchnorm"}, "unknown norm 'batchnorm': known are layernorm, rmsnorm, dyt, derf, dyisru"),
        ({"start": "zero"}, "unknown start 'zero': known are nanogpt, unit"),
        ({"width": 10}, "width 10 is not a multiple of the 4 heads"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"rate": 0.0}, "rate must be between 0 and 1, got 0.0"),
        ({"norm": "dyt", "alpha": 0.0}, "alpha must be positive and finite, got 0.0"),
        ({"norm": "dyt", "alpha": math.inf}, "alpha must be positive and finite, got inf"),
    ],
)
def test_a_bad_specification_is_one_line(fields: dict, message: str) -> None:
    with pytest.raises(UserError) as caught:
        GptSpec(**fields)
    assert str(caught.value) == message


def test_a_bad_swap_is_one_line() -> None:
    with pytest.raises(UserError, match="unknown swap 'half': known are fit, plain, none"):
        SwapSpec(swap="half")
    with pytest.raises(UserError, match="a swap starts from layernorm, got 'dyt'"):
        SwapSpec(norm="dyt")


def test_rivals_are_as_their_authors_have_them() -> None:
    x = torch.linspace(-3, 3, 8)
    dyt, derf = DyT(8, 0.5), Derf(8, 0.5)
    for norm in (dyt, derf):
        nn.init.constant_(norm.weight, 2.0)
        nn.init.constant_(norm.bias, 1.0)
    nn.init.constant_(derf.shift, 0.25)
    torch.testing.assert_close(dyt(x), 2 * torch.tanh(0.5 * x) + 1)
    torch.testing.assert_close(derf(x), 2 * torch.erf(0.5 * x + 0.25) + 1)


def test_all_norms_start_from_the_same_weights() -> None:
    """Else a difference of losses would not be one of the norms."""
    networks = []
    for norm in NORMS:
        torch.manual_seed(0)
        networks.append(Gpt(GptSpec(norm=norm, **SMALL), 9))
    matrices = [{name: each for name, each in one.named_parameters() if each.dim() >= 2} for one in networks]
    for each in matrices[1:]:
        assert each.keys() == matrices[0].keys()
        assert all(torch.equal(each[name], matrices[0][name]) for name in each)


def test_the_unit_start_gives_the_blocks_inputs_of_about_1() -> None:
    seen = []
    for start in STARTS:
        torch.manual_seed(0)
        network = Gpt(GptSpec(norm="dyisru", start=start), 65)
        network.blocks[0].register_forward_pre_hook(lambda _, given: seen.append(given[0].std().item()))
        network(torch.randint(65, (4, 64)))
    assert seen == [pytest.approx(0.028, rel=0.1), pytest.approx(1.41, rel=0.1)]


@pytest.mark.parametrize("norm", NORMS)
def test_the_network_is_causal_and_generates(norm: str) -> None:
    torch.manual_seed(0)
    network = Gpt(GptSpec(norm=norm, alpha=32.0, **SMALL), 9)
    nn.init.normal_(network.characters.weight, std=0.3)
    given = torch.randint(9, (2, 8))
    changed = given.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 9
    first, second = network(given), network(changed)
    assert torch.equal(first[:, :-1], second[:, :-1]) and not torch.equal(first[:, -1], second[:, -1])
    made, again = (network.generate(given, 12, torch.Generator().manual_seed(5)) for _ in range(2))
    assert made.shape == (2, 20) and torch.equal(made[:, :8], given) and torch.equal(made, again)
    assert not torch.equal(made, network.generate(given, 12, torch.Generator().manual_seed(6)))
    assert made.min() >= 0 and made.max() < 9


def test_generation_draws_what_the_network_says() -> None:
    class Next(Gpt):
        def forward(self, indices: torch.Tensor) -> torch.Tensor:
            return 100.0 * nn.functional.one_hot((indices + 1) % 9, 9)

    made = Next(GptSpec(**SMALL), 9).generate(torch.tensor([[3]]), 10)
    assert made.tolist() == [[3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4]]


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_training_is_repeatable_and_learns(tensors: TextTensors, norm: str) -> None:
    spec = GptSpec(norm=norm, alpha=32.0, **TINY)
    first, again = (numbers(train_gpt.train(spec, tensors)) for _ in range(2))
    assert first == again and first["steps"] == [2, 4, 5]
    assert numbers(train_gpt.train(dataclasses.replace(spec, seed=1), tensors)) != first
    longer = train_gpt.train(dataclasses.replace(spec, steps=150, interval=50, rate=1e-2), tensors)
    assert longer.final < 1.5 < math.log(tensors.characters), "better than all characters alike"
    assert longer.validation[-1] < longer.validation[0]


def test_an_interrupted_run_ends_with_the_same_bits(tensors: TextTensors, tmp_path: Path) -> None:
    spec = GptSpec(norm="derf", alpha=8.0, **TINY)
    whole = train_gpt.train(spec, tensors)

    def stop(history: train_gpt.History, rate: float) -> None:
        assert rate > 0
        if len(history.steps) == 2:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoints" / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        train_gpt.train(spec, tensors, checkpoint=path, watch=stop)
    assert numbers(train_gpt.train(spec, tensors, checkpoint=path)) == numbers(whole)


def test_another_text_and_divergence_are_told(tensors: TextTensors) -> None:
    run = execute(GptSpec(**{**TINY, "data": "tinyshakespeare"}), tensors, None)
    assert run.status == "crashed" and run.reason == (
        "the run is specified for data 'tinyshakespeare', but 'text-tiny' was given"
    )
    history = train_gpt.History()
    with pytest.raises(Diverged, match="the validation loss is nan at step 7"):
        train_gpt.record(history, 7, 1.0, math.nan)


def test_weight_decay_is_for_matrices_alone() -> None:
    network = Gpt(GptSpec(norm="dyisru", **SMALL), 9)
    matrices, others = train_gpt.make_optimiser(network, 1e-3).param_groups
    assert matrices["weight_decay"] == 0.1 and all(each.dim() == 2 for each in matrices["params"])
    assert others["weight_decay"] == 0.0 and len(others["params"]) == 3 * 4


@pytest.mark.parametrize("swap", SWAPS)
def test_a_swap_starts_from_the_trained_weights(tensors: TextTensors, tmp_path: Path, swap: str) -> None:
    spec = SwapSpec(swap=swap, further=4, **{**TINY, "width": 16})
    path = tmp_path / "runs" / "checkpoints" / f"{spec.hash}.pt"
    trained = train_gpt.train(spec.parent, tensors, checkpoint=path.with_name("parent.pt"))
    kept = train_gpt.weights_path(path, spec.parent)
    assert kept == tmp_path / "runs" / "weights" / f"{spec.parent.hash}.pt" and kept.exists()
    found = train_swap.train(spec, tensors, checkpoint=path)
    assert found.steps == [0, 1, 4] and all(map(math.isfinite, found.validation))
    assert (found.validation[0] == trained.final) is (swap == "none")
    assert len(found.fit) == (3 if swap == "fit" else 0) and train_swap.summary(found)["final_loss"] > 0
    kept.unlink()
    assert numbers(train_swap.train(spec, tensors, checkpoint=path)) == numbers(found), "trained again"


def test_the_choice_takes_the_lowest_loss_of_each_norm() -> None:
    rows = normfree.candidates(True)
    assert {row.spec.norm for row in rows} == set(NORMS) and len(rows) == 2 * (2 + 3 * 3) + 2 * (2 + 3 * 2)
    found = Study(rows, [1000], {}, "tinyshakespeare", "tiny Shakespeare", full=True, family=normfree.TEXTS)
    assert [row.spec.norm for row in normfree.choose(found)] == list(NORMS), "without runs the first candidates"
    losses = {spec.hash: 3.0 - n / 100 for n, spec in enumerate(found.specs())}
    runs = {spec.hash: Run(spec, "done", result={"final_loss": losses[spec.hash]}) for spec in found.specs()}
    chosen = [row.spec for row in normfree.choose(dataclasses.replace(found, runs=runs))]
    assert all(spec.rate == normfree.RATES[-1] and spec.steps == 2000 for spec in chosen)
    assert {spec.start for spec in chosen} == {"unit"} and all(
        spec.alpha == 1.0 for spec in chosen if spec.norm in ELEMENTWISE
    )


def imagined(losses: dict[str, list[float]]) -> Study:
    """A study of made-up runs: norm -> final loss of each seed."""
    rows = [Row(GptSpec(norm=norm, alpha=32.0)) for norm in losses]
    seeds = list(range(len(losses["layernorm"])))
    found = Study(rows, seeds, {}, "tinyshakespeare", "tiny Shakespeare", full=True, family=normfree.TEXTS)
    values = {spec.hash: losses[spec.norm][spec.seed] for spec in found.specs()}
    runs = {
        spec.hash: Run(
            spec,
            "done",
            result={
                "final_loss": values[spec.hash],
                "history": {"steps": [100, 200], "validation": [2.5, values[spec.hash]]},
            },
        )
        for spec in found.specs()
    }
    return dataclasses.replace(found, runs=runs)


@pytest.mark.parametrize(
    ("dyisru", "verdict"),
    [
        ([1.90, 1.91, 1.92, 1.905, 1.915], "holds"),
        ([1.99, 2.00, 2.02, 1.995, 2.01], "does not"),
        ([1.90, 1.99, 1.90, 1.99, 1.88], "undecided"),
    ],
)
def test_the_verdict_on_layernorm(dyisru: list[float], verdict: str) -> None:
    layernorm = [1.90, 1.91, 1.92, 1.90, 1.91]
    found = imagined({**dict.fromkeys(NORMS, layernorm), "dyisru": dyisru})
    claims = verdicts.learning(found)
    assert [each.verdict for each in claims] == [verdict] * 2
    assert norm_tables.losses(found).rows[0][2:] == [pytest.approx(1.908), pytest.approx(0.0104, abs=1e-4), 200, 5]
    compared = norm_tables.compare(found)["dyisru"]
    assert compared.value == pytest.approx(sum(dyisru) / 5 - 1.908)


def test_the_speed_of_all_norms() -> None:
    found = gpt_bench.run(rounds=2, spec=GptSpec(**SMALL))
    assert [each["norm"] for each in found] == list(NORMS)
    assert found[0]["step_ratio"] == found[0]["character_ratio"] == 1.0
    assert all(each["step_seconds"] > 0 and each["character_seconds"] > 0 for each in found)


@pytest.mark.slow
def test_the_whole_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All stages through grid and store, on the stand-in text; a second command repeats nothing."""
    monkeypatch.delenv("ISRLU_DATA", raising=False)
    monkeypatch.setattr(text, "MIRRORS", ())
    monkeypatch.setattr(text, "cache_file", lambda: tmp_path / "no" / "cache")
    short = {"steps": 4, "warmup": 1, "interval": 2}
    monkeypatch.setitem(normfree.LENGTHS, False, {**short, **SMALL})
    monkeypatch.setitem(normfree.CHOICE_LENGTHS, False, {**short, **SMALL})
    monkeypatch.setattr(gpt_bench, "run", lambda **_: [_timed(norm) for norm in NORMS])

    def command(**options: object) -> tuple[int, str, str]:
        output, errors = (Console(file=io.StringIO(), width=300) for _ in range(2))
        settings = {"full": False, "again": False, "console": output, "errors": errors}
        code = reproduce.reproduce(["normfree"], tmp_path / "out", **settings, options=options)
        return code, output.file.getvalue(), errors.file.getvalue()

    code, output, errors = command()
    assert code == 0 and errors.count("trains on Python's documentation topics instead") == 1
    assert (
        "Validation loss after 4 steps [quick preset; Python's documentation topics (not tiny Shakespeare)]" in output
    )
    record = Store(OutputFolder(tmp_path / "out")).load("normfree", "quick")
    assert record is not None and record.environment["runs"]["complete"]
    assert {each.verdict for each in record.result.claims[:-1]} == {"not run"}
    assert [row[0] for row in record.result.tables[0].rows] == list(NORMS.values())
    swapped = next(each for each in record.result.tables if each.caption.startswith("Trained LayerNorm"))
    assert [row[-1] for row in swapped.rows] == [1, 1, 1]
    context = Context(Folder(OutputFolder(tmp_path / "out"), "normfree-quick"), options={"data": "python-topics"})
    assert normfree.is_current(record.environment, context)
    code, output, errors = command(stored=True)
    assert code == 0 and not errors and "characters per second" in output
    with RunStore(OutputFolder(tmp_path / "out")) as store:
        assert len(store) == 10 + 5 + 3


def _timed(norm: str) -> dict[str, object]:
    figures = {"seconds": 0.01, "spread": 0.02, "ratio": 1.0}
    return {"norm": norm, **{f"{what}_{key}": each for what in ("step", "character") for key, each in figures.items()}}
