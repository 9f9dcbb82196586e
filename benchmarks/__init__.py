"""Benchmarks against the peers: `python -m benchmarks.NAME` from the root of the repository."""
