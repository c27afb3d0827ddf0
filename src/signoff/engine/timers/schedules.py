"""Starts the runs of schedules at their times. Any number of processes may do it: each time fires once."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from signoff.engine.timers import cron
from signoff.errors import NotFound
from signoff.observability import events
from signoff.observability.events import DeadlineServed
from signoff.records import CatchUp, Due, NewRun, Schedule
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import FailedItems

log = own_logger("signoff.schedules")

AT_ONCE = 100
ON_TIME_SECONDS = 60.0
"""A time noticed later than this counts as missed."""
CATCH_UP_AT_MOST = 100
"""The maximum number of missed times to catch up on; the latest ones count."""


async def fire_due(store: Store, aside: FailedItems | None = None) -> float | None:
    """Start the runs of all due schedules, in every namespace.

    Args:
        store: The store.
        aside: The schedules that failed before; None for none.

    Returns:
        When the next schedule is due, in Unix seconds. None if there is none, or if some failed: these are retried
        later, and other processes, which may know their time zones, can start them.
    """
    aside = new_failed_items() if aside is None else aside
    return await aside.serve_due(store, store.due_schedules, functools.partial(_fire, store), at_once=AT_ONCE)


def new_failed_items() -> FailedItems:
    """Create the record of failed schedules."""
    return FailedItems("schedule", log)


async def _fire(store: Store, due: Due) -> bool:
    within = store.within(due.namespace)
    try:
        schedule = await within.get_schedule(due.id)
    except NotFound:
        return True  # it was deleted in the meantime
    if schedule.next_at != due.at:
        return True  # it was fired in the meantime
    now = store.clock.now()
    times = times_to_fire(schedule, now)
    next_at = cron.next_time(schedule.cron, schedule.timezone, now)
    runs = [_run(schedule, time) for time in times]
    fired = await within.fire_schedule(schedule.id, schedule.next_at, runs, next_at)
    if fired and events.subscribers:
        events.announce(DeadlineServed(None, "schedule", max(0.0, now - schedule.next_at)))
    return True


def times_to_fire(schedule: Schedule, now: float) -> Sequence[float]:
    """Return the times for which to start runs, by the schedule's catch-up policy."""
    limit = CATCH_UP_AT_MOST if schedule.catch_up is CatchUp.ALL else 1
    times = cron.latest_times(schedule.cron, schedule.timezone, schedule.next_at, now, limit)
    if schedule.catch_up is CatchUp.SKIP:
        return [time for time in times if now - time <= ON_TIME_SECONDS]
    return times


def _run(schedule: Schedule, time: float) -> NewRun:
    return NewRun(
        id=f"{schedule.id}:{cron.local_text(time, schedule.timezone)}",
        workflow=schedule.workflow,
        group=schedule.group,
        arguments=schedule.arguments,
        priority=schedule.priority,
        concurrency_key=schedule.concurrency_key,
        concurrency_limit=schedule.concurrency_limit,
    )
