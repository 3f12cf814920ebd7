"""isrlu.torch's recurrent modules: with exact gates they are torch.nn's, in every option, shape and error."""

import copy
import io
import itertools

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence

from isrlu.testing import check_recurrent
from isrlu.torch import GRU, LSTM, GRUCell, LSTMCell

PAIRS = [(LSTM, nn.LSTM), (GRU, nn.GRU)]
CELLS = [(LSTMCell, nn.LSTMCell), (GRUCell, nn.GRUCell)]
DTYPES = (torch.float32, torch.float64, torch.bfloat16)
OPTIONS = [
    {},
    {"num_layers": 3},
    {"bias": False},
    {"batch_first": True},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"num_layers": 2, "bias": False, "bidirectional": True},
]


def flat(result) -> list[Tensor]:
    """All tensors of a module's result."""
    if isinstance(result, PackedSequence):
        return [result.data]
    return [result] if isinstance(result, Tensor) else [t for part in result for t in flat(part)]


def assert_same(ours, theirs, dtype=torch.float32) -> None:
    ours, theirs = flat(ours), flat(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        near(a, b, dtype)


def near(a: Tensor, b: Tensor, dtype: torch.dtype = torch.float32) -> None:
    name = str(dtype).removeprefix("torch.")
    check_recurrent(a.detach().double().numpy(), b.detach().double().numpy(), name)


def pair(ours, theirs, *args, dtype=torch.float32, **options):
    """A torch.nn module and ours with exact gates and its weights."""
    torch.manual_seed(1)
    original = theirs(*args, dtype=dtype, **options)
    return ours.from_torch(original, gates="exact"), original


def random_states(module, batch: int, dtype=torch.float32):
    runs = module.num_layers * (2 if module.bidirectional else 1)
    h = torch.randn(runs, batch, module.proj_size or module.hidden_size, dtype=dtype)
    return (h, torch.randn(runs, batch, module.hidden_size, dtype=dtype)) if module.mode == "LSTM" else h


@pytest.mark.parametrize("ours, theirs", PAIRS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
def test_values(ours, theirs, options, dtype, given) -> None:
    module, original = pair(ours, theirs, 5, 7, dtype=dtype, **options)
    x = torch.randn(4, 4, 5, dtype=dtype)
    states = random_states(original, 4, dtype) if given else None
    assert_same(module(x, states), original(x, states), dtype)


@pytest.mark.parametrize("ours, theirs", PAIRS)
@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 32])
@pytest.mark.parametrize("hidden", [1, 3, 8, 17, 33, 64])
def test_sizes(ours, theirs, batch, hidden) -> None:
    module, original = pair(ours, theirs, 3, hidden)
    for length in (1, 2, 9):
        x = torch.randn(length, batch, 3)
        with torch.no_grad():
            assert_same(module(x), original(x))


@pytest.mark.parametrize("ours, theirs", PAIRS)
def test_empty_batch(ours, theirs) -> None:
    module, original = pair(ours, theirs, 5, 7, num_layers=2)
    for a, b in zip(flat(module(torch.zeros(4, 0, 5))), flat(original(torch.zeros(4, 0, 5))), strict=True):
        assert a.shape == b.shape


