"""Reads lists with unreadable rows: these do not block the others."""

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
    """Read records from rows whose first two columns are a namespace and an id."""
    return [_read(row, make) for row in rows]


def _read(row: Sequence[Any], make: Callable[[Any], T]) -> T | Unreadable:
    try:
        return make(row)
    except Exception as error:
        return Unreadable(str(row[0]), str(row[1]), f"its row is damaged: {text_of(error)}")


def readable(rows: Iterable[R], make: Callable[[R], T], what: Callable[[R], str]) -> Iterator[T]:
    """Read records from rows. Skips and logs unreadable ones.

    Args:
        rows: The rows.
        make: Reads one record.
        what: Names a row, such as ``message 3 of run r``.
    """
    for row in rows:
        try:
            made = make(row)
        except Exception as error:
            log.error("%s is skipped, because its row is damaged: %s", what(row), error)
        else:
            yield made
