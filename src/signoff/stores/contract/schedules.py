"""The operations on schedules. ``engine/timers/schedules.py`` computes when they fire."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence

from signoff.records import Due, NewRun, NewSchedule, Schedule
from signoff.records.paging import Page
from signoff.stores.contract.operations import reads, writes


class ScheduleStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps schedules."""

    @writes(lane="schedule")
    async def put_schedule(self, new: NewSchedule) -> Schedule:
        """Create a schedule, or replace the one with that id.

        A paused one stays paused; ``next_at`` is only taken over if the cron expression or the time zone changed.
        """

    @reads
    async def get_schedule(self, schedule_id: str) -> Schedule:
        """Raises NotFound."""

    @reads
    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        """By id. ``after`` is an earlier page's ``next``."""

    @writes(lane="schedule")
    async def pause_schedule(self, schedule_id: str) -> Schedule:
        """Stop a schedule from being due. Raises NotFound."""

    @writes(lane="schedule")
    async def resume_schedule(self, schedule_id: str, next_at: float) -> Schedule:
        """Make a paused schedule due at ``next_at``; one that is not paused stays as it is. Raises NotFound."""

    @writes(lane="schedule")
    async def delete_schedule(self, schedule_id: str) -> None:
        """Raises NotFound."""

    @reads
    async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        """Return schedules of all namespaces whose ``next_at`` has passed, and the earliest ``next_at`` of any, if any.

        Only their ids: a list of records would grow with their arguments, and one unreadable record would hide the
        others.
        """

    @writes(lane="schedule")
    async def fire_schedule(
        self, schedule_id: str, expected: float, runs: Sequence[NewRun], next_at: float
    ) -> bool:
        """Advance a schedule from ``next_at == expected``, and create runs, in one transaction.

        A run whose id is taken is not created. Listeners are notified that something may be due.

        Returns:
            Whether this call advanced it: False, with nothing changed, if its ``next_at`` differs, or it is paused or
            deleted.
        """