@pytest.mark.parametrize("ours, theirs", PAIRS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_unbatched(ours, theirs, options) -> None:
    module, original = pair(ours, theirs, 5, 7, **options)
    x = torch.randn(6, 5)
    states = random_states(original, 1)
    states = tuple(s.squeeze(1) for s in states) if isinstance(states, tuple) else states.squeeze(1)
    assert_same(module(x), original(x))
    assert_same(module(x, states), original(x, states))


@pytest.mark.parametrize("ours, theirs", PAIRS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("lengths", [[6, 4, 4, 1], [2, 6, 1, 3]], ids=["sorted", "unsorted"])
def test_packed(ours, theirs, options, lengths) -> None:
    module, original = pair(ours, theirs, 5, 7, **options)
    packed = pack_sequence([torch.randn(n, 5) for n in lengths], enforce_sorted=False)
    states = random_states(original, len(lengths))
    for given in (None, states):
        result, expected = module(packed, given), original(packed, given)
        assert_same(result, expected)
        assert all(torch.equal(a, b) for a, b in zip(result[0][1:], expected[0][1:], strict=True))


@pytest.mark.parametrize("ours, theirs", PAIRS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("lengths", [None, [6, 4, 4, 1]], ids=["full", "packed"])
def test_gradients(ours, theirs, options, lengths) -> None:
    module, original = pair(ours, theirs, 5, 7, dtype=torch.float64, **options)
    gradients = []
    for m in (module, original):
        torch.manual_seed(2)
        x = torch.randn(4, 6, 5, dtype=torch.float64, requires_grad=True)
        states = random_states(original, 4 if m.batch_first or lengths else 6, torch.float64)
        leaves = [s.requires_grad_() for s in flat([states])]
        data = x if lengths is None else pack_padded_sequence(x, lengths, batch_first=True)
        loss = sum((t * torch.randn_like(t)).sum() for t in flat(m(data, states)))
        gradients.append(torch.autograd.grad(loss, [x, *leaves, *m.parameters()]))
    assert_same(gradients[0], [g for g in gradients[1]])  # float32's tolerance: the sums are long


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_projection(options) -> None:
    module, original = pair(LSTM, nn.LSTM, 5, 7, proj_size=3, **options)
    x = torch.randn(4, 4, 5)
    states = random_states(original, 4)
    assert_same(module(x, states), original(x, states))
    assert_same(module(x), original(x))


@pytest.mark.parametrize("ours, theirs", PAIRS)
def test_dropout_between_layers_while_training(ours, theirs) -> None:
    module, original = pair(ours, theirs, 5, 7, num_layers=2, dropout=0.5)
    x = torch.randn(4, 3, 5)
    assert_same(module.eval()(x), original.eval()(x))
    module.train()
    torch.manual_seed(3)
    first = module(x)[0]
    torch.manual_seed(3)
    assert torch.equal(first, module(x)[0])
    assert not torch.allclose(first, module(x)[0])
    single = pair(ours, theirs, 5, 7, num_layers=2, dropout=1.0)[0].train()
    assert torch.equal(single(x)[0], single(torch.randn_like(x))[0]), "the second layer sees nothing of the input"


@pytest.mark.parametrize("ours, theirs", CELLS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [True, False])
def test_cells(ours, theirs, dtype, bias) -> None:
    module, original = pair(ours, theirs, 5, 7, dtype=dtype, bias=bias)
    for shape in ((3, 5), (5,)):
        x = torch.randn(shape, dtype=dtype)
        h = torch.randn(*shape[:-1], 7, dtype=dtype)
        states = (h, torch.randn_like(h)) if theirs is nn.LSTMCell else h
        assert_same(module(x), original(x), dtype)
        assert_same(module(x, states), original(x, states), dtype)


@pytest.mark.parametrize("layer, cell", [(LSTM, LSTMCell), (GRU, GRUCell)])
@pytest.mark.parametrize("gates", ["isru", "exact"])
def test_a_cell_is_one_step_of_the_layer(layer, cell, gates) -> None:
    torch.manual_seed(4)
    module = layer(5, 7, gates=gates)
    single = cell(5, 7, gates=gates)
    single.load_state_dict({name.removesuffix("_l0"): value for name, value in module.state_dict().items()})
    x = torch.randn(6, 3, 5)
    states = None
    outputs = []
    for step in x:
        states = single(step, states)
        outputs.append(states if isinstance(states, Tensor) else states[0])
    near(torch.stack(outputs), module(x)[0])


@pytest.mark.parametrize("gates", ["isru", "exact"])
@pytest.mark.parametrize("ours, theirs", PAIRS + CELLS)
def test_checkpoints_both_ways(ours, theirs, gates) -> None:
    module, original = ours(5, 7, gates=gates), theirs(5, 7)
    assert list(module.state_dict()) == list(original.state_dict())
    original.load_state_dict(module.state_dict())
    module.load_state_dict(original.state_dict())
    assert ours.from_torch(original).gates == "isru"
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    x = torch.randn(2, 5)
    for same in (torch.load(file, weights_only=False), copy.deepcopy(module)):
        assert same.gates == gates
        assert_same(same(x), module(x))


def test_from_torch_takes_all_options() -> None:
    original = nn.LSTM(5, 7, 2, False, True, 0.25, True, 3, dtype=torch.float64).eval()
    module = LSTM.from_torch(original)
    for name in (*LSTM.options, "input_size", "hidden_size", "training"):
        assert getattr(module, name) == getattr(original, name)
    assert module.weight_ih_l0.dtype is torch.float64
    module.weight_ih_l0.data.zero_()
    assert original.weight_ih_l0.abs().max() > 0, "the weights are a copy"


def test_from_torch_keeps_what_is_frozen() -> None:
    original = nn.GRU(5, 7)
    original.weight_hh_l0.requires_grad_(False)
    module = GRU.from_torch(original)
    assert [name for name, parameter in module.named_parameters() if not parameter.requires_grad] == ["weight_hh_l0"]


@pytest.mark.parametrize("layer", [LSTM, GRU])
def test_checkpointing(layer) -> None:
    module, x = layer(5, 7), torch.randn(4, 3, 5)
    expected = torch.autograd.grad(module(x)[0].sum(), list(module.parameters()))
    y, _ = torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)
    assert_same(torch.autograd.grad(y.sum(), list(module.parameters())), expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The tensor attributes self._flat_weights")  # as torch.nn's modules have it
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("layer", [LSTM, GRU])
def test_export_for_any_batch(layer, strict) -> None:
    module = layer(5, 7, batch_first=True).eval()
    shapes = ({0: torch.export.Dim("batch")},)
    exported = torch.export.export(module, (torch.randn(2, 4, 5),), dynamic_shapes=shapes, strict=strict).module()
    x = torch.randn(6, 4, 5)
    assert_same(exported(x), module(x))


@pytest.mark.parametrize("layer, reference", [(LSTM, nn.LSTM), (GRU, nn.GRU)])
def test_functional_call_sees_other_weights(layer, reference) -> None:
    module, original = pair(layer, reference, 5, 7)
    x = torch.randn(4, 3, 5)
    weights = {name: value * 0.5 for name, value in original.state_dict().items()}
    assert_same(*(torch.func.functional_call(m, weights, (x,)) for m in (module, original)))


def _raises(call) -> tuple[type[Exception], str]:
    with pytest.raises(Exception) as caught:
        call()
    return caught.type, str(caught.value)


BAD_CONSTRUCTIONS = [
    ((5, 0), {}),
    ((5, -1), {}),
    ((0, 7), {}),
    ((5, 7.0), {}),
    ((5, 7), {"num_layers": 0}),
    ((5, 7), {"dropout": 2}),
    ((5, 7), {"proj_size": 7}),
    ((5, 7), {"bias": 1}),
]


@pytest.mark.parametrize("ours, theirs", PAIRS)
@pytest.mark.parametrize("args, options", BAD_CONSTRUCTIONS, ids=str)
def test_constructor_errors_are_torch_s(ours, theirs, args, options) -> None:
    assert _raises(lambda: ours(*args, **options)) == _raises(lambda: theirs(*args, **options))


@pytest.mark.parametrize("ours, theirs", PAIRS)
def test_input_errors_are_torch_s(ours, theirs) -> None:
    module, original = pair(ours, theirs, 5, 7)
    h = torch.zeros(1, 3, 7)
    for x, state in [
        (torch.zeros(4, 3, 6), None),
        (torch.zeros(4), None),
        (torch.zeros(4, 3, 5, dtype=torch.float64), None),
        (torch.zeros(4, 3, 5), torch.zeros(1, 2, 7)),
        (torch.zeros(4, 3, 5), torch.zeros(1, 3, 8)),
    ]:
        hx = state if state is None or ours is GRU else (h, state)
        assert _raises(lambda x=x, hx=hx: module(x, hx)) == _raises(lambda x=x, hx=hx: original(x, hx))


UNSORTED = pack_sequence([torch.zeros(1, 5), torch.zeros(3, 5)], enforce_sorted=False)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: LSTM(5, 7)(torch.zeros(4, 3, 5), torch.zeros(1, 3, 7)), r"pair of tensors \(h_0, c_0\)"),
        (lambda: GRU(5, 7)(torch.zeros(4, 3, 5), (torch.zeros(1, 3, 7),)), "must be a tensor, got tuple"),
        (lambda: LSTM(5, 7)(torch.zeros(4, 3, 5), (torch.zeros(3, 7),) * 2), "batched 3-D .*3-D but got 2-D, 2-D"),
        (lambda: GRU(5, 7)(torch.zeros(4, 5), torch.zeros(1, 1, 7)), "unbatched 2-D .*2-D but got 3-D"),
        (lambda: LSTM(5, 7)(UNSORTED, torch.zeros(2, 2, 7)), r"pair of tensors \(h_0, c_0\)"),
        (lambda: GRU(5, 7)(UNSORTED, (torch.zeros(1, 2, 7),)), "must be a tensor, got tuple"),
        (lambda: GRU(5, 7)(PackedSequence(torch.zeros(3, 5), torch.tensor([1, 2]))), "must not increase"),
        (lambda: GRU(5, 7)(PackedSequence(torch.zeros(5, 5), torch.tensor([2, 1]))), "add up to its 5 rows"),
        (lambda: GRU(5, 7)(torch.zeros(0, 3, 5)), "sequence length to be larger than 0"),
        (lambda: GRU(5, 7, gates="hard"), "unknown gates 'hard': known are isru, exact"),
        (lambda: GRU.from_torch(nn.LSTM(5, 7)), "GRU.from_torch takes a torch.nn.GRU, got LSTM"),
        (lambda: LSTMCell(5, 7)(torch.zeros(3, 6)), "got 6, expected 5"),
        (lambda: LSTMCell(5, 7)(torch.zeros(3, 4, 5)), "1D or 2D, got 3D"),
        (lambda: GRUCell(5, 7)(torch.zeros(3, 5), torch.zeros(2, 7)), r"shape \(3, 7\), got \(2, 7\)"),
    ],
)
def test_errors_of_our_own(call, message) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        call()


def test_isru_gates_are_the_functions() -> None:
    from isrlu.torch import isru, isru_sigmoid

    torch.manual_seed(5)
    lstm, x, h, c = LSTM(5, 7), torch.randn(1, 3, 5), torch.randn(1, 3, 7), torch.randn(1, 3, 7)
    i, f, g, o = (x[0] @ lstm.weight_ih_l0.T + h[0] @ lstm.weight_hh_l0.T + lstm.bias_ih_l0 + lstm.bias_hh_l0).chunk(
        4, 1
    )
    new_c = isru_sigmoid(f) * c[0] + isru_sigmoid(i) * isru(g)
    output, (_, last) = lstm(x, (h, c))
    near(output[0], isru_sigmoid(o) * isru(new_c))
    near(last[0], new_c)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("layer, options", list(itertools.product([LSTM, GRU], OPTIONS[-2:])))
def test_compiles_to_one_graph(layer, options, dynamic) -> None:
    module = layer(5, 7, **options)
    x = torch.randn(4, 3, 5)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    assert_same(compiled(x), module(x))
    weights = list(module.parameters())
    assert_same(*(torch.autograd.grad(f(x)[0].sum(), weights) for f in (compiled, module)))
