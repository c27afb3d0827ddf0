"""What requests take of a server's memory, measured from outside, on the largest rows there are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from signoff.server.streams import MOST
from signoff.stores.base import Store
from signoff.stores.postgres import PostgresStore
from signoff.stores.sqlite import SqliteStore
from tests import worker_keys
from tests.attacks.large_rows import LONG_RUN, fill
from tests.attacks.measuring import Measured
from tests.attacks.requests_of_all import (
    LONG_BATCHES,
    Request,
    batch,
    entry_of,
    get_requests,
    operation,
    posts,
    store_operations,
)
from tests.cli.commands import Running, signoff
from tests.postgres.databases import fresh_database
from tests.server.described import description

MOST_KIB = 64 * 1024
MOST_OF_POSTGRES_KIB = 2 * MOST_KIB
"""Of a batch with a value of more than 8 MiB, which is copied more often on its way to Postgres."""
ROWS = 24
NAMES = ("sqlite", "postgres")
STREAM_BYTES = 12 * 1024 * 1024
"""How much is read of what has no end."""
LONG_SECONDS = 120.0
WAITING = 60
BATCHES = 8
JSON = {"content-type": "application/json"}

pytestmark = [
    pytest.mark.timeout(400),  # a store is filled with large rows first
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc"),
]


async def _fill(store: Store) -> None:
    await store.open()
    try:
        await fill(store, ROWS)
    finally:
        await store.close()


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.long) if name == "postgres" else name for name in NAMES],
)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store full of large rows."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("filled") / "signoff.db"
        asyncio.run(_fill(SqliteStore(path)))
        yield f"sqlite:///{path}"
        return
    with fresh_database() as database:
        asyncio.run(_fill(PostgresStore(database)))
        yield database


class Served:
    """A server as a process of its own, and a client of it."""

    def __init__(self, stack: ExitStack, url: str, folder: Path) -> None:
        made = ("keys", "create", "bot", "--role", "admin", "--act-as", "--store", url, "--json")
        key = signoff(*made, cwd=folder).json["key"]
        shared = {"SIGNOFF_WORKER_KEY": worker_keys.SECRET}
        server = stack.enter_context(Running("server", "--store", url, "--port", "0", cwd=folder, **shared))
        port = server.wait_for("listening")["port"]
        self.memory = Measured(server.process.pid)
        self.http = stack.enter_context(
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}",
                headers={"authorization": f"Bearer {key}"},
                timeout=LONG_SECONDS,
                trust_env=False,
                limits=httpx.Limits(max_connections=None),
            )
        )
        for path in (
            "/v1/runs?limit=1",
            "/openapi.json",
            "/v1/questions?limit=1",
            "/metrics",
        ):  # imports, caches
            self.http.get(path)

    def hold(self, run_id: str) -> tuple[str, int]:
        """Start a run, hold its lease and write an entry. Returns its id and the epoch of the lease."""
        new = {"id": run_id, "workflow": run_id, "group": "default", "arguments": '{"args":[]}'}
        claim = {"worker_id": "w", "group": "default", "workflows": [run_id], "limit": 1}
        self._ask(operation("create_run", new=new))
        epoch = self._ask(operation("claim", **claim))[0]["run"]["epoch"]
        self._ask(operation("append", write={"run_id": run_id, "epoch": epoch, "entries": [entry_of(0)]}))
        return run_id, epoch

    def _ask(self, asked: dict[str, Any]) -> Any:
        content = batch([asked], f"client {uuid4()}")
        headers = {**JSON, "authorization": f"Bearer {worker_keys.SECRET}"}
        return self.http.post("/v1/store", content=content, headers=headers).json()["result"]

    def take(self, method: str, path: str, **more: Any) -> int:
        """Send a request and read its reply. Returns the status."""
        size = 0
        if path.startswith("/v1/store"):
            headers = {"authorization": f"Bearer {worker_keys.SECRET}"}
            more = {**more, "headers": {**more.get("headers", {}), **headers}}
        with self.http.stream(method, path, **more) as reply:
            for part in reply.iter_raw():
                size += len(part)
                if path.endswith("events") and (
                    size > STREAM_BYTES or part.endswith(b"event: gap\ndata: {}\n\n")
                ):
                    break
            return reply.status_code


@pytest.fixture(params=NAMES)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """A server of an empty store, which does nothing but what it is asked."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            store: Store = SqliteStore(tmp_path / "signoff.db")
            url = f"sqlite:///{tmp_path}/signoff.db"
        else:
            url = stack.enter_context(fresh_database())
            store = PostgresStore(url)
        asyncio.run(_make(store))
        yield Served(stack, url, tmp_path)


async def _make(store: Store) -> None:
    await store.open()
    await store.close()


