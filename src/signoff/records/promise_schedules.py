"""Schedules of the durable promise protocol: promises that are created at the times of a cron expression."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewPromiseSchedule:
    """A schedule to be created."""

    id: str
    cron: str  # in UTC
    data: str  # JSON: the promises that it creates
    next_at: float  # the first time


@dataclass(frozen=True, slots=True)
class PromiseSchedule:
    """Promises that are created at the times of a cron expression."""

    namespace: str
    id: str
    cron: str
    data: str
    next_at: float
    created_at: float
    last_at: float | None = None  # the last of its times that has come
