from __future__ import annotations

from tests.places import new_store

__all__ = ["new_store"]
