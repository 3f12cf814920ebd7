"""The paper's MNIST experiments: two networks, how a run trains one, and the tables made from runs."""
