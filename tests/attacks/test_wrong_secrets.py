"""A trickle of wrong secrets through a proxy: valid links, callbacks and keys behind it keep working."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from signoff import Context
from signoff.people.links.answer_links import create_link
from signoff.people.questions.question import Question
from signoff.records import NewPromise, PromiseKind
from signoff.server import Forwarding, app, create_server_app
from signoff.server.limits.wrong_secrets import ALLOWED, WrongSecretLimit
from signoff.stores.sqlite.store import SqliteStore
from tests.support import in_asyncio, new_app, opens, running

PROXY = "10.0.0.7"
PROBLEM = {"accept": "application/problem+json"}


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allowances are not renewed, however long the machine takes."""
    monkeypatch.setattr(app, "WrongSecretLimit", lambda _, *more: WrongSecretLimit(lambda: 100.0, *more))


@asynccontextmanager
async def behind_proxy(
    folder: Path, forwarding: Forwarding | None = None
) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A server as the proxy reaches it, and the path of an answer link."""
    store = SqliteStore(folder / "signoff.db")
    api = create_server_app(store, forwarding=forwarding)
    try:
        async with api.router.lifespan_context(api):
            question = Question.make("Go on?").to_json()
            await store.create_promise(NewPromise("q", PromiseKind.QUESTION, data=question))
            link = await create_link(store, "q", user_id="ana")
            transport = httpx.ASGITransport(api, client=(PROXY, 4711))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                yield http, link.path
    finally:
        await store.close()


@in_asyncio
async def test_guesses_are_held_up_and_say_nothing_more(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (http, _):
        statuses = [(await http.get(f"/l/guess{n}")).status_code for n in range(ALLOWED.count + 5)]
        assert statuses == [404] * ALLOWED.count + [429] * 5
        for path in ("/l/guess", "/c/guess"):
            refused = await http.post(path, headers=PROBLEM)
            assert (refused.status_code, refused.json()["type"]) == (429, "urn:signoff:TooManyRequests")
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.headers["cache-control"] == "no-store"
        assert (await http.get("/v1/questions")).status_code == 200


@pytest.mark.parametrize("path", ["/l/guess{}", "/c/guess{}", "/v1/me"])
@in_asyncio
async def test_a_right_link_is_never_held_back_by_wrong_secrets_of_its_address(
    tmp_path: Path, path: str
) -> None:
    async with behind_proxy(tmp_path) as (http, link):
        for n in range(5 * ALLOWED.count):
            wrong = await http.get(path.format(n), headers={"authorization": f"Bearer sgk_{n:043}"})
        assert wrong.status_code == 429
        assert (await http.get(link)).status_code == 200


@pytest.mark.parametrize("path", ["/l/guess{}", "/c/guess{}", "/v1/me"])
@in_asyncio
async def test_a_right_callback_is_never_held_back_by_its_address_wrong_secrets(
    tmp_path: Path, path: str
) -> None:
    app = new_app(tmp_path, public_url="http://localhost")
    told: list[str] = []

    @app.workflow
    async def pay(ctx: Context) -> Any:
        paid = await ctx.callback("Payment")
        await ctx.step("tell", lambda: told.append(urlsplit(paid.url).path))
        return (await paid).value.json()

    async with behind_proxy(tmp_path) as (http, _), running(app) as client:
        run = await client.start(pay, id="r")
        await opens(app, "r.1")
        while not told:
            await asyncio.sleep(0)
        for n in range(2 * ALLOWED.count):
            wrong = await http.get(path.format(n), headers={"authorization": f"Bearer sgk_{n:043}"})
        assert wrong.status_code == 429
        assert (await http.post(told[0], json={"cents": 7})).status_code == 200
        assert await run.result(60) == {"cents": 7}


@in_asyncio
async def test_a_right_link_is_never_held_back_however_often_it_is_opened(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (http, link):
        statuses = {(await http.get(link)).status_code for _ in range(400)}
        assert statuses == {200}


@in_asyncio
async def test_a_proxy_that_states_clients_has_each_counted_by_itself(tmp_path: Path) -> None:
    forwarding = Forwarding("X-Forwarded-For", addresses=[PROXY])
    async with behind_proxy(tmp_path, forwarding) as (http, _):
        get = partial(http.get, "/l/guess")
        for _ in range(ALLOWED.count + 1):
            eve = await get(headers={"x-forwarded-for": "203.0.113.9"})
        assert eve.status_code == 429
        assert (await get(headers={"x-forwarded-for": "198.51.100.1"})).status_code == 404
