"""Wrappers: stores that change what goes into another store, or comes out of it."""
