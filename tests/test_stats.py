"""Statistics over seeds."""

import math

import numpy as np
import pytest

from isrlu_lab.experiments import stats


def test_mean_and_interval() -> None:
    found = stats.mean([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.value == 3.0
    assert found.half == pytest.approx(2.7764451 * math.sqrt(2.5) / math.sqrt(5))  # t(0.975, 4), standard error
    assert stats.mean([7.0]) == stats.Mean(7.0, None, 1)


def test_paired_difference_uses_common_seeds() -> None:
    first, second = {0: 2.0, 1: 4.0, 2: 6.0, 9: 100.0}, {0: 1.0, 1: 2.0, 2: 4.0, 8: -50.0}
    found = stats.paired(first, second)
    assert found.value == pytest.approx(5 / 3) and found.count == 3
    assert found.p == pytest.approx(0.0377, abs=1e-4)
    assert found.significant


def test_paired_differences_at_the_edges() -> None:
    assert stats.paired({0: 1.0}, {0: 0.0}) == stats.Difference(1.0, None, None, 1)
    assert stats.paired({0: 1.0}, {1: 0.0}).count == 0
    assert stats.paired({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}).p == 1.0
    for equal in ({0: 2.0, 1: 3.0}, {0: 1.0 + 0.01, 1: 2.0 + 0.01}):  # by rounding, the second pair is not quite equal
        found = stats.paired(equal, {0: 1.0, 1: 2.0})
        assert found.value > 0 and found.half is None and not found.significant, "two equal steps are no proof"


def test_many_tests_find_less() -> None:
    one = stats.Difference(1.0, 0.9, 0.04, 5)
    nothing = [stats.Difference(0.0, 1.0, 0.9, 5)] * 9
    assert one.significant
    assert not stats.corrected([one, *nothing])[0].significant
    assert stats.corrected([stats.Difference(1.0, None, None, 1)])[0].p is None


@pytest.mark.slow
def test_chance_is_rarely_significant() -> None:
    random = np.random.default_rng(0)
    trials = [
        stats.paired(dict(enumerate(random.normal(size=5))), dict(enumerate(random.normal(size=5))))
        for _ in range(2000)
    ]
    assert np.mean([each.significant for each in trials]) == pytest.approx(0.05, abs=0.015)
