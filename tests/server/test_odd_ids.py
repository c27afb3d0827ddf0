"""Ids and names that are not texts, or that no store can keep, are refused at every interface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AsyncClient, Context
from signoff.errors import InvalidValue
from signoff.records import PromiseState
from tests.server.conftest import serving
from tests.support import in_asyncio, new_app, pauses, running

Door = Callable[[AsyncClient, str, str, Any], Awaitable[Any]]

DOORS: dict[str, Door] = {
    "start id": lambda client, run, question, odd: client.start("asks", id=odd),
    "start session": lambda client, run, question, odd: client.start("asks", session_id=odd),
    "start group": lambda client, run, question, odd: client.start("asks", group=odd),
    "signal run": lambda client, run, question, odd: client.signal(odd, "paid"),
    "signal name": lambda client, run, question, odd: client.signal(run, odd),
    "signal request": lambda client, run, question, odd: client.signal(run, "paid", request_id=odd),
    "answer user": lambda client, run, question, odd: client.answer(question, True, user_id=odd),
    "answer group": lambda client, run, question, odd: client.answer(question, True, groups=[odd]),
    "answer request": lambda client, run, question, odd: client.answer(question, True, request_id=odd),
    "answer note": lambda client, run, question, odd: client.answer(question, True, note=odd),
    "promise": lambda client, run, question, odd: client.promises.create(odd),
    "claim": lambda client, run, question, odd: client.inbox.claim(question, user_id=odd),
    "delegate": lambda client, run, question, odd: client.inbox.delegate(question, [odd], user_id="ana"),
    "comment": lambda client, run, question, odd: client.inbox.comment(question, odd, user_id="ana"),
    "group": lambda client, run, question, odd: client.groups.pause(odd),
    "link": lambda client, run, question, odd: client.links.create(question, user_id=odd),
}

LOOKED_UP: dict[str, Door] = {
    "run": lambda client, run, question, odd: client.backend.get_run(odd),
    "cancel": lambda client, run, question, odd: client.cancel(odd),
    "answer": lambda client, run, question, odd: client.answer(odd, True),
    "promise": lambda client, run, question, odd: client.promises.get(odd),
    "resolve": lambda client, run, question, odd: client.promises.resolve(odd, 1),
    "session": lambda client, run, question, odd: client.sessions.get(odd),
}

ODD = {"NUL": "a\0b", "surrogate": "\ud800", "number": 5, "bytes": b"x"}


@pytest.mark.parametrize("way", ["store", "server"])
@in_asyncio
async def test_odd_ids_are_refused_with_the_name_of_what_is_odd(tmp_path: Path, way: str) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def asks(ctx: Context) -> None:
        await ctx.wait_for_user("Go?")

    async with running(app) as client:
        run = (await client.start("asks")).id
        question = f"{run}.1"
        while not (await client.questions(run_id=run)).items:
            pass
        if way == "store":
            await _try(client, run, question, ODD)
        else:
            async with serving(app) as server, AsyncClient(server.url) as remote:
                texts = {name: odd for name, odd in ODD.items() if isinstance(odd, str)}
                await _try(remote, run, question, texts)


async def _try(client: AsyncClient, run: str, question: str, odd: dict[str, Any]) -> None:
    for door, call in DOORS.items():
        for name, each in odd.items():
            with pytest.raises(InvalidValue) as refused:
                await call(client, run, question, each)
            assert len(str(refused.value)) < 500, (door, name)
    for call in LOOKED_UP.values():
        with pytest.raises(InvalidValue, match="surrogate"):
            await call(client, run, question, ODD["surrogate"])
    assert len((await client.list()).items) == 1
    assert (await client.promises.get(question)).state is PromiseState.PENDING


NO_KEY: dict[str, Any] = {"concurrency_key": "", "concurrency_limit": 1}

EMPTY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/runs", {"workflow": "asks", "group": ""}),
    ("/v1/runs", {"workflow": "asks", "group": " "}),
    ("/v1/runs", {"workflow": "\t"}),
    ("/v1/schedules", {"id": "s", "workflow": "\u00a0", "cron": "* * * * *"}),
    ("/v1/schedules", {"id": "s", "workflow": "asks", "cron": "* * * * *", "group": ""}),
    ("/v1/runs", {"workflow": "asks", "concurrency_key": " ", "concurrency_limit": 1}),
    ("/v1/schedules", {"id": "s", "workflow": "asks", "cron": "* * * * *", **NO_KEY}),
    ("/v1/runs/r/suspend", {"by": " "}),
    ("/v1/runs/r/resume", {"by": ""}),
    ("/v1/runs/r/cancel", {"by": ""}),
    ("/v1/runs/r/terminate", {"by": "\n"}),
    ("/v1/runs/r/signals", {"name": "paid", "by": ""}),
    ("/v1/promises/p/resolve", {"value": 1, "by": " "}),
    ("/v1/promises/p/cancel", {"by": ""}),
    ("/v1/questions/r.1/cancel", {"by": " "}),
    ("/v1/questions/r.1/reassign", {"to": ["user:ana"], "by": ""}),
    ("/v1/questions/r.1/deadline", {"timeout_seconds": 9.0, "by": ""}),
)


@in_asyncio
async def test_bodies_with_empty_names_are_refused(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def asks(ctx: Context) -> None:
        await ctx.wait_for_user("Go?")

    async with running(app) as client, serving(app) as server, httpx.AsyncClient() as http:
        await client.start("asks", id="r")
        await pauses(app, "r")
        await client.promises.create("p")
        for path, body in EMPTY:
            refused = await http.post(server.url + path, json=body)
            assert refused.status_code == 422, (path, body, refused.text)
            assert "empty" in refused.json()["detail"] or "is not a text of 1 to" in refused.json()["detail"]
        assert len((await client.list()).items) == 1
        assert (await client.get("r")).id == "r"
        assert (await client.promises.get("r.1")).state is PromiseState.PENDING
        assert (await client.promises.get("p")).state is PromiseState.PENDING
