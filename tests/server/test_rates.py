"""How often links may be asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from signoff.errors import TooManyRequests
from signoff.people.links import create_link
from signoff.people.questions import Question
from signoff.records import NewPromise, PromiseKind, Rate
from signoff.server import TrustedProxy, create_server_app, rates
from signoff.server.rates import FAILURE_COST, MOST_BUCKETS, OF_LINKS, OF_PEERS, Buckets
from signoff.stores.sqlite import SqliteStore
from tests.support import in_asyncio


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_lets_through_what_its_rate_says_and_fills_again() -> None:
    time = Time()
    buckets = Buckets(Rate(3, 6.0), time)
    for _ in range(3):
        buckets.take("ana")
    with pytest.raises(TooManyRequests) as refused:
        buckets.take("ana")
    assert refused.value.retry_after_seconds == 2
    buckets.take("bob")
    time.now += 2
    buckets.take("ana")
    time.now += 1000
    for _ in range(3):
        buckets.take("ana")
    with pytest.raises(TooManyRequests):
        buckets.take("ana")


def test_what_is_charged_has_to_fill_up_first() -> None:
    time = Time()
    buckets = Buckets(Rate(10, 10.0), time)
    buckets.charge("eve", 1000)
    with pytest.raises(TooManyRequests) as refused:
        buckets.take("eve")
    assert refused.value.retry_after_seconds == 11
    time.now += 11
    buckets.take("eve")


def test_who_only_looks_takes_nothing_and_is_not_remembered() -> None:
    time = Time()
    buckets = Buckets(Rate(1, 10.0), time)
    buckets.charge("eve", 1)
    for number in range(MOST_BUCKETS + 1):
        buckets.check(str(number))
    with pytest.raises(TooManyRequests) as refused:
        buckets.check("eve")
    assert refused.value.retry_after_seconds == 10
    time.now += 10
    buckets.check("eve")
    buckets.take("eve")


def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    time = Time()
    buckets = Buckets(Rate(2, 10.0), time)
    buckets.take("ana")
    time.now -= 1000
    buckets.take("ana")
    time.now += 5
    buckets.take("ana")


def test_whoever_asked_least_recently_is_forgotten_so_that_memory_is_bounded() -> None:
    buckets = Buckets(Rate(1, 1000.0))
    buckets.take("first")
    for number in range(MOST_BUCKETS - 1):
        buckets.take(str(number))
    with pytest.raises(TooManyRequests):
        buckets.take("first")
    for number in range(MOST_BUCKETS):
        buckets.take(f"other {number}")
    buckets.take("first")


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of servers do not fill again, however long the machine takes."""
    monkeypatch.setattr(rates, "Buckets", partial(Buckets, now=Time()))


@asynccontextmanager
async def reached_from(
    folder: Path, address: str, proxy: TrustedProxy | None = None
) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A server as somebody at an address sees it, and the path of a link."""
    store = SqliteStore(folder / "signoff.db")
    api = create_server_app(store, proxy=proxy)
    try:
        async with api.router.lifespan_context(api):
            question = Question.make("Go on?").to_json()
            await store.create_promise(NewPromise("q", PromiseKind.QUESTION, data=question))
            link = await create_link(store, "q", user_id="ana")
            transport = httpx.ASGITransport(api, client=(address, 4711))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                yield http, link.path
    finally:
        await store.close()


@in_asyncio
async def test_whoever_guesses_is_soon_told_to_wait_and_nothing_else(tmp_path: Path) -> None:
    async with reached_from(tmp_path, "203.0.113.9") as (http, _):
        guesses = OF_PEERS.count // (FAILURE_COST + 1) + 1
        told = [(await http.get(f"/l/guess{number}")).status_code for number in range(guesses + 3)]
        assert set(told[:guesses]) == {404}
        assert set(told[guesses:]) == {429}
        headers = {"accept": "application/problem+json"}
        refused = await http.post("/l/guess", headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:signoff:TooManyRequests")
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.headers["cache-control"] == "no-store"
        assert (await http.get("/v1/questions")).status_code == 200


@in_asyncio
async def test_a_link_may_be_asked_for_so_often(tmp_path: Path) -> None:
    async with reached_from(tmp_path, "127.0.0.1") as (http, path):
        told = [(await http.get(path)).status_code for _ in range(OF_LINKS.count + 20)]
        assert told[: OF_LINKS.count] == [200] * OF_LINKS.count
        assert 429 in told[OF_LINKS.count :]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7"])
@in_asyncio
async def test_guesses_of_one_behind_a_proxy_keep_nobody_else_out(tmp_path: Path, address: str) -> None:
    proxy = TrustedProxy("X-User", addresses=["10.0.0.7", "127.0.0.1"])
    async with reached_from(tmp_path, address, proxy) as (http, path):
        for number in range(60):
            assert (await http.get(f"/l/guess{number}")).status_code == 404
        assert (await http.get(path)).status_code == 200