@pytest.fixture
def served(url: str, tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(stack, url, tmp_path)


@pytest.mark.parametrize(
    "which",
    [
        "what is read",
        pytest.param("what is sent", marks=pytest.mark.long),
        pytest.param("what workers ask for", marks=pytest.mark.long),
    ],
)
def test_no_request_takes_much_of_a_server_s_memory(served: Served, which: str) -> None:
    kinds: dict[str, Callable[[], Iterable[Request]]] = {
        "what is read": partial(get_requests, description()),
        "what is sent": partial(posts, description()),
        "what workers ask for": store_operations,
    }
    taken: dict[str, int] = {}
    for name, method, path, more in kinds[which]():
        if path.endswith("events") and path != f"/v1/runs/{LONG_RUN}/events":
            continue  # it waits for what happens
        with served.memory.rise() as risen:
            status = served.take(method, path, **more)
        assert status < 500, f"{name}: {status}"
        taken[name] = risen[0]
    assert len(taken) > 20
    assert {name: kib for name, kib in taken.items() if kib > MOST_KIB} == {}


@pytest.mark.long
@pytest.mark.parametrize("kind", LONG_BATCHES)
def test_no_batch_of_a_worker_takes_much_of_a_server_s_memory(
    empty: Served, kind: str, request: pytest.FixtureRequest
) -> None:
    content = LONG_BATCHES[kind](*empty.hold(f"holds {kind}"))
    with empty.memory.rise() as risen:
        status = empty.take("POST", "/v1/store", content=content, headers=JSON)
    assert status == (422 if "own" in kind else 200)
    assert risen[0] <= (MOST_KIB if "sqlite" in request.node.name else MOST_OF_POSTGRES_KIB)


@pytest.mark.long
def test_batches_that_one_worker_key_sends_at_once_take_little_more_than_one(empty: Served) -> None:
    contents = [LONG_BATCHES["text"](*empty.hold(f"held-{number}")) for number in range(BATCHES)]
    with ThreadPoolExecutor(BATCHES) as senders, empty.memory.rise() as risen:
        sent = [
            senders.submit(empty.take, "POST", "/v1/store", content=content, headers=JSON)
            for content in contents
        ]
        assert {each.result() for each in sent} == {200}
    assert risen[0] <= 2 * MOST_KIB  # of 120 MiB that they are


def test_replies_that_workers_may_ask_for_again_are_kept_up_to_a_bound(served: Served) -> None:
    before = served.memory.resident_kib
    for number in range(12):  # 14 kB each, that kept 733 MB
        asked = [operation("cancel", run_id=f"ended-{each % ROWS}") for each in range(100)]
        headers = {"content-type": "application/json"}
        assert (
            served.take("POST", "/v1/store", content=batch(asked, f"client-{number}"), headers=headers) == 200
        )
    assert served.memory.resident_kib - before < MOST_KIB
    kept = [
        line
        for line in served.http.get("/metrics").text.splitlines()
        if line.startswith("signoff_kept_reply_bytes")
    ]
    assert 0 < float(kept[0].split()[1]) <= 5 * 1024 * 1024


def test_who_waits_for_a_run_holds_nothing_of_it(served: Served) -> None:
    async def wait() -> int:
        limits = httpx.Limits(max_connections=WAITING)
        base = str(served.http.base_url)
        async with httpx.AsyncClient(
            base_url=base, headers=served.http.headers, timeout=LONG_SECONDS, trust_env=False, limits=limits
        ) as client:
            waits = [
                asyncio.create_task(client.get(f"/v1/runs/{LONG_RUN}/result", params={"wait": "60"}))
                for _ in range(WAITING)
            ]
            async with asyncio.timeout(LONG_SECONDS):
                while f'{{kind="wait"}} {WAITING}.0' not in (await asyncio.to_thread(metrics)):
                    await asyncio.sleep(0.1)
            held = served.memory.resident_kib - before
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            return held

    def metrics() -> str:
        return served.http.get("/metrics").text

    before = served.memory.resident_kib
    assert asyncio.run(wait()) < MOST_KIB


def test_one_caller_has_a_bounded_number_of_streams_open(served: Served) -> None:
    with ExitStack() as stack:
        statuses: list[int] = []
        while len(statuses) <= MOST["journal"]:
            stream = served.http.stream("GET", f"/v1/runs/{LONG_RUN}/events", params={"after": ROWS * 2})
            statuses.append(stack.enter_context(stream).status_code)
        assert statuses == [200] * MOST["journal"] + [429]
    give_up_at = time.monotonic() + LONG_SECONDS
    while (
        served.take("GET", "/v1/runs/ended-0/events") != 200
    ):  # the server has yet to see all of them closed
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
