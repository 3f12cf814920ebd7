"""The recurrent kernels: against the formula in torch ops, in every instruction set, and their gradients."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.utils.rnn import pack_sequence

import isrlu
from isrlu.testing import check_recurrent, recurrent_step
from isrlu.torch import GRU, LSTM, _rnn_formula, _rnn_kernels
from isrlu_lab.measure import recurrent_bench as bench

LAYERS = {"LSTM": LSTM, "GRU": GRU}
both = pytest.mark.parametrize("mode", LAYERS)
all_gates = pytest.mark.parametrize("gates", ["isru", "exact"])
SIZES = {"full": (4, 4, 4), "packed": (4, 3, 3, 1), "one": (4,)}


def tensors(mode: str, sizes, hidden=5, width=3, bias=True, dtype=torch.float64):
    """Data, states and weights of a layer, all with gradients."""
    torch.manual_seed(0)
    columns = (4 if mode == "LSTM" else 3) * hidden
    shapes = [(sum(sizes), width), *[(sizes[0], hidden)] * (2 if mode == "LSTM" else 1)]
    shapes += [(columns, width), (columns, hidden), *[(columns,)] * (2 if bias else 0)]
    made = [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]
    return made if bias else [*made, None, None]


def assert_near(ours, theirs, dtype: torch.dtype, quantity: str = "state") -> None:
    name = str(dtype).removeprefix("torch.")
    check_recurrent(ours.detach().double().numpy(), theirs.detach().double().numpy(), name, quantity)


def call(layer, mode, gates, sizes, reverse):
    def function(*given):
        data, states, weights = _rnn_kernels._split(given)
        y, last = layer(mode, gates, data, sizes, states, weights, reverse)
        return y, *last

    return function


@both
@all_gates
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_in_float64(mode, gates, sizes, reverse, bias) -> None:
    given = tensors(mode, sizes, bias=bias)
    assert gradcheck(call(_rnn_kernels.layer, mode, gates, sizes, reverse), given)


@both
@all_gates
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("hidden", [1, 5, 16, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_are_the_formula(mode, gates, sizes, reverse, hidden, dtype) -> None:
    given = tensors(mode, sizes, hidden, dtype=dtype)
    results = []
    for layer in (_rnn_kernels.layer, _rnn_formula.layer):
        outputs = call(layer, mode, gates, sizes, reverse)(*given)
        weighted = sum((output * output.detach().cos()).sum() for output in outputs)
        results.append([*outputs, *torch.autograd.grad(weighted, given)])
    for ours, formula in zip(*results, strict=True):
        assert_near(ours, formula, dtype, "gradient")


@pytest.mark.slow
@both
@all_gates
def test_second_derivatives_go_through_the_formula(mode, gates) -> None:
    given = tensors(mode, (2, 2), hidden=2, width=2)
    assert gradgradcheck(call(_rnn_kernels.layer, mode, gates, (2, 2), False), given)


@both
def test_one_missing_gradient(mode) -> None:
    """A loss of the last state alone, or of weights alone."""
    module = LAYERS[mode](3, 5)
    x = torch.randn(6, 2, 3)
    output, last = module(x)
    h = last[0] if mode == "LSTM" else last
    by_state = torch.autograd.grad(h.sum(), list(module.parameters()), retain_graph=True)
    by_output = torch.autograd.grad(output[-1].sum(), list(module.parameters()))
    for a, b in zip(by_state, by_output, strict=True):
        torch.testing.assert_close(a, b)


@both
@all_gates
def test_rows_and_threads_change_nothing(mode, gates) -> None:
    """A sequence's result does not depend on its place in the batch, nor on the number of threads."""
    torch.manual_seed(0)
    module = LAYERS[mode](6, 19, gates=gates).eval()
    x = torch.randn(9, 23, 6)
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with torch.no_grad():
                results.append(module(x)[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)
    with torch.no_grad():
        assert torch.equal(module(x[:, 3:8])[0], results[0][:, 3:8])
        assert torch.equal(module(x[:, 7:8])[0], results[0][:, 7:8])


@both
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1,) * 70, (3,) * 65, (4,) * 20 + (2,) * 30 + (1,) * 20], ids=["one", "three", "packed"]
)
def test_inputs_ahead_of_a_small_batch(mode, sizes, reverse) -> None:
    """Long sequences of few rows, whose inputs a second thread multiplies; alone, a thread comes to the same bits."""
    given = [t.detach() for t in tensors(mode, sizes, hidden=64, width=64, dtype=torch.float32)]
    given = [t / 8 if t.shape[-1] == 64 else t for t in given]
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(call(_rnn_kernels.layer, mode, "isru", sizes, reverse)(*given))
    finally:
        torch.set_num_threads(before)
    expected = call(_rnn_formula.layer, mode, "isru", sizes, reverse)(*given)
    for alone, together, formula in zip(*results, expected, strict=True):
        assert torch.equal(alone, together)
        assert_near(alone, formula, torch.float32, "gradient")  # states, of 70 steps


