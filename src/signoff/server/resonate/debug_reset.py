"""Deletes the promises, tasks and schedules of a namespace, for ``debug.reset``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from signoff.errors import AlreadySettled, NotFound
from signoff.records import Promise, PromiseKind, PromiseState, Settlement
from signoff.records.paging import PromiseFilter, RunFilter
from signoff.records.tasks import TaskState
from signoff.server.resonate.protocol import Refusal
from signoff.service.service import LocalBackend
from signoff.stores.contract.store import Store

AT_ONCE: Final = 100

_CANCELLED: Final = Settlement(PromiseState.CANCELLED)
_EVER: Final = 1e14
"""A time after all others, in unix seconds: a clock for tests may have been set to any."""


async def reset(store: Store, backend: LocalBackend) -> None:
    """Cancel all pending promises of a namespace, and delete all promises, with their tasks, and all schedules.

    Tasks are ended first, so that cancelled promises resume none. What the audit trail has of questions is kept.

    Args:
        store: The store, bound to the namespace.
        backend: Its service.

    Raises:
        Refusal: There are runs. Their history refers to promises.
    """
    if (await store.list_runs(RunFilter(), limit=1)).items:
        raise Refusal(409, "this namespace has runs of Signoff, whose history is kept: use another database")
    await _delete_schedules(store)
    for state in TaskState:
        if state is not TaskState.FULFILLED:
            await _end_tasks(store, state)
    async for promise in _pending(store):
        with suppress(AlreadySettled, NotFound):
            if promise.kind is PromiseKind.QUESTION:
                await backend.cancel_question(promise.id, by=None, reason="debug.reset", request_id=None)
            else:
                await store.settle(promise.id, promise.kind, _CANCELLED)
    after: str | None = None
    while True:
        _, after = await store.delete_settled(_EVER, AT_ONCE, after=after)
        if after is None:
            return


async def _delete_schedules(store: Store) -> None:
    while page := (await store.list_promise_schedules(limit=AT_ONCE)).items:
        for schedule in page:
            await store.delete_promise_schedule(schedule.id)


async def _end_tasks(store: Store, state: TaskState) -> None:
    after: str | None = None
    while True:
        page = await store.list_tasks(state=state, after=after, limit=AT_ONCE)
        for task in page.items:
            with suppress(AlreadySettled, NotFound):
                await store.settle(task.id, PromiseKind.PROMISE, _CANCELLED)
        after = page.next
        if after is None:
            return


async def _pending(store: Store) -> AsyncIterator[Promise]:
    after: str | None = None
    while True:
        which = PromiseFilter(state=PromiseState.PENDING)
        page = await store.list_promises(which, after=after, limit=AT_ONCE)
        for promise in page.items:
            yield promise
        after = page.next
        if after is None:
            return
