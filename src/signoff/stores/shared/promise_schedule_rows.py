"""Schedules of promises as rows, for all SQL stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from signoff.records.paging import Page
from signoff.records.promise_schedules import PromiseSchedule

COLUMNS: Final = "namespace, id, cron, data, next_at, created_at, last_at"


def to_promise_schedule(row: Sequence[Any]) -> PromiseSchedule:
    """Return the schedule in ``COLUMNS``."""
    namespace, id, cron, data, next_at, created_at, last_at = row
    last = None if last_at is None else float(last_at)
    return PromiseSchedule(namespace, id, cron, data, float(next_at), float(created_at), last)


def to_page(rows: Sequence[Sequence[Any]], limit: int) -> Page[PromiseSchedule]:
    """Return the page of the first rows, of which there is at most one more than its limit."""
    items = tuple(to_promise_schedule(row) for row in rows[:limit])
    return Page(items, items[-1].id if len(rows) > limit else None)
