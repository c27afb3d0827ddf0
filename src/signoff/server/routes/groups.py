"""Routes of groups."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import FiniteFloat
from starlette.responses import Response

from signoff.client.groups import check_group
from signoff.records import Group, Rate
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import Body, ExactRoute
from signoff.server.http.responses import reply, reply_with
from signoff.server.openapi.declared_responses import gives, gives_page
from signoff.server.openapi.examples import example
from signoff.server.services import Services, ServicesOf
from signoff.wire.records import to_wire

router = APIRouter(prefix="/v1/groups", tags=["groups"], route_class=ExactRoute)


class StartsPer(Body):
    """The most starts in a number of seconds."""

    count: int
    seconds: FiniteFloat


class LimitGroup(Body, json_schema_extra=example(max_running=20, starts_per={"count": 10, "seconds": 60.0})):
    """All limits of a group. A limit that is not given is removed."""

    max_running: int | None = None
    starts_per: StartsPer | None = None

    @property
    def rate(self) -> Rate | None:
        """The rate as a store record."""
        return None if self.starts_per is None else Rate(self.starts_per.count, self.starts_per.seconds)


@router.get("", responses=gives_page(Group))
async def list_groups(services: ServicesOf) -> Response:
    """List the groups that have runs, or were once paused or limited. Counts stop at 10,000."""
    found = await services.backend.list_groups()
    return reply({"items": [to_wire(group) for group in found], "next": None})


@router.post("/{name}/pause", responses=gives(Group))
async def pause_group(name: Id, services: ServicesOf) -> Response:
    """Pause a group: workers claim no more of its runs."""
    await services.backend.pause_group(check_group(name))
    return reply_with(await _group(services, name))


@router.post("/{name}/resume", responses=gives(Group))
async def resume_group(name: Id, services: ServicesOf) -> Response:
    """Resume a paused group: workers claim its runs again."""
    await services.backend.resume_group(check_group(name))
    return reply_with(await _group(services, name))


@router.post("/{name}/limit", responses=gives(Group))
async def limit_group(name: Id, body: LimitGroup, services: ServicesOf) -> Response:
    """Replace the limits of a group."""
    await services.backend.limit_group(check_group(name), max_running=body.max_running, starts_per=body.rate)
    return reply_with(await _group(services, name))


async def _group(services: Services, name: str) -> Group:
    return next(group for group in await services.backend.list_groups() if group.name == name)
