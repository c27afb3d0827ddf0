"""Routes of schedules."""

from __future__ import annotations

import contextlib
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from signoff import codec
from signoff.errors import NotFound, NotSerializable
from signoff.records import CatchUp, NewSchedule, Schedule
from signoff.records.start_options import HIGHEST_PRIORITY, LOWEST_PRIORITY, check_id
from signoff.server.auth.actors import Actor, ActorOf
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import Body, ExactRoute, Text
from signoff.server.http.responses import After, Limit, reply, reply_page, reply_with
from signoff.server.openapi.declared_responses import gives, gives_page
from signoff.server.openapi.examples import example
from signoff.server.services import Services, ServicesOf
from signoff.stores.contract.validation import HIGHEST_LIMIT
from signoff.workflow.concurrency import LONGEST_KEY, named_slot, slot_of

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], route_class=ExactRoute)


class PutSchedule(
    Body,
    json_schema_extra=example(id="nightly", workflow="refund", cron="0 3 * * *", timezone="Europe/Vienna"),
):
    """A schedule to create or change."""

    id: Text
    workflow: Text = Field(min_length=1)
    args: list[Any] = Field(default_factory=list[Any])
    kwargs: dict[str, Any] = Field(default_factory=dict[str, Any])
    cron: Text
    timezone: Text = "UTC"
    catch_up: CatchUp = Field(default=CatchUp.LATEST, strict=False)
    group: Text | None = None
    priority: int = Field(default=0, ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY)
    concurrency_key: Text | None = Field(default=None, max_length=LONGEST_KEY)
    concurrency_limit: int | None = Field(default=None, ge=1, le=HIGHEST_LIMIT)

    def new_schedule(self, services: Services, actor: Actor) -> NewSchedule:
        """Return the record for the store."""
        arguments = codec.encode_arguments(None, self.args, self.kwargs)
        named = named_slot(self.concurrency_key, self.concurrency_limit)
        key, limit = named or slot_of(services.function(self.workflow), arguments)
        group = services.group if self.group is None else self.group
        actor.check_start(group)
        return NewSchedule(
            check_id(self.id),
            self.workflow,
            group,
            arguments,
            self.cron,
            self.timezone,
            self.catch_up,
            priority=self.priority,
            concurrency_key=key,
            concurrency_limit=limit,
        )


class Deleted(BaseModel, json_schema_extra=example()):
    """An empty object."""


@router.post("", responses=gives(Schedule, NotSerializable))
async def put_schedule(body: PutSchedule, services: ServicesOf, actor: ActorOf) -> Response:
    """Create a schedule, or change the existing one with this id."""
    new = body.new_schedule(services, actor)
    with contextlib.suppress(NotFound):
        await _check(new.id, services, actor)
    return reply_with(await services.backend.put_schedule(new))


@router.get("", responses=gives_page(Schedule))
async def list_schedules(services: ServicesOf, after: After = None, limit: Limit = 100) -> Response:
    """List schedules, by id."""
    page = await services.backend.list_schedules(after=after, limit=limit)
    return reply_page(page)


@router.get("/{schedule_id}", responses=gives(Schedule, NotFound))
async def get_schedule(schedule_id: Id, services: ServicesOf) -> Response:
    """Show a schedule."""
    return reply_with(await services.backend.get_schedule(schedule_id))


@router.post("/{schedule_id}/pause", responses=gives(Schedule, NotFound))
async def pause_schedule(schedule_id: Id, services: ServicesOf, actor: ActorOf) -> Response:
    """Pause a schedule: it starts no more runs."""
    await _check(schedule_id, services, actor)
    return reply_with(await services.backend.pause_schedule(schedule_id))


@router.post("/{schedule_id}/resume", responses=gives(Schedule, NotFound))
async def resume_schedule(schedule_id: Id, services: ServicesOf, actor: ActorOf) -> Response:
    """Resume a paused schedule at its next time."""
    await _check(schedule_id, services, actor)
    return reply_with(await services.backend.resume_schedule(schedule_id))


@router.post("/{schedule_id}/delete", responses=gives(Deleted, NotFound))
async def delete_schedule(schedule_id: Id, services: ServicesOf, actor: ActorOf) -> Response:
    """Delete a schedule. Its runs stay."""
    await _check(schedule_id, services, actor)
    await services.backend.delete_schedule(schedule_id)
    return reply({})


async def _check(schedule_id: str, services: Services, actor: Actor) -> None:
    """Raise AccessDenied if the actor may not start runs in the schedule's group, or NotFound."""
    if actor.is_for_groups:
        actor.check_schedule(await services.backend.get_schedule(schedule_id))
