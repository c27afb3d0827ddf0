"""Payloads in lists, for all stores: small ones are included, large ones are replaced by their size.

A page has two limits. A payload of more than ``LISTED_BYTES`` is left out if a single read returns it; the record says
so in ``left_out``. And a page ends once it has ``PAGE_BYTES`` of payloads, with a ``next``. So a page has at least one
item, and never much more than ``PAGE_BYTES``, whatever its ``limit`` is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from signoff.records import (
    AuditEvent,
    Entry,
    LiveText,
    Message,
    Promise,
    PromiseKind,
    Rule,
    Run,
    Schedule,
    Token,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery
from signoff.records.invocations import InvocationNode
from signoff.records.paging import Page

LISTED_BYTES: Final = 64 * 1024
"""Limit of one payload in a list, in UTF-8."""

PAGE_BYTES: Final = 4 * 1024 * 1024
"""Limit of all payloads of a page before its last item, in UTF-8."""

CLAIMED_BYTES: Final = 1024 * 1024
"""Limit of payloads at which a server stops claiming runs for one request."""

_COUNTED: Final[Mapping[type, tuple[str, ...]]] = {
    Run: ("arguments", "result", "error", "suspended_reason"),
    Promise: ("data", "value", "note", "assignees", "progress"),
    Schedule: ("arguments",),
    Entry: ("name", "value", "error", "details"),
    AuditEvent: ("details",),
    Rule: ("arguments",),
    Token: ("data",),
    WorkflowInfo: ("description", "parameters"),
    Delivery: ("error",),
    Message: ("value", "error", "note"),
    LiveText: ("text",),
}
"""The fields of each record that can be large."""

LEFT_OUT: Final[Mapping[type, tuple[str, ...]]] = {
    Run: ("arguments", "result", "error"),
    Promise: ("data", "value"),
    Schedule: ("arguments",),
}
"""The fields that lists leave out if they are large. Lists leave out nothing of questions."""

_IS_LEFT_OUT: Final[Mapping[type, str]] = {Promise: f"kind = '{PromiseKind.PROMISE}' AND "}
"""The SQL condition on rows that fields are left out of."""

T = TypeVar("T")
Size = Callable[[str], str]


def size_in_sqlite(column: str) -> str:
    """Return the SQL of a text's size in bytes, in SQLite."""
    if sqlite3.sqlite_version_info >= (3, 43):
        return f"octet_length({column})"  # without reading it
    return f"length(CAST({column} AS BLOB))"


def size_in_postgres(column: str) -> str:
    """Return the SQL of a text's size in bytes, in Postgres, without reading the text."""
    return f"octet_length({column})"


def size_of_list(size: Size) -> Size:
    """Return the same for tables in which ``assignees`` is an array."""
    return lambda column: size("assignees::text" if column == "assignees" else column)


class Listing:
    """The SQL and the reader for one kind of record in lists.

    Args:
        kind: The record's class.
        columns: Its columns, in the order of its fields.
        size: The SQL of a column's size in bytes.
        stored: The SQL that reads a column; by default its name.

    Attributes:
        columns: The columns to select: those of the record, the sizes of left-out fields, and the row's size.
        width: Number of selected columns.
    """

    def __init__(self, kind: type, columns: str, size: Size, stored: Size = str) -> None:
        self._kind = kind
        names = [each.strip() for each in columns.split(",")]
        left_out = LEFT_OUT.get(kind, ())
        condition = _IS_LEFT_OUT.get(kind, "")
        self._own = len(names)
        self._left_out = left_out

        def is_large(column: str) -> str:
            return f"{condition}{size(column)} > {LISTED_BYTES}"

        def listed(column: str) -> str:
            bare = column.rpartition(".")[2]
            return (
                f"CASE WHEN {is_large(column)} THEN NULL ELSE {stored(column)} END AS {bare}"
                if column in left_out
                else column
            )

        def counted(column: str) -> str:
            taken = f"coalesce({size(column)}, 0)"
            return f"CASE WHEN {is_large(column)} THEN 0 ELSE {taken} END" if column in left_out else taken

        sizes = [
            f"CASE WHEN {is_large(column)} THEN {size(column)} END AS {column}_bytes" for column in left_out
        ]
        of_row = [counted(name) for name in names if name.rpartition(".")[2].strip('"') in _COUNTED[kind]]
        self.columns = ", ".join([*map(listed, names), *sizes, f"{' + '.join(of_row)} AS bytes"])
        self.width = self._own + len(sizes) + 1

    def read(self, row: Sequence[Any], to_record: Callable[[Any], T]) -> T:
        """Return the record in a row that begins with ``columns``."""
        record = to_record(tuple(row[: self._own]))
        sizes = row[self._own : self.width - 1]
        return with_left_out(record, dict(zip(self._left_out, sizes, strict=True)))

    def page(self, rows: Sequence[Any], more: bool, to_record: Callable[[Any], T]) -> Page[T]:
        """Return the page of rows that end with their place in the list."""
        items = tuple(self.read(row, to_record) for row in rows)
        return Page(items, str(rows[-1][-1]) if more and rows else None)

    def bytes_of(self, row: Sequence[Any]) -> int:
        """Return the payload bytes of a row."""
        return row[self.width - 1] or 0  # None for an empty row of an outer join


