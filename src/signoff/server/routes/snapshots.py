"""Routes of snapshots: runs as data, to continue in another store."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from signoff.errors import NotFound, PayloadTooLarge, SnapshotRefused
from signoff.records import Run
from signoff.server.auth.actors import ActorOf
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import Body, ExactRoute, Text
from signoff.server.http.responses import reply, reply_with
from signoff.server.limits.snapshot_size import check_saved_size
from signoff.server.openapi.declared_responses import gives
from signoff.server.openapi.examples import RUN_ID, example
from signoff.server.services import ServicesOf
from signoff.server.store_api.payload_checks import check_payloads
from signoff.service.snapshots import read

router = APIRouter(tags=["snapshots"], route_class=ExactRoute)

LOAD: Final = "/v1/snapshots"
"""The path for loading snapshots."""

_SNAPSHOT: Final[dict[str, Any]] = {
    "schema": "signoff/snapshot/1",
    "saved_at": 1788770400.0,
    "runs": [{"run": {"id": RUN_ID, "workflow": "refund", "state": "paused"}}],
    "promises": [],
    "digest": "c0a8d3f7a4f1f0b7f4bb1f9f5c7a0c4b7a1d2e3f405162738495a6b7c8d9eaf0",
}


class Snapshot(BaseModel, json_schema_extra={"examples": [_SNAPSHOT]}):
    """A run with everything needed to continue it, in the format of ``POST /v1/snapshots``."""

    model_config = ConfigDict(extra="allow")


class SaveRun(Body, json_schema_extra=example(by="user:ana")):
    """The user who saves a run."""

    by: Text | None = None


class LoadSnapshot(Body, json_schema_extra=example(snapshot=_SNAPSHOT, by="user:ana")):
    """A snapshot, exactly as it was saved, and the user who loads it."""

    snapshot: dict[str, Any]
    by: Text | None = None


@router.post("/v1/runs/{run_id}/save", responses=gives(Snapshot, NotFound, SnapshotRefused))
async def save_run(run_id: Id, services: ServicesOf, actor: ActorOf, body: SaveRun | None = None) -> Response:
    """Return a run as data: the run, its journal and promises, and its open child runs. The run continues here.

    Its payloads are neither encrypted nor redacted, so a server that redacts payloads refuses. The audit trail records
    the user who saved it.
    """
    by = actor.user_id("by", (body or SaveRun()).by)
    if services.redaction.is_empty:  # otherwise ``save`` refuses
        await check_saved_size(services.store, run_id)
    return reply(await services.backend.save(run_id, by=by))


@router.post(
    LOAD,
    status_code=201,
    responses=gives(Run, SnapshotRefused, PayloadTooLarge, statuses={201: "The run continues here"}),
)
async def load_snapshot(body: LoadSnapshot, services: ServicesOf, actor: ActorOf) -> Response:
    """Load a run, which continues here as it was saved. A store that already has the run refuses the snapshot."""
    by = actor.user_id("by", body.by)
    saved, _ = await asyncio.to_thread(read, body.snapshot)
    await asyncio.to_thread(check_payloads, "load_run", {"snapshot": saved})
    return reply_with(await services.backend.load(body.snapshot, by=by), 201)
