"""The operations ``schedule.*``, and the promises that schedules create."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import Any, Final

from signoff.codec.strict_json import read_object
from signoff.engine.timers import cron
from signoff.errors import IdConflict, InvalidValue, NotFound, PayloadTooLarge, SignoffError
from signoff.records import Due
from signoff.records.promise_schedules import NewPromiseSchedule, PromiseSchedule
from signoff.records.tasks import NewInvocation
from signoff.runtime.loggers import own_logger
from signoff.server.resonate.call import Call
from signoff.server.resonate.durable_promises import Details, milliseconds
from signoff.server.resonate.promises import check_new, to_invocation
from signoff.server.resonate.protocol import Refusal, Reply
from signoff.server.resonate.requests import (
    BRANCH,
    LAST_INTEGER,
    PARENT,
    TARGET,
    ById,
    CreatePromise,
    CreateSchedule,
    SearchSchedules,
    read_data,
)
from signoff.server.resonate.searches import paged
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import FailedItems

log = own_logger("signoff.schedules")

USUAL: Final = 10
"""Length of a page, if the request does not name one."""

LONGEST: Final = 64 * 1024
"""Maximum bytes of the promises that a schedule creates. Lists have them in full."""

MOST_EXAMINED: Final = 1000

CATCH_UP_AT_MOST: Final = 100
"""The maximum number of missed times to catch up on; the latest ones count."""

AT_ONCE: Final = 100
LOOK_SECONDS: Final = 1.0

_TIMEZONE: Final = "UTC"
_OWN_TAGS: Final = ("resonate:origin", BRANCH, PARENT, "resonate:prefix")
_SCHEDULE_TAG: Final = "resonate:schedule"


async def get(call: Call, data: ById) -> Reply:
    """Show a schedule."""
    return _shown(await call.store.get_promise_schedule(data.id))


async def create(call: Call, data: CreateSchedule) -> Reply:
    """Create a schedule, or show the one with this id."""
    now = call.now / 1000
    try:
        first = cron.next_time(data.cron, _TIMEZONE, now)
    except InvalidValue as error:
        raise Refusal(400, f"invalid request: data.cron: {error.reason}") from None
    made = {
        "promiseId": data.promise_id,
        "promiseTimeout": data.promise_timeout,
        "promiseParam": data.promise_param.plain(),
        "promiseTags": data.promise_tags,
    }
    text = json.dumps(made, ensure_ascii=False)
    if len(text.encode()) > LONGEST:
        raise PayloadTooLarge("promiseParam and promiseTags", len(text.encode()), LONGEST)
    new = NewPromiseSchedule(data.id, data.cron, text, first)
    await check_schedule(call, new)
    return _shown(await call.store.put_promise_schedule(new))


async def delete(call: Call, data: ById) -> Reply:
    """Delete a schedule."""
    await check_owner(call, data.id)
    await call.store.delete_promise_schedule(data.id)
    return Reply({})


async def check_schedule(call: Call, new: NewPromiseSchedule) -> None:
    """Check the first promise of a new schedule, as if it were created now: a bad one would fail at each time.

    Raises:
        Refusal, AccessDenied, InvalidValue, PayloadTooLarge: It could not be created.
    """
    id, details = _details(new.id, read_object(new.data), new.next_at)
    read_data(CreatePromise, {"id": id, "timeoutAt": details.timeout_at, "tags": dict(details.tags)})
    await check_new(call, to_invocation(id, details, milliseconds(new.next_at)))
    _check_group(call, new.id, details.tags.get(TARGET))


async def check_owner(call: Call, schedule_id: str) -> None:
    """Raise AccessDenied if the sender has a key for some groups, and the schedule calls another one."""
    schedule = await call.store.get_promise_schedule(schedule_id)
    target = read_object(schedule.data).get("promiseTags", {}).get(TARGET)
    _check_group(call, schedule_id, target)
    if target is not None:
        call.sender.check_call(target)


def _check_group(call: Call, schedule_id: str, target: str | None) -> None:
    if target is not None:
        call.sender.check_target(f"schedule {schedule_id!r}", target)


async def search(call: Call, data: SearchSchedules) -> Reply:
    """List schedules by id."""
    limit, after, found, examined = data.limit or USUAL, data.cursor, list[dict[str, Any]](), 0
    wanted = (data.tags or {}).items()
    while True:
        page = await call.store.list_promise_schedules(after=after, limit=limit - len(found))
        after, examined = page.next, examined + len(page.items)
        records = map(to_schedule_record, page.items)
        found += [each for each in records if wanted <= each["promiseTags"].items()]
        if after is None or len(found) >= limit or examined >= MOST_EXAMINED:
            return paged("schedules", found, after)


def to_schedule_record(schedule: PromiseSchedule) -> dict[str, Any]:
    """Return a schedule as the protocol shows it."""
    made = read_object(schedule.data)
    record: dict[str, Any] = {
        "id": schedule.id,
        "cron": schedule.cron,
        "promiseId": made.get("promiseId", ""),
        "promiseTimeout": made.get("promiseTimeout", 0),
        "promiseParam": made.get("promiseParam", {}),
        "promiseTags": made.get("promiseTags", {}),
        "createdAt": milliseconds(schedule.created_at),
        "nextRunAt": milliseconds(schedule.next_at),
    }
    if schedule.last_at is None:
        return record
    return {**record, "lastRunAt": milliseconds(schedule.last_at)}


class ScheduledPromises:
    """Creates the promises of due schedules, in all namespaces. Any number of servers may do it.

    Args:
        store: An open store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._aside = FailedItems("promise schedule", log)

    async def serve(self) -> None:
        """Create promises until cancelled."""
        while True:
            next_at = await self.create_due()
            wait = LOOK_SECONDS if next_at is None else next_at - self._store.clock.now()
            await asyncio.sleep(min(max(wait, 0.01), LOOK_SECONDS))

    async def create_due(self) -> float | None:
        """Create the promises that are due. Returns when the next ones are, in unix seconds."""
        try:
            return await self._aside.serve_due(
                self._store,
                self._store.due_promise_schedules,
                functools.partial(_fire, self._store),
                at_once=AT_ONCE,
            )
        except SignoffError as error:
            log.warning("promises of schedules could not be created: %s", error)
            return None
        except Exception:
            log.exception("promises of schedules could not be created")
            return None


