"""Lists in which a row that cannot be read takes its place as such, and keeps no other from being read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from signoff.failed_items import Unreadable

T = TypeVar("T")


def read_each(rows: Iterable[Sequence[Any]], make: Callable[[Any], T]) -> list[T | Unreadable]:
    """Make records of rows whose first two columns are a namespace and an id."""
    return [_read(row, make) for row in rows]


def _read(row: Sequence[Any], make: Callable[[Any], T]) -> T | Unreadable:
    try:
        return make(row)
    except Exception as error:
        return Unreadable(str(row[0]), str(row[1]), f"its row is damaged: {error}")