@both
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(1,) * 9, (2,) * 70, (2, 2, 2, 2, 1, 1)], ids=["one", "two", "packed"])
def test_units_divided_between_two_threads(mode, sizes, reverse) -> None:
    """Weights that are large for the batch: each of two threads computes half of the units, forward and backward."""
    given = [t.detach() for t in tensors(mode, sizes, hidden=128, width=5, dtype=torch.float32)]
    given = [(t / 10).requires_grad_() for t in given]
    grads = [torch.randn(sum(sizes), 128)]
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            y = call(_rnn_kernels.layer, mode, "isru", sizes, reverse)(*given)
            found = torch.autograd.grad(y[:1], given[: len(y)], grads)
            with torch.no_grad():
                results.append((*y, *call(_rnn_kernels.layer, mode, "isru", sizes, reverse)(*given), *found))
    finally:
        torch.set_num_threads(before)
    formula = call(_rnn_formula.layer, mode, "isru", sizes, reverse)(*given)
    expected = (*formula, *formula, *torch.autograd.grad(formula[:1], given[: len(formula)], grads))
    states = 2 * len(formula)
    for i, (alone, together, other) in enumerate(zip(*results, expected, strict=True)):
        if i != states:  # the input's gradient is a product of PyTorch's
            assert torch.equal(alone, together)
        assert_near(alone, other, torch.float32, "gradient")


@both
def test_sees_weights_that_change_without_a_trace(mode) -> None:
    """Through .data, a NumPy view or an optimiser's step: nothing of a weight is kept from one call to the next."""
    module, x = LAYERS[mode](6, 19), torch.randn(9, 3, 6)
    with torch.no_grad():
        for change in (lambda w: w.data.mul_(0.5), lambda w: np.multiply(w.detach().numpy(), 2, w.detach().numpy())):
            before = module(x)[0]
            for weight in module.parameters():
                change(weight)
            after = module(x)[0]
            assert not torch.equal(before, after)
            assert torch.equal(after, copy.deepcopy(module)(x)[0])


@both
def test_weights_in_another_layout(mode) -> None:
    """A parameter that is a transposed view: what its copy occupies must outlive the call."""
    module, x = LAYERS[mode](8, 8), torch.randn(9, 3, 8)
    expected = module(x)[0]
    for name in ("weight_ih_l0", "weight_hh_l0"):
        setattr(module, name, nn.Parameter(getattr(module, name).detach().t().contiguous().t()))
    assert torch.equal(module(x)[0], expected)
    module(x)[0].sum().backward()


@both
def test_extreme_arguments(mode) -> None:
    """Saturated gates are what they are in float64, and NaN stays NaN, as in the functions themselves."""
    torch.manual_seed(0)
    module = LAYERS[mode](1, 4)
    wide = copy.deepcopy(module).double()
    with torch.no_grad():
        for value in (1e20, -1e20, 3e38):
            x = torch.full((2, 1, 1), value)
            assert_near(module(x)[0], wide(x.double())[0], torch.float32)
        assert module(torch.full((2, 1, 1), float("nan")))[0].isnan().all()


