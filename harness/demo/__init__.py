"""Synthetic data for the demo, for tests, and for benchmarks. All names are invented."""
