"""How runs are executed: the deterministic loop, replay, steps, and the worker that holds leases."""
