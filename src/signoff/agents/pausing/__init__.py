"""Pausing a run from inside a tool."""
