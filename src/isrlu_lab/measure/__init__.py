"""Benchmarks of every framework, and the exhaustive measurement of accuracy."""
