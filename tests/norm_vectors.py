"""Evaluate the test vectors of dyisru in PyTorch: y and its derivatives, each element on its own."""

from collections.abc import Callable

import numpy as np
import torch

from isrlu.testing import NormVectors

QUANTITIES = ("y", "dx", "dweight", "dalpha", "dshift")


def groups(vectors: NormVectors) -> list[tuple[np.ndarray, list[float]]]:
    """(mask, [weight, bias, alpha, shift]) for each set of parameters."""
    rows = np.stack([vectors.weight, vectors.bias, vectors.alpha, vectors.shift], 1)
    return [((rows == row).all(1), [float(each) for each in row]) for row in np.unique(rows, axis=0)]


def by_torch(function: Callable[..., torch.Tensor], vectors: NormVectors) -> dict[str, np.ndarray]:
    """The results of `function`, a dyisru. Each x is a channel, so weight and bias get one gradient for each."""
    dtype = getattr(torch, vectors.dtype)
    found = {name: np.full(vectors.x.shape, np.nan) for name in QUANTITIES}
    for mask, (weight, bias, alpha, shift) in groups(vectors):
        x = torch.tensor(vectors.x[mask]).to(dtype).requires_grad_()
        w = torch.full_like(x, weight).detach().requires_grad_()
        b = torch.full_like(x, bias).detach().requires_grad_()
        a, s = (torch.tensor(each, dtype=torch.float64).to(dtype).requires_grad_() for each in (alpha, shift))
        y = function(x, w, b, a, s)
        found["y"][mask] = y.detach().double().numpy()
        for name, grad in zip(("dx", "dweight"), torch.autograd.grad(y.sum(), (x, w)), strict=True):
            found[name][mask] = grad.double().numpy()
        one = [
            torch.autograd.grad(function(x[i : i + 1], w[i : i + 1], b[i : i + 1], a, s).sum(), (a, s))
            for i in range(len(x))
        ]
        for name, grads in zip(("dalpha", "dshift"), zip(*one, strict=True), strict=True):
            found[name][mask] = [float(grad) for grad in grads]
    return found