@both
def test_bfloat16_is_float32_rounded(mode) -> None:
    torch.manual_seed(0)
    module = LAYERS[mode](6, 19, dtype=torch.bfloat16)
    wide = LAYERS[mode](6, 19)
    wide.load_state_dict(module.state_dict())
    x = torch.randn(9, 3, 6).bfloat16()
    assert torch.equal(module(x)[0], wide(x.float())[0].bfloat16())
    assert all(g.dtype is torch.bfloat16 for g in torch.autograd.grad(module(x)[0].sum(), list(module.parameters())))


@both
def test_inference_keeps_nothing(mode, monkeypatch) -> None:
    module = LAYERS[mode](6, 19)
    x = torch.randn(9, 3, 6)
    kept, forward = [], _rnn_kernels._forward

    def watched(*arguments, keep, packed=None):
        kept.append(keep)
        return forward(*arguments, keep=keep, packed=packed)

    monkeypatch.setattr(_rnn_kernels, "_forward", watched)
    trained = module(x)
    with torch.inference_mode():
        inferred = module(x)
    assert kept == [True, False] and not inferred[0].requires_grad
    assert torch.equal(inferred[0], trained[0])


@both
def test_a_default_device_does_not_reach_the_kernels(mode) -> None:
    module = LAYERS[mode](6, 8)
    packed = pack_sequence([torch.randn(n, 6) for n in (4, 2, 1)])
    expected = torch.autograd.grad(module(packed)[0].data.sum(), list(module.parameters()))
    with torch.device("meta"):
        found = torch.autograd.grad(module(packed)[0].data.sum(), list(module.parameters()))
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


@both
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_batched_gradients(mode, sizes) -> None:
    function = call(_rnn_kernels.layer, mode, "isru", sizes, reverse=False)
    given = tuple(tensors(mode, sizes))
    one, all_at_once = (
        torch.autograd.functional.jacobian(function, given, vectorize=vectorize) for vectorize in (False, True)
    )
    torch.testing.assert_close(all_at_once, one)


@both
def test_who_goes_to_the_kernels(mode, monkeypatch) -> None:
    """Plain tensors do; function transforms and a GRU under autocast take the formula, to the same result."""
    module = LAYERS[mode](6, 8)
    x = torch.randn(5, 3, 6)
    expected = module(x)[0]
    seen = []
    original = _rnn_formula.layer
    monkeypatch.setattr(_rnn_formula, "layer", lambda *args, **named: seen.append(1) or original(*args, **named))
    module(x)
    module(pack_sequence([x[:, 0], x[:3, 1]]))
    assert not seen
    mapped = torch.vmap(lambda each: module(each)[0])(torch.stack([x, 2 * x]))
    assert seen
    assert_near(mapped[0], expected, torch.float32)
    seen.clear()
    with torch.autocast("cpu", torch.bfloat16):
        assert_near(module(x)[0], expected, torch.bfloat16)
    assert bool(seen) == (mode == "GRU")  # an LSTM's tensors are rounded to bfloat16 before


@both
@pytest.mark.parametrize("states", [False, True], ids=["no states", "states"])
def test_autocast_gives_the_dtypes_of_torch(mode, states) -> None:
    module, theirs = LAYERS[mode](6, 8), getattr(nn, mode)(6, 8)
    x, h = torch.randn(5, 3, 6), torch.zeros(1, 3, 8)
    given = ((h, h) if mode == "LSTM" else h,) if states else ()
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.utils._pytree.tree_leaves(module(x, *given))
        assert {y.dtype for y in found} == {torch.bfloat16 if mode == "LSTM" else torch.float32}
        if mode == "GRU" or torch.ops.mkldnn._is_mkldnn_bf16_supported():  # else torch.nn.LSTM raises
            expected = torch.utils._pytree.tree_leaves(theirs(x, *given))
            assert [y.dtype for y in found] == [y.dtype for y in expected]
    found[0].sum().backward()
    assert all(p.grad.dtype is torch.float32 and p.grad.abs().sum() > 0 for p in module.parameters())
    with torch.autocast("cpu", torch.bfloat16):  # float64 is left alone
        assert torch.utils._pytree.tree_leaves(module.double()(x.double()))[0].dtype is torch.float64


