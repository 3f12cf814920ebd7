"""The speed stage of `normfree`: measured, or taken from an earlier result."""

from collections.abc import Mapping, Sequence
from typing import Any

from isrlu_lab.experiments import numbers
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Column, Result, Table, claim
from isrlu_lab.training.gpt.gpt_spec import NORMS

CAPTION = "Speed"
ROUNDS = {True: 41, False: 7}
CLAIM = "normfree.speed"


def measured(context: Context) -> tuple[list[Table], list[Claim], list[str]]:
    """Time all norms, interleaved. Returns tables, claims and notes."""
    from isrlu_lab.measure import gpt_bench

    rounds = ROUNDS[context.full]
    context.progress("speed of a training step and of generation")
    found = context.remember("speed", lambda: gpt_bench.run(rounds=rounds))
    return [_table(found)], [_claim(found)], []


def stored(context: Context) -> tuple[list[Table], list[Claim], list[str]]:
    """The table and claim of an earlier result; "not run" if it has none."""
    earlier = context.previous or Result()
    found = [each for each in earlier.tables if each.caption.startswith(CAPTION)]
    if not found:
        reason = "The speed has not been measured: run it without --stored."
        return [], [claim(CLAIM, None, reason=reason)], [reason]
    text = numbers.claim(CLAIM)["text"]
    return found, [each for each in earlier.claims if each.text == text], []


def _table(found: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        Column("norm"),
        Column("ms per training step", "here", "{:.2f}"),
        Column("spread", "spread", "{:.1%}"),
        Column("of LayerNorm's", "here", "{:.3f}"),
        Column("characters per second, generated", "here", "{:,.0f}"),
        Column("spread", "spread", "{:.1%}"),
        Column("of LayerNorm's", "here", "{:.3f}"),
    ]
    cells = [
        [
            *(NORMS[r["norm"]], r["step_seconds"] * 1e3, r["step_spread"], r["step_ratio"]),
            *(1 / r["character_seconds"], r["character_spread"], 1 / r["character_ratio"]),
        ]
        for r in found
    ]
    return Table(f"{CAPTION}: one thread, batch 12 of 64 characters; generation of one text", columns, cells)


def _claim(found: Sequence[Mapping[str, Any]]) -> Claim:
    mine = next(r for r in found if r["norm"] == "dyisru")
    fast = mine["step_ratio"] <= 1 and mine["character_ratio"] <= 1
    here = (
        f"A training step takes {mine['step_ratio']:.3f} of the time with LayerNorm, "
        f"a generated character {mine['character_ratio']:.3f}."
    )
    return claim(CLAIM, fast, here, "It takes longer here.")
