"""The paper's MNIST experiments: two networks, a training run, a grid of runs, and the tables made from it."""