def with_left_out(record: T, sizes: Mapping[str, int | None]) -> T:
    """Return the record with the sizes of its left-out fields."""
    large = {name: size for name, size in sizes.items() if size is not None}
    if not large:
        return record
    arguments = {"arguments": ""} if "arguments" in large else {}
    return cast("T", replace(cast("Any", record), **arguments, left_out=large))


def read_page(
    cursor: sqlite3.Cursor, limit: int, bytes_of: Callable[[Sequence[Any]], int]
) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the rows of a page, read one by one, and whether there are more."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    with closing(cursor):
        for row in cursor:
            if len(rows) >= limit or size >= PAGE_BYTES:
                return rows, True
            rows.append(row)
            size += bytes_of(row)
    return rows, False


def within_page(statement: str, order: str) -> str:
    """Return a Postgres statement that selects the rows of another one that fit on a page, in the given order.

    The inner statement selects ``bytes``. Each row ends with the number of rows that the inner statement selected.
    """
    return f"""
    SELECT paged.* FROM (
        SELECT listed.*, count(*) OVER () AS selected,
            coalesce(sum(listed.bytes) OVER (ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
                AS bytes_before
        FROM ({statement}) AS listed
    ) AS paged
    WHERE bytes_before < {PAGE_BYTES}
    ORDER BY {order}
    """


def cut(rows: Sequence[tuple[Any, ...]], limit: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the rows of a page without the counts added by ``within_page``, and whether there are more."""
    more = bool(rows) and min(limit, len(rows)) < rows[0][-2]
    return [row[:-2] for row in rows[:limit]], more


def listed(record: T) -> T:
    """Return a record as it appears in lists."""
    if isinstance(record, InvocationNode):
        return cast("T", replace(record, promise=listed(record.promise)))
    names = LEFT_OUT.get(cast("type", type(record)), ())
    if isinstance(record, Promise) and record.kind is PromiseKind.QUESTION:
        return record
    sizes = {name: len(getattr(record, name).encode()) for name in names if getattr(record, name) is not None}
    large = {name: size for name, size in sizes.items() if size > LISTED_BYTES}
    gone: dict[str, Any] = {name: None for name in large if name != "arguments"}
    return with_left_out(cast("T", replace(cast("Any", record), **gone)) if gone else record, large)


def bytes_of(record: object) -> int:
    """Return the payload bytes of a record, or of several records."""
    kind = type(record)
    if kind is list or kind is tuple:
        size = 0
        for each in cast("Sequence[object]", record):
            size += bytes_of(each)
        return size
    names = _COUNTED.get(kind)
    if names is None:
        return bytes_of(record.promise) if isinstance(record, InvocationNode) else 0
    size = 0
    for name in names:
        part: object = getattr(record, name)
        if part:
            text = str(part)
            size += len(text) if text.isascii() else len(text.encode())
    return size


def may_be_cut(items: Sequence[object], limit: int | None = None, *, at: int = PAGE_BYTES) -> bool:
    """Whether there may be more items than these, judging by their number and size.

    The page may have been measured encrypted, which is longer, so a quarter of ``at`` counts as full.

    Args:
        items: The items of a page that does not say whether there are more.
        limit: The requested number.
        at: Size in bytes at which the page ends.
    """
    return len(items) == limit or bytes_of(items) >= at // 4


def first_of(items: Iterable[T], limit: int | None = None, size: int = 0) -> tuple[list[T], bool]:
    """Return the items that fit on a page that already has ``size`` bytes, and whether there are more."""
    found: list[T] = []
    for item in items:
        if len(found) == limit or size >= PAGE_BYTES:
            return found, True
        found.append(item)
        size += bytes_of(item)
    return found, False


def seen_of(found: Sequence[tuple[Message, int]]) -> list[tuple[Message, int]]:
    """Return the messages of a full page. The last run's counter is lowered to show that more may follow."""
    last = found[-1][0].run_id
    return [(message, wakes - 1 if message.run_id == last else wakes) for message, wakes in found]
