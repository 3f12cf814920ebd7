"""The 11-layer network of Clevert et al. (2015) on CIFAR-10, and how a run trains it."""
