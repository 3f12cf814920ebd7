"""A small digit classifier in Flax nnx with ISRLU and one learned alpha per feature.

    python examples/flax_classifier.py        # about 10 s on 2 cores; test accuracy about 0.97

Needs: pip install -c constraints.txt '.[jax]' scikit-learn
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from isrlu.flax import ISRLU

EPOCHS, BATCH = 40, 64


@nnx.jit
def train_step(model: nnx.Module, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array) -> None:
    def loss(model: nnx.Module) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    optimizer.update(model, nnx.grad(loss)(model))


def main() -> float:
    images, labels = load_digits(return_X_y=True)
    images = images.astype("float32") / 16
    x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=0.2, random_state=0)

    rngs = nnx.Rngs(0)
    model = nnx.Sequential(
        nnx.Linear(64, 64, rngs=rngs),
        ISRLU(learnable=True, num_parameters=64),
        nnx.Linear(64, 32, rngs=rngs),
        ISRLU(alpha=3.0),
        nnx.Linear(32, 10, rngs=rngs),
    )
    optimizer = nnx.Optimizer(model, optax.adam(2e-3), wrt=nnx.Param)
    shuffle = np.random.default_rng(0)
    for _ in range(EPOCHS):
        # Full batches only, so that train_step is compiled once.
        order = shuffle.permutation(len(x_train))[: len(x_train) // BATCH * BATCH]
        for rows in order.reshape(-1, BATCH):
            train_step(model, optimizer, x_train[rows], y_train[rows])
    accuracy = float(jnp.mean(model(x_test).argmax(1) == y_test))
    print(f"learned alphas: {model.layers[1].alpha.min():.2f} to {model.layers[1].alpha.max():.2f}")
    print(f"test accuracy: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
