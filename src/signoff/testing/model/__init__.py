"""The reference model of the store contract."""
