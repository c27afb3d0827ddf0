"""The operations ``promise.search`` and ``task.search``.

A search examines a bounded number of records and bytes. Its page may be short or empty and still have a cursor, which
continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from signoff.errors import AccessDenied, InvalidValue
from signoff.records import Promise, PromiseState
from signoff.records.paging import PromiseFilter
from signoff.records.tasks import TaskState
from signoff.server.resonate.call import Call
from signoff.server.resonate.durable_promises import to_record
from signoff.server.resonate.promises import all_current
from signoff.server.resonate.protocol import Refusal, Reply
from signoff.server.resonate.requests import SearchPromises, SearchTasks
from signoff.server.resonate.tasks import to_task_record
from signoff.stores.shared.listed_payloads import PAGE_BYTES, bytes_of

USUAL: Final = 100
"""Length of a page, if the request does not name one."""

MOST_PAGES: Final = 50
"""Pages of the store that are read for one request."""

MOST_EXAMINED: Final = 2000

_STORED: Final[Mapping[str, PromiseState]] = {
    "pending": PromiseState.PENDING,
    "rejected": PromiseState.REJECTED,
    "rejected_canceled": PromiseState.CANCELLED,
}
"""States of the protocol that one state of the store has. A timeout resolves a timer, and rejects others."""


async def search_promises(call: Call, data: SearchPromises) -> Reply:
    """List promises, oldest first."""
    which = PromiseFilter(state=_STORED.get(data.state or ""))
    limit, after, found, examined, size = data.limit or USUAL, data.cursor, list[dict[str, Any]](), 0, 0
    for _ in range(MOST_PAGES):
        try:
            page = await call.store.list_promises(which, after=after, limit=limit - len(found))
            fitting = _fitting(page.items, PAGE_BYTES - size)
            if fitting < len(page.items):  # the cursor must be that of the last one that is read
                page = await call.store.list_promises(which, after=after, limit=fitting)
        except InvalidValue as error:
            raise _bad_cursor(error) from None
        after, examined, size = page.next, examined + len(page.items), size + sum(map(_bytes_of, page.items))
        found += [each for each in await _records(call, page.items) if _matches(each, data)]
        if after is None or len(found) >= limit or examined >= MOST_EXAMINED or size >= PAGE_BYTES:
            break
    return paged("promises", found, after)


async def search_tasks(call: Call, data: SearchTasks) -> Reply:
    """List tasks by id."""
    state = None if data.state is None else TaskState(data.state)
    page = await call.store.list_tasks(state=state, after=data.cursor, limit=data.limit or USUAL)
    shown = [to_task_record(task) for task in page.items if call.sender.sees_target(task.target)]
    return paged("tasks", shown, page.next)


def paged(name: str, records: Sequence[Mapping[str, Any]], cursor: str | None) -> Reply:
    """Return the reply with a page. The last one has no cursor."""
    return Reply({name: records} if cursor is None else {name: records, "cursor": cursor})


def _fitting(promises: Sequence[Promise], room: int) -> int:
    """Return how many promises have at most as many bytes as there is room for; at least one."""
    for number, promise in enumerate(promises):
        room -= _bytes_of(promise)
        if room < 0:
            return max(number, 1)
    return len(promises)


def _bytes_of(promise: Promise) -> int:
    """Return the size of a promise with the payloads that a list leaves out: they are read one by one."""
    return bytes_of(promise) + sum((promise.left_out or {}).values())


async def _records(call: Call, promises: Sequence[Promise]) -> list[dict[str, Any]]:
    """Return the records of those promises that the sender may see."""
    seen: list[Promise] = []
    for promise in promises:
        try:
            await call.sender.check_promise(call.store, promise)
        except AccessDenied:
            continue
        seen.append(promise if promise.left_out is None else await call.store.get_promise(promise.id))
    return [to_record(promise) for promise in await all_current(call, seen)]


def _matches(record: Mapping[str, Any], data: SearchPromises) -> bool:
    if data.state is not None and record["state"] != data.state:
        return False
    return data.tags is None or data.tags.items() <= record["tags"].items()


def _bad_cursor(error: InvalidValue) -> Refusal:
    return Refusal(400, f"invalid request: data.cursor: {error.reason}")
