"""Benchmarks of analytics."""
