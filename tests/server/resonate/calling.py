"""A server, a worker of Signoff whose workflows call functions, and processes with these functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

from signoff import AsyncClient, AsyncHandle, Context, Signoff
from signoff.errors import NotFound
from signoff.records import Promise, PromiseKind, PromiseState, Run, RunState, Settlement
from signoff.server.server import Server
from tests.server.resonate.process import Function, Process
from tests.support import comes

TARGET = "poll://any@ts-workers"
SECONDS = 60
Database = Callable[[], AbstractContextManager[str]]


@dataclass(frozen=True)
class Bill:
    day: date
    cents: int


def make_app(database: str, namespace: str = "default") -> Signoff:
    """An app whose workflows call functions."""
    app = Signoff(database, group="signoff-workers", namespace=namespace)

    @app.workflow
    async def calls(ctx: Context, function: str, *args: Any) -> Any:
        return await ctx.rfc(function, *args).options(target=TARGET)

    @app.workflow
    async def bills(ctx: Context, day: date) -> int:
        bill = await ctx.rfc("bill", day, cents=70).options(target=TARGET, returns=Bill)
        assert isinstance(bill, Bill)
        return bill.cents + bill.day.day

    @app.workflow
    async def beside(ctx: Context, count: int) -> list[int]:
        calls = [await ctx.rfi("double", n).options(target=TARGET) for n in range(count)]
        return [await call for call in calls]

    @app.workflow
    async def detaches(ctx: Context) -> str:
        return await ctx.detached("double", 4).options(target=TARGET)

    @app.workflow
    async def hurries(ctx: Context) -> Any:
        return await ctx.rfc("never").options(target=TARGET, timeout=3)

    @app.workflow
    async def ship(ctx: Context) -> str:
        return "shipped by Signoff"

    return app


@dataclass
class Place:
    """A server, and a worker of Signoff."""

    app: Signoff
    client: AsyncClient
    server: Server

    @property
    def url(self) -> str:
        assert self.server.resonate_url is not None
        return self.server.resonate_url

    def process(self, *, group: str = "ts-workers", **functions: Function) -> Process:
        return Process(self.url, {**FUNCTIONS, **functions}, group=group)

    async def promise(self, id: str, state: PromiseState = PromiseState.PENDING) -> Promise:
        """Wait until a promise is in a state."""

        async def look() -> Promise | None:
            try:
                promise = await self.app.store.get_promise(id)
            except NotFound:
                return None
            return promise if promise.state is state else None

        found = await comes(look)
        assert found is not None
        return found

    async def run(self, id: str, state: RunState = RunState.PAUSED) -> Run:
        """Wait until a run is in a state."""

        async def look() -> Run | None:
            try:
                run = await self.app.store.get_run(id)
            except NotFound:
                return None
            return run if run.state is state else None

        found = await comes(look)
        assert found is not None
        return found

    async def settle(self, id: str, state: PromiseState, value: str | None = None) -> None:
        await self.app.store.settle(id, PromiseKind.PROMISE, Settlement(state, value=value))


def double(number: int) -> int:
    return number * 2


def bill(day: str, *, cents: int) -> dict[str, Any]:
    return {"day": day, "cents": cents}


async def never() -> None:
    await asyncio.Event().wait()


FUNCTIONS: dict[str, Function] = {"double": double, "bill": bill, "never": never}


@asynccontextmanager
async def place(database: str) -> AsyncIterator[Place]:
    app = make_app(database)
    try:
        async with Server(app, port=0, resonate_port=0) as server, app.worker(), AsyncClient(app) as client:
            yield Place(app, client, server)
    finally:
        await app.store.close()


def in_place(database: Database, test: Callable[[Place], Awaitable[None]]) -> None:
    async def run(url: str) -> None:
        async with place(url) as here:
            await test(here)

    with database() as url:
        asyncio.run(run(url))


async def result(handle: AsyncHandle, seconds: float = SECONDS) -> Any:
    async with asyncio.timeout(seconds):
        return await handle.result()
