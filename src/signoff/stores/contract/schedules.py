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
        """Create a schedule, or replace the one with this id.

        A paused schedule stays paused. ``next_at`` is replaced only if the cron expression or the time zone changes.
        """

    @reads
    async def get_schedule(self, schedule_id: str) -> Schedule:
        """Raises NotFound."""

    @reads
    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        """List schedules by id. ``after`` is the ``next`` of the previous page."""

    @writes(lane="schedule")
    async def pause_schedule(self, schedule_id: str) -> Schedule:
        """Pause a schedule: it is not due until it is resumed. Raises NotFound."""

    @writes(lane="schedule")
    async def resume_schedule(self, schedule_id: str, next_at: float) -> Schedule:
        """Resume a paused schedule, due at ``next_at``. One that is not paused stays as it is. Raises NotFound."""

    @writes(lane="schedule")
    async def delete_schedule(self, schedule_id: str) -> None:
        """Raises NotFound."""

    @reads
    async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        """Return the due schedules of all namespaces, and the earliest ``next_at`` of any schedule, or None.

        Only their ids: records would grow with their arguments, and one unreadable record would hide the others.
        """

    @writes(lane="schedule")
    async def fire_schedule(
        self, schedule_id: str, expected: float, runs: Sequence[NewRun], next_at: float
    ) -> bool:
        """Advance a schedule from ``next_at == expected`` and create its runs, in one transaction.

        A run whose id exists is not created. Listeners are notified that something may be due.

        Returns:
            Whether this call advanced it. False, without effect, if its ``next_at`` differs, or it is paused or
            deleted.
        """
