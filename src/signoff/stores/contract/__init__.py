"""The contract of a store: one protocol for each noun, and the checks that all stores share."""
