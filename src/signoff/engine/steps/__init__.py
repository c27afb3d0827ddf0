"""Steps: how their functions are called, tried again, and kept apart from the worker."""
