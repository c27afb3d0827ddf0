"""Schedules: workflows that start at the times of a cron expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class CatchUp(StrEnum):
    """Which missed times of a schedule start a run later."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A schedule to be created."""

    id: str
    workflow: str
    group: str
    arguments: str  # JSON {"args": [...], "kwargs": {...}}
    cron: str
    timezone: str
    catch_up: CatchUp = CatchUp.LATEST
    next_at: float = 0.0  # the first time
    priority: int = 0
    concurrency_key: str | None = None
    concurrency_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A workflow that starts at the times of a cron expression."""

    namespace: str
    id: str
    workflow: str
    group: str
    arguments: str  # JSON; empty if left out
    cron: str
    timezone: str
    catch_up: CatchUp
    next_at: float
    priority: int = 0
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    created_at: float = 0.0
    is_paused: bool = False
    last_at: float | None = None  # when it last started a run
    last_run_id: str | None = None
    # Sizes in bytes of the fields that a list omits because they are too large. get_schedule returns them.
    left_out: Mapping[str, int] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Due:
    """Reference to a schedule or a question that is due. Its record is read separately."""

    namespace: str
    id: str
    at: float  # in unix seconds
