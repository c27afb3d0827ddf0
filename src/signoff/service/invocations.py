"""Reads of invocations, the promises that workers of the durable promise protocol execute, and of their calls."""

from __future__ import annotations

from typing import Final

from signoff.errors import NotFound
from signoff.records.invocations import InvocationFilter, InvocationNode
from signoff.records.paging import Page
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.encrypted import showing

MOST_PAGES: Final = 20
"""Pages of the store that are read for one page without an item. Each examines ``LOOKED_THROUGH`` promises."""


async def list_invocations(
    store: Store, which: InvocationFilter, *, after: str | None, limit: int
) -> Page[InvocationNode]:
    """List invocations, newest first. A page may be short or empty and still have a ``next``."""
    page = await store.list_invocations(which, after=after, limit=limit)
    for _ in range(MOST_PAGES - 1):
        if page.items or page.next is None:
            break
        page = await store.list_invocations(which, after=page.next, limit=limit)
    return page


async def get_invocation(store: Store, promise_id: str) -> InvocationNode:
    """Return a promise as a node of its call tree, with whole payloads. Raises NotFound."""
    promise = await showing(store).get_promise(promise_id)
    task = run = None
    try:
        task = await store.get_task(promise_id)
        run = await showing(store).get_run(promise_id)
    except NotFound:
        pass  # a run executes only what has a task
    calls = await store.list_calls(promise_id, limit=1)
    return InvocationNode(promise, task, has_run=run is not None, has_calls=bool(calls.items))


async def list_calls(store: Store, promise_id: str, *, after: str | None, limit: int) -> Page[InvocationNode]:
    """List the promises that a promise has created, by id. Raises NotFound."""
    page = await store.list_calls(promise_id, after=after, limit=limit)
    if not page.items and after is None:
        await showing(store).get_promise(promise_id)
    return page
