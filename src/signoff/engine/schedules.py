"""Starting the runs of schedules at their times. Any number of processes may do it: each time fires once."""

from __future__ import annotations

from collections.abc import Sequence

from signoff import telemetry
from signoff.engine import cron
from signoff.errors import InvalidValue
from signoff.own_logs import own_logger
from signoff.records import CatchUp, NewRun, Schedule
from signoff.stores.base import Store
from signoff.telemetry import DeadlineServed

log = own_logger("signoff.schedules")

AT_ONCE = 100
ON_TIME_SECONDS = 60.0
"""How late a time may be noticed that is not counted as missed."""
CATCH_UP_AT_MOST = 100
"""How many missed times are made up for, the latest ones."""


async def fire_due(store: Store) -> float | None:
    """Start the runs of all schedules whose time has come, in every namespace.

    Returns:
        When the next schedule is due, in unix seconds; None if there is none. One that could not be fired because this
        process does not know its time zone is left to others, and looked at again later.
    """
    while True:
        due, next_at = await store.due_schedules(AT_ONCE)
        if not due:
            return next_at
        fired = [await _fire(store, schedule) for schedule in due]
        if not all(fired):
            return None


async def _fire(store: Store, schedule: Schedule) -> bool:
    now = store.clock.now()
    try:
        times = times_to_fire(schedule, now)
        next_at = cron.next_time(schedule.cron, schedule.timezone, now)
    except InvalidValue as error:
        log.error(
            "schedule %s of namespace %s cannot be fired here: %s", schedule.id, schedule.namespace, error
        )
        return False
    runs = [_run(schedule, time) for time in times]
    within = store.within(schedule.namespace)
    fired = await within.fire_schedule(schedule.id, schedule.next_at, runs, next_at)
    if fired and telemetry.subscribers:
        telemetry.announce(DeadlineServed(None, "schedule", max(0.0, now - schedule.next_at)))
    return True


def times_to_fire(schedule: Schedule, now: float) -> Sequence[float]:
    """Return the times for which runs are started, as the schedule's catch-up policy says."""
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
