"""LSTM and GRU with packed weights: the same results, and a packed copy that never outlives the weights."""

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from isrlu.torch import GRU, LSTM, _rnn_kernels

layers = pytest.mark.parametrize("layer", [LSTM, GRU])
OPTIONS = [
    {},
    {"bias": False},
    {"batch_first": True},
    {"num_layers": 2, "bidirectional": True},
    {"num_layers": 2, "batch_first": True, "dropout": 0.5},
]


def flat(result) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else [t for part in result for t in flat(part)]


def assert_identical(ours, theirs) -> None:
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert torch.equal(a, b)


def pair(layer, *args, dtype=torch.float32, **options):
    """A module and a copy with packed weights."""
    torch.manual_seed(0)
    module = layer(*(args or (6, 9)), **options).to(dtype).eval()
    return module, copy.deepcopy(module).pack_weights()


@layers
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5, 1, 6), (5, 3, 6), (5, 6), (1, 5, 6)], ids=str)
def test_results_are_those_of_unpacked_weights(layer, options, dtype, shape) -> None:
    module, packed = pair(layer, dtype=dtype, **options)
    x = torch.randn(shape, dtype=dtype)
    steps = shape[1] if len(shape) == 3 and options.get("batch_first") else shape[0]
    with torch.no_grad():
        expected, found = module(x), packed(x)
        again, found_again = module(x, expected[1]), packed(x, found[1])
    if steps > 1:
        assert_identical(found, expected)
        assert_identical(found_again, again)
    for a, b in zip(flat((found, found_again)), flat((expected, again)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
        assert a.shape == b.shape
    assert packed.weights_packed


@layers
@pytest.mark.parametrize("hidden", [8, 40, 64])
def test_step_by_step_is_the_whole_sequence(layer, hidden) -> None:
    _, packed = pair(layer, 10, hidden)
    x = torch.randn(70, 1, 10)
    with torch.inference_mode():
        whole, last = packed(x)
        state, outputs = None, []
        for step in x.split(1):
            y, state = packed(step, state)
            outputs.append(y)
    assert_identical((torch.cat(outputs), state), (whole, last))


@layers
def test_other_inputs_take_the_general_path(layer) -> None:
    module, packed = pair(layer)
    x = torch.randn(4, 3, 6)
    with torch.no_grad():
        assert_identical(packed(x.transpose(0, 1)), module(x.transpose(0, 1)))
        batch = pack_sequence([x[:4, 0], x[:2, 1]])
        assert_identical(packed(batch)[0].data, module(batch)[0].data)
        state = flat(module(x)[1])[0].expand(1, 3, 9)
        hx = (state, state) if layer is LSTM else state
        assert_identical(packed(x, hx), module(x, hx))
    with pytest.raises(RuntimeError, match=r"input\.size"):
        packed(torch.randn(4, 3, 7))
    assert packed.weights_packed


@layers
def test_the_kernel_gets_the_packed_weights(layer, monkeypatch) -> None:
    """A call that packs again would be correct and slow: no other test would see it."""
    _, packed = pair(layer)
    module = pair(layer, num_layers=2)[1]
    given = []
    forward = _rnn_kernels._core.recurrent_forward
    monkeypatch.setattr(_rnn_kernels._core, "recurrent_forward", lambda *a: given.append(a[4]) or forward(*a))
    with torch.no_grad():
        packed(torch.randn(4, 1, 6))
        assert given == []  # one call of packed_forward
        module(torch.randn(1, 1, 6))
    assert given == list(module._packed_weights)


@layers
@pytest.mark.parametrize("num_layers", [1, 2])
def test_gradients_do_not_use_the_packed_copy(layer, num_layers) -> None:
    module, packed = pair(layer, num_layers=num_layers)
    x = torch.randn(4, 3, 6)
    for each in (module, packed):
        each(x)[0].square().sum().backward()
    assert_identical([p.grad for p in packed.parameters()], [p.grad for p in module.parameters()])
    x.requires_grad_()
    packed.requires_grad_(False)
    assert packed(x)[0].requires_grad


def optimizer_step(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD(module.parameters(), lr=0.1).step()


def fused_step(module: nn.Module) -> None:
    """PyTorch does not count the changes of this one."""
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.Adam(module.parameters(), lr=0.1, fused=True).step()


def load(module: nn.Module) -> None:
    module.load_state_dict({name: value + 0.1 for name, value in module.state_dict().items()})


def edit_in_place(module: nn.Module) -> None:
    with torch.no_grad():
        module.bias_hh_l0 += 0.5


def assign_parameter(module: nn.Module) -> None:
    module.weight_ih_l0 = nn.Parameter(module.weight_ih_l0.detach() + 0.1)


def assign_data(module: nn.Module) -> None:
    module.weight_hh_l0.data = module.weight_hh_l0.data + 0.1


def assign_other_strides(module: nn.Module) -> None:
    """The same memory, read in another order."""
    weight = module.weight_ih_l0
    weight.data = weight.data.as_strided(weight.shape, (1, weight.shape[0]))


CHANGES = [optimizer_step, fused_step, load, edit_in_place, assign_parameter, assign_data, assign_other_strides]


@layers
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_weights_drops_the_packed_copy(layer, num_layers, change) -> None:
    module, packed = pair(layer, num_layers=num_layers)
    x = torch.randn(4, 1, 6)
    with torch.no_grad():
        before = packed(x)[0]
    for each in (module, packed):
        change(each)
    assert not packed.weights_packed
    with torch.no_grad():
        expected = module(x)
        assert not torch.equal(expected[0], before)
        assert_identical(packed(x), expected)
        if packed.weight_ih_l0.is_contiguous():
            assert_identical(packed.pack_weights()(x), expected)
            assert packed.weights_packed


@layers
def test_a_step_on_other_weights_keeps_the_packed_copy(layer) -> None:
    module, packed = pair(layer)
    fused_step(module)
    assert packed.weights_packed and not module.weights_packed


@layers
def test_the_packed_copy_holds_the_memory_of_the_weights(layer) -> None:
    """Else a weight that is assigned later could get the address of the packed one."""
    _, packed = pair(layer)
    shape = packed.weight_hh_l0.shape
    array = np.ones(shape, np.float32)
    memory = weakref.ref(array)
    packed.weight_hh_l0.data = torch.from_numpy(array)
    del array
    packed.pack_weights()
    packed.weight_hh_l0.data = torch.empty(0)
    gc.collect()
    assert memory() is not None
    packed.weight_hh_l0.data = torch.ones(shape)
    assert not packed.weights_packed
    packed.unpack_weights()
    gc.collect()
    assert memory() is None


@layers
def test_another_parameter_in_the_same_memory_drops_the_packed_copy(layer) -> None:
    """Its count of changes can be that of the packed parameter."""
    module, _ = pair(layer)
    with torch.no_grad():
        module.weight_hh_l0 += 0
        packed_version = module.weight_hh_l0._version
        module.pack_weights()
        module.weight_hh_l0 = nn.Parameter(module.weight_hh_l0.data)
        for _ in range(packed_version):
            module.weight_hh_l0 += 0.1
    assert module.weight_hh_l0._version == packed_version
    assert not module.weights_packed


@layers
@pytest.mark.parametrize(
    "change", [lambda m: m.to(torch.float64), lambda m: m.float(), lambda m: m.train(), lambda m: m.unpack_weights()]
)
def test_to_and_train_drop_the_packed_copy(layer, change) -> None:
    _, packed = pair(layer)
    change(packed)
    assert not packed.weights_packed and packed._packed_weights is None
    with torch.no_grad():
        packed(torch.randn(4, 1, 6, dtype=packed.weight_ih_l0.dtype))
    assert packed.eval().pack_weights().eval().weights_packed


@layers
def test_copies_start_unpacked(layer) -> None:
    _, packed = pair(layer)
    x = torch.randn(4, 1, 6)
    for made in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed)), copy.copy(packed)):
        assert not made.weights_packed
        with torch.no_grad():
            assert_identical(made(x), packed(x))
    assert packed.weights_packed
    assert list(packed.state_dict()) == list(layer(6, 9).state_dict())


