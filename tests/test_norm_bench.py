"""isrlu bench norm: every contender is timed, and the oracle is asked first."""

import pytest
import torch

from isrlu_lab.measure import norm_bench

pytestmark = pytest.mark.filterwarnings("ignore:Mismatch dtype")


def test_every_contender_has_its_figures() -> None:
    found = norm_bench.run(shapes=[(4, 8)], rounds=2)
    assert {(m.dtype, m.direction, m.contender) for m in found} == {
        (dtype, direction, contender)
        for dtype in ("float32", "bfloat16")
        for direction in ("forward", "forward and backward")
        for contender in norm_bench.EAGER
    }
    for each in found:
        assert each.seconds > 0
        assert (each.of_layer_norm == 1) == (each.contender == "layer_norm")


def test_rivals_are_what_their_authors_have() -> None:
    x, weight, bias = torch.randn(3, 4), torch.randn(4), torch.randn(4)
    given = x, weight, bias, torch.tensor(0.5), torch.tensor(0.1)
    torch.testing.assert_close(norm_bench.dyt(*given), weight * torch.tanh(0.5 * x) + bias)
    torch.testing.assert_close(norm_bench.derf(*given), weight * torch.erf(0.5 * x + 0.1) + bias)


def test_wrong_results_are_not_timed(monkeypatch) -> None:
    monkeypatch.setattr(norm_bench, "dyisru", lambda x, *_: x)
    with pytest.raises(AssertionError, match="dyisru float32, y"):
        norm_bench.run(shapes=[(4, 8)], rounds=2)