async def _fire(store: Store, due: Due) -> bool:
    within = store.within(due.namespace)
    try:
        schedule = await within.get_promise_schedule(due.id)
    except NotFound:
        return True  # it was deleted in the meantime
    if schedule.next_at != due.at:
        return True  # another server has created its promises
    now = store.clock.now()
    times = cron.latest_times(schedule.cron, _TIMEZONE, schedule.next_at, now, CATCH_UP_AT_MOST)
    for time in times:
        try:
            await within.open_invocation(_invocation(schedule, time))
        except IdConflict:  # a question, or the promise of a run, has the id
            log.warning("schedule %s: its promise for %s has the id of another one", schedule.id, time)
    next_at = cron.next_time(schedule.cron, _TIMEZONE, now)
    await within.advance_promise_schedule(schedule.id, schedule.next_at, next_at, times[-1])
    return True


def _invocation(schedule: PromiseSchedule, time: float) -> NewInvocation:
    id, details = _details(schedule.id, read_object(schedule.data), time)
    return to_invocation(id, details, milliseconds(time))


def _details(schedule_id: str, made: dict[str, Any], time: float) -> tuple[str, Details]:
    """Return the id and the details of the promise for a time."""
    at = milliseconds(time)
    id: str = made["promiseId"].replace("{{.id}}", schedule_id).replace("{{.timestamp}}", str(at))
    tags: dict[str, str] = {**made["promiseTags"], _SCHEDULE_TAG: schedule_id, **dict.fromkeys(_OWN_TAGS, id)}
    return id, Details(made["promiseParam"], tags, min(at + made["promiseTimeout"], LAST_INTEGER))


def _shown(schedule: PromiseSchedule) -> Reply:
    return Reply({"schedule": to_schedule_record(schedule)})
