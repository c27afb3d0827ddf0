"""A worker in TypeScript, and the workflow in Python that it calls."""
