"""Client operations on schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from signoff import codec
from signoff.errors import InvalidValue
from signoff.records import CatchUp, NewSchedule, Schedule
from signoff.records.paging import Page
from signoff.records.start_options import check_id, check_priority
from signoff.workflow.concurrency import slot_of
from signoff.workflow.registry import workflow_name

Workflow = Callable[..., Any] | str


class ScheduleBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def put_schedule(self, new: NewSchedule) -> Schedule: ...
    async def get_schedule(self, schedule_id: str) -> Schedule: ...
    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]: ...
    async def pause_schedule(self, schedule_id: str) -> Schedule: ...
    async def resume_schedule(self, schedule_id: str) -> Schedule: ...
    async def delete_schedule(self, schedule_id: str) -> None: ...


class AsyncSchedules:
    """Creates, reads, pauses and deletes schedules.

    Example::

        await client.schedules.put(
            "nightly", "report", "all", cron="0 9 * * *", timezone="Europe/Berlin", catch_up="latest"
        )
    """

    def __init__(
        self,
        backend: ScheduleBackend,
        group: str,
        function: Callable[[Workflow], Callable[..., Any] | None],
    ) -> None:
        self._backend = backend
        self._group = group
        self._function = function

    async def put(
        self,
        id: str,
        workflow: Workflow,
        /,
        *args: Any,
        cron: str,
        timezone: str = "UTC",
        catch_up: CatchUp | str = CatchUp.LATEST,
        group: str | None = None,
        priority: int = 0,
        **kwargs: Any,
    ) -> Schedule:
        """Create a schedule, or change the schedule with this id. A paused schedule stays paused.

        Each of its times starts one run with the id ``{id}:2026-01-01T09:00+01:00``.

        Args:
            id: Its id.
            workflow: A registered function, or a workflow's name.
            args: The arguments of each run.
            cron: Minute, hour, day, month, weekday: ``0 9 * * MON-FRI``.
            timezone: The time zone of the expression, such as ``Europe/Berlin``.
            catch_up: The treatment of times missed while no worker was up: ``latest`` starts one run for the last of
                them, ``all`` one for each of the last 100, ``skip`` none.
            group: The group whose workers run them.
            priority: As in ``start``.
            kwargs: Further arguments of each run.

        Raises:
            InvalidValue: The expression, the time zone or the arguments are not valid.
        """
        function = None if isinstance(workflow, str) else workflow
        name, known = workflow_name(workflow), self._function(workflow)
        arguments = codec.encode_arguments(function, args, kwargs, name=name, known=known)
        key, limit = slot_of(known, arguments)
        return await self._backend.put_schedule(
            NewSchedule(
                id=check_id(id),
                workflow=name,
                group=self._group if group is None else group,
                arguments=arguments,
                cron=cron,
                timezone=timezone,
                catch_up=_check_catch_up(catch_up),
                priority=check_priority(priority),
                concurrency_key=key,
                concurrency_limit=limit,
            )
        )

    async def get(self, id: str) -> Schedule:
        """Return a schedule. Raises NotFound."""
        return await self._backend.get_schedule(id)

    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        """List schedules by id; ``after`` is the ``next`` of the previous page."""
        return await self._backend.list_schedules(after=after, limit=limit)

    async def pause(self, id: str) -> Schedule:
        """Pause a schedule: it starts no more runs. Raises NotFound."""
        return await self._backend.pause_schedule(id)

    async def resume(self, id: str) -> Schedule:
        """Resume a paused schedule at its next time. Times missed while it was paused are skipped. Raises NotFound."""
        return await self._backend.resume_schedule(id)

    async def delete(self, id: str) -> None:
        """Delete a schedule. Its runs stay. Raises NotFound."""
        await self._backend.delete_schedule(id)


def _check_catch_up(policy: str) -> CatchUp:
    try:
        return CatchUp(policy)
    except ValueError:
        raise InvalidValue("catch_up", f"{policy!r} is not latest, all or skip") from None
