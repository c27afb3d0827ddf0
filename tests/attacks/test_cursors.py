"""A tenant learns nothing about others from list cursors, though the rows of all share one sequence."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import Signoff
from signoff.errors import AccessDenied, InvalidValue
from signoff.records import (
    AuditKind,
    NewAuditEvent,
    NewPromise,
    NewRun,
    PromiseKind,
    TokenKind,
)
from signoff.records.deliveries import NewDelivery
from signoff.records.paging import PromiseFilter, RunFilter
from signoff.server import Role, Server
from signoff.server.auth.key_file import WorkerKeys, new_worker_key
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.tokens import new_token
from signoff.stores.wrappers.sealed_cursors import NUMBERED
from signoff.testing import VirtualClock
from tests.postgres.databases import migrated_database
from tests.support import in_asyncio

WORKER, WORKER_KEY = new_worker_key("mine")
LISTS = ("runs", "promises", "questions", "audit", "sessions", "deliveries", "keys", "questions/q-0/links")
ROWS = 3


async def _fill(store: Store, rows: int) -> None:
    """Have some rows of each kind."""
    for number in range(rows):
        await store.create_run(NewRun(f"r-{number}", "pay", "default", "{}", session_id=f"s-{number}"))
        await store.create_promise(NewPromise(f"q-{number}", PromiseKind.QUESTION, data='{"text": "Pay?"}'))
        secret, new = new_token(TokenKind.LINK, "user:ana", question_id="q-0")
        await store.create_token(new)
        assert secret
        event = NewAuditEvent(f"e-{number}", AuditKind.VIEWED, "q-0", by="ana")
        await store.record([event])
    sent = [
        NewDelivery(f"d-{number}", "ana", f"e-{number}", 0, AuditKind.ASKED, "q-0", None)
        for number in range(rows)
    ]
    assert await store.expand("mail", None, 0, sent)


@asynccontextmanager
async def _tenants(make: Callable[[], Store], others: int) -> AsyncIterator[tuple[Server, str]]:
    """A server of a tenant with some rows, after another tenant has made others; and the tenant's key."""
    store = make()
    await store.open()
    try:
        if others:
            await _fill(store.within("others"), others)
        mine = store.within("mine")
        await _fill(mine, ROWS)
        keys = [await StoredKeys(mine).create_for_service(f"k-{n}", [Role.ADMIN]) for n in range(ROWS)]
        async with Server(Signoff(store), port=0, worker_keys=WorkerKeys([WORKER_KEY])) as server:
            yield server, keys[0][0]
    finally:
        await store.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    if request.param == "sqlite":
        yield lambda: SqliteStore(tmp_path / "signoff.db", clock=VirtualClock())
        return
    with migrated_database() as url:
        yield lambda: PostgresStore(url, clock=VirtualClock())


def _http(server: Server, key: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=f"{server.url}/v1/", headers=headers, trust_env=False, timeout=60)


async def _paged(http: httpx.AsyncClient, path: str) -> tuple[list[str], list[str]]:
    """Read a list row by row: what it has, and its cursors."""
    ids: list[str] = []
    cursors: list[str] = []
    query: dict[str, Any] = {"limit": 1, **({"kind": "question"} if path == "promises" else {})}
    while True:
        answer = await http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        ids += [item["id"] for item in page["items"]]
        if page["next"] is None:
            return ids, cursors
        cursors.append(page["next"])
        query["after"] = page["next"]


@in_asyncio
async def test_cursors_of_a_tenant_show_no_number_and_lead_through_the_list(
    make: Callable[[], Store],
) -> None:
    async with _tenants(make, others=7) as (server, key), _http(server, key) as http:
        for path in LISTS:
            ids, cursors = await _paged(http, path)
            assert len(ids) == len(set(ids)) >= ROWS, path
            assert len(cursors) >= ROWS - 1
            for cursor in cursors:
                assert re.fullmatch(r"[A-Za-z0-9_-]{27}", cursor), (path, cursor)
                written = base64.urlsafe_b64decode(cursor + "=")
                assert not any(n.to_bytes(8, "big") in written for n in range(200)), path


