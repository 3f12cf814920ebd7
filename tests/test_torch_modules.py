"""The modules: what they show, learn, store, and how they live in worker processes and under DDP."""

import copy
import io
import pickle
import tempfile
from pathlib import Path

import ddp_program
import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import isrlu.torch as it

MODULES = {
    "ISRLU(alpha=1.0)": lambda: it.ISRLU(),
    "ISRLU(alpha=3.0, inplace=True, method=approx)": lambda: it.ISRLU(3, inplace=True, method="approx"),
    "ISRLU(alpha=0.5, learnable=True, num_parameters=4)": lambda: it.ISRLU(0.5, learnable=True, num_parameters=4),
    "ISRU(alpha=2.0)": lambda: it.ISRU(2.0),
    "ISRU(alpha=2, learnable=True, num_parameters=1)": lambda: it.ISRU(2.0, learnable=True),
    "ISRUSigmoid()": lambda: it.ISRUSigmoid(),
    "SISRLU(alpha=0.70832)": lambda: it.SISRLU(),
    "SISRLU(alpha=1.0, inplace=True, method=approx)": lambda: it.SISRLU(1, inplace=True, method="approx"),
    "ISRUSigmoid(inplace=True, method=kinney)": lambda: it.ISRUSigmoid(inplace=True, method="kinney"),
}


def batch() -> Tensor:
    return torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0)) * 2


@pytest.mark.parametrize("text", MODULES)
def test_repr(text: str) -> None:
    assert repr(MODULES[text]()) == text


def test_repr_of_a_small_dtype_shows_the_alpha_that_is_used() -> None:
    module = it.ISRLU(1e5, learnable=True, dtype=torch.float16)  # which float16 itself can't hold
    assert f"alpha={module.alpha.item():.4g}," in repr(module) and "inf" not in repr(module)


@pytest.mark.parametrize("text", MODULES)
def test_copies_compute_the_same(text: str) -> None:
    module = MODULES[text]()
    stored = io.BytesIO()
    torch.save(module, stored)
    stored.seek(0)
    loaded = MODULES[text]()
    loaded.load_state_dict(module.state_dict())
    others = [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), torch.load(stored, weights_only=False), loaded]
    for other in others:
        assert repr(other) == text
        torch.testing.assert_close(other(batch()), module(batch()), rtol=0, atol=0)


def test_module_is_the_function() -> None:
    torch.testing.assert_close(it.ISRLU(3.0)(batch()), it.isrlu(batch(), 3.0), rtol=0, atol=0)
    torch.testing.assert_close(it.ISRU(3.0)(batch()), it.isru(batch(), 3.0), rtol=0, atol=0)
    torch.testing.assert_close(it.ISRUSigmoid()(batch()), it.isru_sigmoid(batch()), rtol=0, atol=0)


def test_alpha_can_be_set() -> None:
    for module in (it.ISRLU(), it.ISRLU(learnable=True, num_parameters=4)):
        module.alpha = 3.0
        torch.testing.assert_close(module(batch()), it.isrlu(batch(), 3.0))
        with pytest.raises(ValueError, match="alpha must be a finite number >= 0, got -3"):
            module.alpha = -3


def test_parameters_are_reset_to_the_alpha_that_was_given() -> None:
    with torch.device("meta"):
        module = it.ISRLU(3.0, learnable=True, num_parameters=np.int64(4))
    module.to_empty(device="cpu").reset_parameters()
    torch.testing.assert_close(module.alpha.detach(), torch.full((4,), 3.0))


def test_fixed_alpha_is_no_parameter() -> None:
    assert list(it.ISRLU().parameters()) == [] and it.ISRLU().state_dict() == {}


def test_learnable_alpha() -> None:
    module = it.ISRLU(0.25, learnable=True, num_parameters=4, device="cpu", dtype=torch.float64)
    (parameter,) = module.parameters()
    assert parameter.dim() == 1 and parameter.dtype == torch.float64 and list(module.state_dict()) == ["log_alpha"]
    torch.testing.assert_close(module.alpha.detach(), torch.full((4,), 0.25, dtype=torch.float64))
    with torch.no_grad():
        parameter.fill_(-100.0)
    assert (module.alpha > 0).all()
    assert it.ISRLU(learnable=True, device="meta").alpha.is_meta


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_learnable_alpha_in_small_dtypes(dtype: torch.dtype) -> None:
    module = it.ISRLU(3.0, learnable=True, num_parameters=4, dtype=dtype)
    y = module(batch().to(dtype))
    y.sum().backward()
    assert y.dtype == module.log_alpha.grad.dtype == dtype and module.alpha.dtype == torch.float32


@pytest.mark.parametrize("layer", (it.ISRLU, it.ISRU))
@pytest.mark.parametrize("inplace", (False, True))
def test_training_moves_alpha_and_lowers_the_loss(layer: type[nn.Module], inplace: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(256, 4)
    target = layer(torch.tensor(4.0).item())(x)  # what an alpha of 4 gives
    module = layer(0.5, learnable=True, num_parameters=4, inplace=inplace)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    losses = []
    for _ in range(100):
        loss = nn.functional.mse_loss(module(x + 0.0), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 1e-3 * losses[0]
    torch.testing.assert_close(module.alpha.detach(), torch.full((4,), 4.0), rtol=0.05, atol=0)


class Activated(Dataset):
    """A data set that computes in the worker."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        return it.isrlu(torch.full((70_000,), -float(index)))


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")  # torch's own, on one core
def test_data_loader_workers_that_fork() -> None:
    it.isrlu(torch.randn(1_000_000))  # the thread pool exists before the fork
    rows = torch.cat(list(DataLoader(Activated(), batch_size=2, num_workers=2, multiprocessing_context="fork")))
    x = -torch.arange(8.0)
    torch.testing.assert_close(rows[:, 0], it.isrlu(x))
    assert (rows == rows[:, :1]).all()


@pytest.mark.slow
def test_ddp_with_two_ranks_is_training_on_the_whole_batch() -> None:
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(ddp_program.train_one_rank, (folder,), nprocs=2)
        first, second = (torch.load(Path(folder) / f"{rank}.pt") for rank in (0, 1))
    model = ddp_program.network()
    ddp_program.train(model, *ddp_program.data())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(first[name], value)
        torch.testing.assert_close(second[name], value)
    assert not torch.equal(first["1.log_alpha"], torch.zeros(4))
