"""isrlu bench norm: every contender is timed, and the oracle is asked first."""

import platform
import subprocess
import sys

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


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="glibc's malloc")
def test_freed_memory_is_kept() -> None:
    """In a process of its own: the setting holds for the rest of a process."""
    program = (
        "import resource, sys\n"
        "from isrlu_lab.measure.heap import keep_freed_memory\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "assert keep_freed_memory()\n"
        "allocate = lambda: [bytearray(24 << 20) for _ in range(4)]\n"
        "allocate()\n"
        "before = faults()\n"
        "allocate()\n"
        "sys.exit(faults() - before > 6144)"  # 24 MiB are 6,144 pages
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_rivals_are_what_their_authors_have() -> None:
    x, weight, bias = torch.randn(3, 4), torch.randn(4), torch.randn(4)
    given = x, weight, bias, torch.tensor(0.5), torch.tensor(0.1)
    torch.testing.assert_close(norm_bench.dyt(*given), weight * torch.tanh(0.5 * x) + bias)
    torch.testing.assert_close(norm_bench.derf(*given), weight * torch.erf(0.5 * x + 0.1) + bias)


def test_wrong_results_are_not_timed(monkeypatch) -> None:
    monkeypatch.setattr(norm_bench, "dyisru", lambda x, *_: x)
    with pytest.raises(AssertionError, match="dyisru float32, y"):
        norm_bench.run(shapes=[(4, 8)], rounds=2)