@layers
def test_a_write_through_data_is_not_seen(layer) -> None:
    """Documented: PyTorch does not count it."""
    _, packed = pair(layer)
    x = torch.randn(4, 1, 6)
    with torch.no_grad():
        before = packed(x)
        packed.weight_hh_l0.data.add_(0.5)
        assert packed.weights_packed
        assert_identical(packed(x), before)
        assert not torch.equal(packed.pack_weights()(x)[0], before[0])


@layers
def test_threads_share_a_packed_module(layer) -> None:
    module, packed = pair(layer, 20, 40)
    inputs = [torch.randn(3, 1, 20) for _ in range(64)]

    def run(x: Tensor):
        with torch.inference_mode():
            return [packed(x) for _ in range(20)]

    with torch.no_grad(), ThreadPoolExecutor(4) as pool:
        for x, results in zip(inputs, pool.map(run, inputs), strict=True):
            for result in results:
                assert_identical(result, module(x))


@layers
def test_results_are_separate_tensors(layer) -> None:
    _, packed = pair(layer)
    with torch.no_grad():
        results = flat(packed(torch.randn(1, 1, 6)))
    assert len({each.data_ptr() for each in results}) == len(results)


@layers
def test_autocast_and_functional_call(layer) -> None:
    module, packed = pair(layer)
    x = torch.randn(4, 2, 6)
    with torch.no_grad():
        with torch.autocast("cpu"):
            assert_identical(packed(x), module(x))
        other = {name: value + 0.1 for name, value in module.state_dict().items()}
        expected = torch.func.functional_call(module, other, x)
        assert_identical(torch.func.functional_call(packed, other, x), expected)


def test_errors() -> None:
    with pytest.raises(ValueError, match="proj_size 4"):
        LSTM(6, 9, proj_size=4).pack_weights()
    with pytest.raises(ValueError, match=r"weight_ih_l0 can't be packed: .* float32 or float64"):
        LSTM(6, 9, dtype=torch.bfloat16).pack_weights()
    with pytest.raises(ValueError, match="weight_hh_l0 can't be packed"):
        nn.utils.parametrizations.orthogonal(GRU(6, 9), "weight_hh_l0").pack_weights()
    with torch.inference_mode():
        module = GRU(6, 9)
    with pytest.raises(ValueError, match="inference tensor"):
        module.pack_weights()
