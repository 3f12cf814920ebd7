"""The experiments on MNIST: the paper's tables 4 and 5, and two that extend them."""
