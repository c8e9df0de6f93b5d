"""Benchmarks of this package and a peer in one run; results as ratios. See ``python -m benchmarks``."""
