"""The paper's experiments on MNIST: tables 4 and 5, and what they lead to."""
