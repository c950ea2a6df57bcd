"""Benchmarks: `python -m tests.bench.<name>`."""
