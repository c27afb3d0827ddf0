"""Lists with rows that cannot be read: these keep no other row from being read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from signoff.records.failed_items import Unreadable
from signoff.runtime.loggers import own_logger
from signoff.stores.shared.failure_texts import text_of

T = TypeVar("T")
R = TypeVar("R")

log = own_logger("signoff.stores")


def read_each(rows: Iterable[Sequence[Any]], make: Callable[[Any], T]) -> list[T | Unreadable]:
    """Make records of rows whose first two columns are a namespace and an id."""
    return [_read(row, make) for row in rows]


def _read(row: Sequence[Any], make: Callable[[Any], T]) -> T | Unreadable:
    try:
        return make(row)
    except Exception as error:
        return Unreadable(str(row[0]), str(row[1]), f"its row is damaged: {text_of(error)}")


def readable(rows: Iterable[R], make: Callable[[R], T], what: Callable[[R], str]) -> Iterator[T]:
    """Make records of rows, and leave out those that cannot be read; the log names them.

    Args:
        rows: The rows.
        make: Makes a record of one.
        what: Names one, such as ``message 3 of run r``.
    """
    for row in rows:
        try:
            made = make(row)
        except Exception as error:
            log.error("%s is left out, its row is damaged: %s", what(row), error)
        else:
            yield made
