"""Empty ids and names are refused at every interface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.errors import InvalidValue, RegistrationError
from signoff.flows import Executions, Flow
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

EMPTY = ("", "  ")


async def one() -> int:
    return 1


ASKED: dict[str, Callable[[Context, str], Any]] = {
    "step": lambda ctx, empty: ctx.step(empty, one),
    "key": lambda ctx, empty: ctx.step("one", one, key=empty),
    "promise": lambda ctx, empty: ctx.promise(id=empty),
    "signal": lambda ctx, empty: ctx.wait_for_signal(empty),
    "child": lambda ctx, empty: ctx.rfc(empty),
    "child id": lambda ctx, empty: ctx.rfc("ask", "x", "y").options(id=empty),
    "group": lambda ctx, empty: ctx.rfc("ask", "x", "y").options(target=empty),
    "detached id": lambda ctx, empty: ctx.detached("ask", "x", "y").options(id=empty),
    "patch": lambda ctx, empty: ctx.patched(empty),
    "progress": lambda ctx, empty: ctx.progress(empty),
}


@pytest.mark.filterwarnings("ignore:.*never awaited")
@in_asyncio
async def test_a_workflow_asks_for_nothing_under_an_empty_name() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context, what: str, empty: str) -> None:
        with pytest.raises((InvalidValue, RegistrationError)):
            ASKED[what](ctx, empty)

    async with environment(app) as env:
        for what in ASKED:
            for empty in EMPTY:
                await env.run(ask, what, empty)


async def answer(client: AsyncClient, empty: str) -> None:
    (question,) = (await client.questions()).items
    await client.answer(question.id, True, request_id=empty)


STARTED: dict[str, Callable[[AsyncClient, str], Awaitable[Any]]] = {
    "workflow": lambda client, empty: client.start(empty),
    "run": lambda client, empty: client.start("waiting", id=empty),
    "group": lambda client, empty: client.start("waiting", group=empty),
    "session": lambda client, empty: client.start("waiting", session_id=empty),
    "promise": lambda client, empty: client.promises.create(empty),
    "signal": lambda client, empty: client.signal("r", empty),
    "request of a signal": lambda client, empty: client.signal("r", "paid", request_id=empty),
    "request of an answer": answer,
    "request of a promise": lambda client, empty: client.promises.resolve("p", 1, request_id=empty),
    "workflow of a schedule": lambda client, empty: client.schedules.put("s", empty, cron="* * * * *"),
    "schedule": lambda client, empty: client.schedules.put(empty, "waiting", cron="* * * * *"),
    "group of a schedule": lambda client, empty: client.schedules.put(
        "s", "waiting", cron="* * * * *", group=empty
    ),
    "who suspends": lambda client, empty: client.suspend("r", by=empty),
    "who resumes": lambda client, empty: client.resume("r", by=empty),
    "who terminates": lambda client, empty: client.terminate("r", by=empty),
    "who retries": lambda client, empty: client.retry("r", by=empty),
    "who settles": lambda client, empty: client.promises.resolve("p", 1, by=empty),
    "execution": lambda client, empty: Executions(client, "waiting").start(id=empty),
}


@pytest.mark.parametrize("what", list(STARTED))
@in_asyncio
async def test_a_client_gives_no_empty_id(what: str) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def waiting(ctx: Context) -> None:
        await ctx.wait_for_user("Pay?")

    async with environment(app) as env:
        await env.start(waiting, id="r")
        await env.client.promises.create("p")
        await env.idle()
        for empty in EMPTY:
            with pytest.raises(InvalidValue):
                await STARTED[what](env.client, empty)
        assert len((await env.client.questions()).items) == 1


@pytest.mark.parametrize("empty", EMPTY)
def test_nothing_is_registered_under_an_empty_name(empty: str) -> None:
    async def chunk(data: Any) -> None: ...

    async def workflow(ctx: Context) -> None: ...

    makings: list[Callable[[], Any]] = [
        lambda: Signoff(MemoryStore(), group=empty),
        lambda: Signoff(MemoryStore(), namespace=empty),
        lambda: AsyncClient(Signoff(MemoryStore()), group=empty),
        lambda: Signoff(MemoryStore()).workflow(name=empty)(workflow),
        lambda: Signoff(MemoryStore()).workflow(version=empty)(workflow),
        lambda: Flow(empty),
        lambda: Flow("f").chunk(name=empty)(chunk),
        lambda: Flow("f").requires(empty),
        lambda: Flow("f").when(empty),
        lambda: Flow("f").when({"state": empty}),
        lambda: Flow("f").to(chunk).emit(empty),
        lambda: Flow("f").to(chunk).collect(empty, "a"),
        lambda: Flow("f").to(chunk).collect("a", empty),
        lambda: Flow("f").batch((empty, chunk)),
    ]
    for make in makings:
        with pytest.raises((InvalidValue, RegistrationError), match=r"empty|needs a name"):
            make()
