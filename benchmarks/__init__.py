"""Signoff's speed, compared with the machine's own. ``python -m benchmarks --help``."""
