"""How fast Signoff is, beside what the machine itself can do. ``python -m benchmarks --help``."""
