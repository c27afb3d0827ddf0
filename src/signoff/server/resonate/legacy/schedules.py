"""The operations on schedules in the protocol of 2024. They are the schedules of the durable promise protocol."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.requests import Request as HttpRequest

from signoff.codec.strict_json import read_object
from signoff.engine.timers import cron
from signoff.errors import InvalidValue, NotFound, PayloadTooLarge
from signoff.records.promise_schedules import NewPromiseSchedule, PromiseSchedule
from signoff.server.resonate.call import Call
from signoff.server.resonate.legacy.errors import INVALID, SCHEDULE_EXISTS, LegacyRefusal
from signoff.server.resonate.legacy.requests import INVOKE, CreateSchedule, address_of, path_id
from signoff.server.resonate.protocol import Reply
from signoff.server.resonate.requests import TARGET
from signoff.server.resonate.schedules import LONGEST, check_owner, check_schedule, to_schedule_record

_KEPT: Final = "2024"
"""The key of what only this protocol knows of a schedule."""


async def get(call: Call, http: HttpRequest, _: None) -> Reply:
    """Show a schedule."""
    return _shown(await call.store.get_promise_schedule(path_id(http)))


async def create(call: Call, http: HttpRequest, data: CreateSchedule) -> Reply:
    """Create a schedule; or show it, if a request with the same key created it before."""
    key = http.headers.get("idempotency-key")
    try:
        known = await call.store.get_promise_schedule(data.id)
    except NotFound:
        new = _new(call, data, key)
        await check_schedule(call, new)
        return _shown(await call.store.put_promise_schedule(new), 201)
    if key is None or key != _kept(known).get("key"):
        raise LegacyRefusal(SCHEDULE_EXISTS, f"schedule {data.id!r} already exists")
    return _shown(known)


async def delete(call: Call, http: HttpRequest, _: None) -> Reply:
    """Delete a schedule."""
    schedule_id = path_id(http)
    await check_owner(call, schedule_id)
    await call.store.delete_promise_schedule(schedule_id)
    return Reply(None, 204)


def _new(call: Call, data: CreateSchedule, key: str | None) -> NewPromiseSchedule:
    """Return the schedule to be created. Its promises have the target of this protocol as that of today's, too."""
    tags = dict(data.promise_tags)
    if INVOKE in tags:
        tags[TARGET] = address_of(tags[INVOKE])
    made = {
        "promiseId": data.promise_id,
        "promiseTimeout": data.promise_timeout,
        "promiseParam": data.promise_param.plain(),
        "promiseTags": tags,
        _KEPT: {"key": key, "description": data.description, "tags": data.tags},
    }
    text = json.dumps(made, ensure_ascii=False)
    if len(text.encode()) > LONGEST:
        raise PayloadTooLarge("promiseParam and tags", len(text.encode()), LONGEST)
    try:
        first = cron.next_time(data.cron, "UTC", call.now / 1000)
    except InvalidValue as error:
        raise LegacyRefusal(INVALID, f"invalid request: cron: {error.reason}") from None
    return NewPromiseSchedule(data.id, data.cron, text, first)


def _shown(schedule: PromiseSchedule, status: int = 200) -> Reply:
    record, kept = to_schedule_record(schedule), _kept(schedule)
    tags = {name: value for name, value in record["promiseTags"].items() if name != TARGET or not kept}
    shown: dict[str, Any] = {
        "id": schedule.id,
        "description": kept.get("description"),
        "cron": schedule.cron,
        "tags": kept.get("tags", {}),
        "promiseId": record["promiseId"],
        "promiseTimeout": record["promiseTimeout"],
        "promiseParam": record["promiseParam"],
        "promiseTags": tags,
        "idempotencyKey": kept.get("key"),
        "lastRunTime": record.get("lastRunAt"),
        "nextRunTime": record["nextRunAt"],
        "createdOn": record["createdAt"],
    }
    return Reply({name: value for name, value in shown.items() if value is not None}, status)


def _kept(schedule: PromiseSchedule) -> dict[str, Any]:
    return read_object(schedule.data).get(_KEPT, {})
