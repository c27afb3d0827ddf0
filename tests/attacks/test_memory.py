"""Memory that requests take on a server, measured from outside, with the largest possible rows."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest

from signoff.people.questions.question import Question
from signoff.server.limits.streams import MOST
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.large_rows import LONG_RUN, TEXT
from tests.attacks.requests_of_all import (
    LONG_BATCHES,
    Request,
    batch,
    get_requests,
    operation,
    posts,
    store_operations,
)
from tests.attacks.served import JSON, LONG_SECONDS, MOST_KIB, NAMES, ROWS, Served
from tests.postgres.databases import migrated_database
from tests.server.described import description

WAITING = 60
BATCHES = 8
ANSWERS = 30
WRITTEN = ("text", "text with an emoji", "result", "entries", "large entries", "several")
"""Batches of which one store may make more than another. The rest differ in what it takes to read them."""

pytestmark = [
    pytest.mark.timeout(400),  # a store is filled with large rows first
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc"),
]


@pytest.fixture(params=NAMES)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """A server of an empty store, which does nothing but what it is asked."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            store: Store = SqliteStore(tmp_path / "signoff.db")
            url = f"sqlite:///{tmp_path}/signoff.db"
        else:
            url = stack.enter_context(migrated_database())
            store = PostgresStore(url)
        asyncio.run(_make(store))
        yield Served(stack, url, tmp_path)


async def _make(store: Store) -> None:
    await store.open()
    await store.close()


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
@pytest.mark.parametrize(
    ("empty", "kind"),
    [*(("sqlite", kind) for kind in LONG_BATCHES), *(("postgres", kind) for kind in WRITTEN)],
    indirect=["empty"],
)
def test_no_batch_of_a_worker_takes_much_of_a_server_s_memory(empty: Served, kind: str) -> None:
    content = LONG_BATCHES[kind](*empty.hold(f"holds {kind}"))
    with empty.memory.rise() as risen:
        status = empty.take("POST", "/v1/store", content=content, headers=JSON)
    assert status == (422 if "own" in kind else 200)
    assert risen[0] <= MOST_KIB


@pytest.mark.long
def test_concurrent_batches_of_one_worker_key_take_little_more_than_one(empty: Served) -> None:
    contents = [LONG_BATCHES["text"](*empty.hold(f"held-{number}")) for number in range(BATCHES)]
    with ThreadPoolExecutor(BATCHES) as senders, empty.memory.rise() as risen:
        sent = [
            senders.submit(empty.take, "POST", "/v1/store", content=content, headers=JSON)
            for content in contents
        ]
        assert {each.result() for each in sent} == {200}
    assert risen[0] <= 2 * MOST_KIB  # of 120 MiB that they are


def test_many_answers_at_once_take_no_more_than_one_request_may(empty: Served) -> None:
    run_id, epoch = empty.hold("asks")
    ids = [f"asks.{number}" for number in range(1, ANSWERS + 1)]
    for n, id in enumerate(ids, 1):
        opened = {"seq": n, "at": 1.5, "kind": "opened", "n": n, "call": "question", "name": "Pay?"}
        data = Question.make("Pay?", metadata={"x": json.loads(TEXT)}).to_json()
        new = {"id": id, "kind": "question", "run_id": run_id, "n": n, "data": data}
        empty.ask(
            operation("append", write={"run_id": run_id, "epoch": epoch, "entries": [opened], "opens": [new]})
        )
    for value, came_of_it in (({"approved": "perhaps"}, "problem"), ({"approved": True}, "question")):
        answers = [{"question_id": id, "value": value} for id in ids]
        with empty.memory.rise() as risen:
            content = json.dumps({"user_id": "ana", "answers": answers})
            with empty.http.stream("POST", "/v1/questions/answers", content=content, headers=JSON) as reply:
                assert reply.status_code == 200
                items = json.loads(reply.read())["items"]
        assert [each["question_id"] for each in items] == ids
        assert all(came_of_it in each for each in items)
        assert risen[0] <= MOST_KIB, came_of_it


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
