"""The store contract: one protocol per noun, and the validation that all stores share."""
