"""The operations on schedules of the durable promise protocol. ``server/resonate`` creates their promises."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.records import Due
from signoff.records.paging import Page
from signoff.records.promise_schedules import NewPromiseSchedule, PromiseSchedule
from signoff.stores.contract.operations import reads, writes

MOST_LISTED: Final = 100
"""Maximum length of a page, whatever its ``limit``."""


class PromiseScheduleStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps schedules of promises."""

    @writes(lane="schedule")
    async def put_promise_schedule(self, new: NewPromiseSchedule) -> PromiseSchedule:
        """Create a schedule, or return the one with this id as it is."""

    @reads
    async def get_promise_schedule(self, schedule_id: str) -> PromiseSchedule:
        """Raises NotFound."""

    @reads
    async def list_promise_schedules(
        self, *, after: str | None = None, limit: int = 100
    ) -> Page[PromiseSchedule]:
        """List schedules by id. ``after`` is the ``next`` of the previous page."""

    @writes(lane="schedule")
    async def delete_promise_schedule(self, schedule_id: str) -> None:
        """Raises NotFound."""

    @reads
    async def due_promise_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        """Return the due schedules of all namespaces, and the earliest ``next_at`` of any schedule, or None."""

    @writes(lane="schedule")
    async def advance_promise_schedule(
        self, schedule_id: str, expected: float, next_at: float, last_at: float
    ) -> bool:
        """Move a schedule from ``next_at == expected`` to its next time, once its promises exist.

        Several processes may create them: their ids follow from the time, so each exists once.

        Args:
            schedule_id: The schedule.
            expected: The time at which it was due.
            next_at: Its next time.
            last_at: The last of its times that has come.

        Returns:
            Whether this call advanced it. False, without effect, if its ``next_at`` differs, or it was deleted.
        """
