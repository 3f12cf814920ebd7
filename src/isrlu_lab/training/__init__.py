"""Grids of training runs: specifications, workers, checkpoints, and the store of what is done."""
