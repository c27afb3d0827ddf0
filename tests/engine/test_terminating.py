"""An operator's termination ends a run at once, in any state and by every interface; other runs continue."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AsyncClient, Client, Context, RunState, RunTerminated, Signoff
from signoff.cli.root import run as command
from signoff.errors import InvalidState
from signoff.records import AuditKind
from signoff.records.paging import AuditFilter
from tests.halves import sample
from tests.places import NewStore, front_door, place
from tests.support import OnThread, comes, in_asyncio, opened

BY = "user:ana"


@pytest.fixture(params=["sqlite", "postgres", pytest.param("remote", marks=pytest.mark.long)])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewStore]:
    """Makes stores of one place for several threads."""
    with place(request.param, tmp_path) as make:
        yield make


Door = Callable[[Signoff, str, str], Awaitable[Any]]


async def by_client(app: Signoff, url: str, run_id: str) -> None:
    async with AsyncClient(app) as client:
        await client.terminate(run_id, by=BY, reason="stuck")


async def by_handle(app: Signoff, url: str, run_id: str) -> None:
    async with AsyncClient(app) as client:
        await (await client.get(run_id)).terminate("stuck", by=BY)


async def by_blocking_client(app: Signoff, url: str, run_id: str) -> None:
    def block() -> None:
        with Client(url) as client:
            client.terminate(run_id, by=BY, reason="stuck")

    await asyncio.to_thread(block)


async def by_remote_client(app: Signoff, url: str, run_id: str) -> None:
    async with AsyncClient(url) as client:
        await client.terminate(run_id, by=BY, reason="stuck")


async def by_http(app: Signoff, url: str, run_id: str) -> None:
    """As Studio does."""
    async with httpx.AsyncClient() as http:
        reply = await http.post(f"{url}/v1/runs/{run_id}/terminate", json={"by": BY, "reason": "stuck"})
    assert reply.status_code == 200, reply.text


async def by_command(app: Signoff, url: str, run_id: str) -> None:
    args = ["terminate", run_id, "--reason", "stuck", "--by", BY, "--url", url]
    assert await asyncio.to_thread(command, args) == 0


DOORS: tuple[Door, ...] = (by_client, by_handle, by_blocking_client, by_remote_client, by_http, by_command)


class Blocked:
    """What steps wait for, until the test has ended."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.begun: list[str] = []

    def begin(self, name: str) -> None:
        self.begun.append(name)


def working(app: Signoff, blocked: Blocked) -> None:
    @app.workflow
    async def waits_in_a_thread(ctx: Context) -> None:
        def block() -> None:
            blocked.begin("waits_in_a_thread")
            blocked.released.wait(60)

        await ctx.step("s", block)

    @app.workflow
    async def waits_on_the_loop(ctx: Context) -> None:
        async def block() -> None:
            blocked.begin("waits_on_the_loop")
            await asyncio.sleep(3600)

        await ctx.step("s", block)

    @app.workflow
    async def ignores_its_end(ctx: Context) -> None:
        async def block() -> None:
            blocked.begin("ignores_its_end")
            while not blocked.released.is_set():
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.05)

        await ctx.step("s", block)

    @app.workflow
    async def blocks_the_loop(ctx: Context) -> None:
        async def block() -> None:
            blocked.begin("blocks_the_loop")
            time.sleep(1)

        await ctx.step("s", block)

    @app.workflow
    def cleans_up_for_ever(ctx: Context) -> Any:
        try:
            blocked.begin("cleans_up_for_ever")
            yield ctx.sleep(3600)
        finally:
            while True:
                yield ctx.sleep(3600)

    @app.workflow
    async def asks(ctx: Context) -> None:
        blocked.begin("asks")
        await ctx.wait_for_user("Go on?")

    @app.workflow
    async def has_a_child(ctx: Context) -> None:
        await ctx.rfc("waits_on_the_loop").options(id="child")

    @app.workflow
    async def next_one(ctx: Context) -> str:
        return await ctx.step("in a thread", lambda: "well")


@asynccontextmanager
async def at_work(shared: NewStore, blocked: Blocked) -> AsyncIterator[None]:
    app = Signoff(shared())
    working(app, blocked)
    try:
        async with app.worker(beat_seconds=0.05, concurrency=4, threads=2, grace_seconds=0):
            yield
    finally:
        await app.store.close()


HELD = (
    "waits_in_a_thread",
    "waits_on_the_loop",
    "ignores_its_end",
    "blocks_the_loop",
    "cleans_up_for_ever",
    "asks",
    "has_a_child",
)


@pytest.mark.parametrize("door", sample(DOORS, 4), ids=lambda door: door.__name__)
@in_asyncio
async def test_a_run_is_terminated_whatever_it_does(shared: NewStore, door: Door) -> None:
    blocked, app = Blocked(), Signoff(shared())
    working(app, Blocked())
    async with opened(app) as client, front_door(app.store) as url:
        with OnThread(lambda: at_work(shared, blocked)):
            try:
                for name in HELD:
                    run = await client.start(name, id=name)
                    begins = "waits_on_the_loop" if name == "has_a_child" else name
                    await comes(lambda begins=begins: is_in(begins, blocked.begun))
                    blocked.begun.clear()
                    if name == "cleans_up_for_ever":
                        await run.cancel()
                    await door(app, url, name)
                    await check(app, client, name)
                await comes(lambda: has_ended(app, "child"))
                assert await (await client.start("next_one", id="next")).result(60) == "well"
            finally:
                blocked.released.set()


@pytest.mark.parametrize("door", sample(DOORS, 4), ids=lambda door: door.__name__)
@in_asyncio
async def test_a_run_that_no_worker_runs_is_terminated(shared: NewStore, door: Door) -> None:
    app = Signoff(shared())
    working(app, Blocked())
    async with opened(app) as client, front_door(app.store) as url:
        await client.start("asks", id="unclaimed")
        await client.start("of code that is gone", id="gone")
        await client.start("asks", id="later", delay_seconds=3600)
        await client.start("asks", id="suspended")
        await client.suspend("suspended", by=BY)
        await client.start("asks", id="first", session_id="s")
        await client.start("next_one", id="second", session_id="s")
        for run_id in ("unclaimed", "gone", "later", "suspended", "first"):
            await door(app, url, run_id)
            await check(app, client, run_id)
        with OnThread(lambda: at_work(shared, Blocked())):
            assert await (await client.get("second")).result(60) == "well"
        for run_id in ("unclaimed", "gone", "later", "suspended", "first"):
            await check(app, client, run_id)


async def is_in(name: str, begun: list[str]) -> bool:
    return name in begun


async def has_ended(app: Signoff, run_id: str) -> bool:
    return (await app.store.get_run(run_id)).state.is_final


async def check(app: Signoff, client: AsyncClient, run_id: str) -> None:
    """Check that a run was terminated, once, and that the operator and the reason are shown everywhere."""
    run = await app.store.get_run(run_id)
    assert run.state is RunState.CANCELLED
    assert not run.is_suspended
    with pytest.raises(RunTerminated, match="stuck"):
        await (await client.get(run_id)).result(60)
    trail = (await app.store.list_audit(AuditFilter(run_id=run_id))).items
    found = [event for event in trail if event.kind is AuditKind.TERMINATED]
    assert [(event.by, json.loads(event.details or "{}")["reason"]) for event in found] == [(BY, "stuck")]
    with pytest.raises(InvalidState):
        await client.terminate(run_id)
    assert not (await client.questions(run_id=run_id)).items
