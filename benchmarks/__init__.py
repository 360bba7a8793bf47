"""Measurements, run with ``python -m benchmarks``; the table is written to ``benchmarks/RESULTS.md``."""