@in_asyncio
async def test_every_cursor_is_good_at_another_server_of_the_database(make: Callable[[], Store]) -> None:
    async with _tenants(make, others=1) as (server, key), _http(server, key) as http:
        cursor = (await http.get("runs", params={"limit": 1})).json()["next"]
        other = make()
        try:
            async with Server(Signoff(other), port=0) as second, _http(second, key) as there:
                page = (await there.get("runs", params={"limit": 1, "after": cursor})).json()
        finally:
            await other.close()
    assert [item["id"] for item in page["items"]] == ["r-1"]


@in_asyncio
async def test_no_number_and_no_other_cursor_is_taken(make: Callable[[], Store]) -> None:
    """With numbers as cursors a tenant would find the number of each of its rows by bisection."""
    async with _tenants(make, others=1) as (server, key), _http(server, key) as http:
        cursor = (await http.get("runs", params={"limit": 1})).json()["next"]
        foreign = await StoredKeys(make_within(server, "others")).create_for_service("spy", [Role.ADMIN])
        attacks = [
            *("0", "1", "5", "9" * 18, "-1", "", " ", "A" * 27, "A" * 10_000, "é", "%00", "=" * 27),
            *(cursor[:-1], cursor + "A", cursor.swapcase(), cursor[::-1], f"{cursor}=", f" {cursor}"),
        ]
        for attack in attacks:
            answer = await http.get("runs", params={"after": attack})
            assert answer.status_code == 422, attack
        assert (await http.get("sessions", params={"after": cursor})).status_code == 422, "of another list"
        async with _http(server, foreign[0]) as spy:
            assert (await spy.get("runs", params={"after": cursor})).status_code == 422, "of another tenant"


def make_within(server: Server, namespace: str) -> Store:
    return server._app.state.services.store.within(namespace)


@in_asyncio
async def test_the_store_door_shows_no_number_either(make: Callable[[], Store]) -> None:
    async with _tenants(make, others=5) as (server, _):
        store = RemoteStore(server.url, key=WORKER, namespace="mine")
        await store.open()
        try:
            page = await store.list_runs(RunFilter(), limit=1)
            assert page.next is not None
            assert not page.next.isdecimal()
            rest = await store.list_runs(RunFilter(), after=page.next)
            assert [run.id for run in (*page.items, *rest.items)] == ["r-2", "r-1", "r-0"]
            questions = await store.list_promises(PromiseFilter(kind=PromiseKind.QUESTION), limit=1)
            assert not (questions.next or "0").isdecimal()
            with pytest.raises(InvalidValue, match="after"):
                await store.list_runs(RunFilter(), after="3")
            with pytest.raises(AccessDenied):
                await store.read_cursor("signoff:cursors:0")
            assert await store.due() is None, "when something is due next is another tenant's affair"
        finally:
            await store.close()


def test_each_list_of_the_contract_is_sealed_or_paged_by_visible_rows() -> None:
    """A new list is in one of these."""
    lists = {name for name in dir(Store) if name.startswith("list_")}
    unpaged = {"list_groups", "list_workers", "list_branch"}
    by_name = {"list_schedules", "list_workflows", "list_tasks", "list_calls", "list_promise_schedules"}
    by_name |= {"list_checkpoints"}
    assert lists == NUMBERED | unpaged | by_name


@in_asyncio
async def test_the_key_of_cursors_is_random_in_each_namespace(tmp_path: Path) -> None:
    found: set[str] = set()
    for number in range(4):
        store = SqliteStore(tmp_path / f"{number}.db", namespace=f"n{number % 2}")
        await store.open()
        for run in range(2):
            await store.create_run(NewRun(f"r-{run}", "pay", "default", "{}"))
        async with Server(store, port=0) as server, httpx.AsyncClient(trust_env=False) as http:
            found.add((await http.get(f"{server.url}/v1/runs", params={"limit": 1})).json()["next"])
        await store.close()
    assert len(found) == 4
