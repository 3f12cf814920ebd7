"""The paper's two MNIST networks, and how a run trains one."""
