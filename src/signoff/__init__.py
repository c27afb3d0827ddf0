"""Durable execution for Python with people in the loop."""

__version__ = "0.1.0"