@both
def test_trains(mode) -> None:
    """A few steps of Adam on a toy task bring the loss down, in the plain way a user would write it."""
    torch.manual_seed(0)
    module, head = LAYERS[mode](1, 16), nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*module.parameters(), *head.parameters()], lr=0.02)
    x = torch.randn(12, 64, 1)
    target = x.sum(0)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(head(module(x)[0][-1]), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5


@pytest.mark.parametrize("simd", isrlu.simd_available())
@both
def test_gates_in_every_instruction_set(simd, mode) -> None:
    """For lengths around a batch's: each state is the oracle's, and the two kinds of gates are not the same."""
    rows = 3
    for hidden in (1, 7, 8, 9, 33):
        found = []
        for gates in ("isru", "exact"):
            arguments, h, c, new_h, new_c = bench.gates_call(simd, mode, gates, rows, hidden).arrays
            expected = recurrent_step(
                mode, gates, arguments.reshape(rows, 4, hidden), h.reshape(rows, hidden), c.reshape(rows, hidden)
            )
            check_recurrent(new_h.reshape(rows, hidden), expected[0], "float32")
            if mode == "LSTM":
                check_recurrent(new_c.reshape(rows, hidden), expected[1], "float32")
            found.append(new_h)
        assert np.abs(found[0] - found[1]).max() > 1e-2


@both
def test_wrong_gates_are_not_timed(mode, monkeypatch) -> None:
    right = bench.recurrent_step
    for wrong in (lambda h: h + 1e-5, lambda h: h * np.nan):
        monkeypatch.setattr(bench, "recurrent_step", lambda *args, wrong=wrong: tuple(map(wrong, right(*args))))
        with pytest.raises(AssertionError, match="a float32 state is off by"):
            bench.time_gates("scalar", mode, 3, 9, rounds=2)


PROGRAM = """
import sys, torch, isrlu
from isrlu.torch import GRU, LSTM
assert isrlu.simd() == sys.argv[1]
for layer in (LSTM, GRU):
    for gates in ("isru", "exact"):
        torch.manual_seed(0)
        module, x = layer(5, 21, gates=gates, dtype=torch.float64), torch.randn(6, 7, 5, dtype=torch.float64)
        wide = module(x)[0]
        grads = torch.autograd.grad(wide.square().sum(), list(module.parameters()))
        narrow = module.float()(x.float())[0]
        print((narrow - wide).abs().max().item(), *(g.abs().sum().item() for g in grads), wide.sum().item())
"""


@pytest.fixture(scope="module")
def per_instruction_set() -> dict[str, np.ndarray]:
    found = {}
    for simd in isrlu.simd_available():
        environment = {**os.environ, "ISRLU_SIMD": simd}
        command = [sys.executable, "-c", PROGRAM, simd]
        text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        found[simd] = np.array([[float(word) for word in line.split()] for line in text.splitlines()])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("simd", isrlu.simd_available())
def test_every_instruction_set_agrees(per_instruction_set, simd) -> None:
    figures, reference = per_instruction_set[simd], per_instruction_set["scalar"]
    check_recurrent(figures[:, 0], np.zeros(len(figures)), "float32")  # float32 beside float64
    np.testing.assert_allclose(figures[:, 1:], reference[:, 1:], rtol=1e-11)  # float64 sums over all elements


@both
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("has_states", [False, True])
def test_gradients_of_many_rows(mode, reverse, has_states) -> None:
    """12 MB of slopes, which are made in stretches of some steps, and more rows than are packed at once."""
    sizes = (1200,) * 6
    data, *states, w_ih, w_hh, b_ih, b_hh = tensors(mode, sizes, hidden=50, width=5)
    weights = _rnn_formula.Weights(w_ih, w_hh, b_ih, b_hh)
    leaves = [data, *(states if has_states else []), *weights[:4]]
    grad = torch.randn(sum(sizes), 50, dtype=torch.float64)
    found = []
    for layer in (_rnn_kernels.layer, _rnn_formula.layer):
        y, _ = layer(mode, "isru", data, sizes, tuple(states) if has_states else None, weights, reverse)
        found.append(torch.autograd.grad(y, leaves, grad))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)
