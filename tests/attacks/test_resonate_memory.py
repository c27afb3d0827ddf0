"""The largest requests to the ports of Resonate's protocols, and the memory that they take, measured from outside."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.served import JSON, LONG_SECONDS, MOST_KIB, Served
from tests.server.resonate.speaker import NEVER, VERSION, envelope

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc"),
]

OPTIONS: Final = (
    *("--resonate", "--resonate-port", "0"),
    *("--resonate-legacy", "--resonate-legacy-port", "0", "--resonate-legacy-messages-port", "0"),
)
LONGEST: Final = 6 * 1024 * 1024 - 500
ROWS: Final = 24
AT_ONCE: Final = 20


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


TEXT: Final = _encoded(json.dumps("x" * 1_000_000))
LISTS: Final = _encoded(f"[{','.join(['[]'] * 340_000)}]")
QUESTION: Final = '{"text":"Pay?","metadata":{"x":%s}}'

IDS: Final[Mapping[str, bytes]] = {
    "lists": b"[" + b",".join([b"[]"] * (LONGEST // 3)) + b"]",
    "as many lists as may be": b"[" + b",".join([b"[]"] * 400_000) + b"]",
    "objects": b"[" + b",".join([b'{"":0}'] * 374_000) + b"]",
    "as many objects as may be": b"[" + b",".join([b'{"":0}'] * 155_000) + b"]",
    "nested": b"[" + b",".join([b'{"":{"":0}}'] * 249_000) + b"]",
    "text": b'"' + b"x" * LONGEST + b'"',
    "wide text": b'"' + b"x" * LONGEST + "\N{PILE OF POO}".encode() + b'"',
    "texts": b"[" + b",".join([b'"abcd"'] * 700_000) + b"]",
    "an invalid text at the end": b"[" + b",".join([b'{"":0}'] * 374_000) + b',"\n"]',
}


class Speaking(Served):
    """A server with the ports of both protocols."""

    def __init__(self, stack: ExitStack, url: str, folder: Path) -> None:
        super().__init__(stack, url, folder, *OPTIONS)
        self.today = self.said["resonate_url"]
        self.legacy, self.messages = self.said["resonate_legacy_url"], self.said["resonate_messages_url"]
        self.send("promise.get", {"id": "none"})
        self.http.get(f"{self.legacy}/promises/none")

    def send(self, kind: str, data: Any) -> httpx.Response:
        """Send a request of the protocol of today."""
        return self.post(json.dumps(envelope(kind, data)).encode())

    def post(self, body: bytes, **headers: str) -> httpx.Response:
        """Send a body to the protocol of today."""
        return self.http.post(self.today, content=body, headers={**JSON, **headers})

    def settle(self, id: str, data: str, listens: str | None = None) -> httpx.Response:
        """Create and settle a promise, with a listener."""
        self.send("promise.create", {"id": id, "timeoutAt": NEVER})
        if listens is not None:
            self.send("promise.register_listener", {"awaited": id, "address": f"poll://uni@g/{listens}"})
        return self.send("promise.settle", {"id": id, "state": "resolved", "value": {"data": data}})

    def poll(self, base: str, pid: str) -> int:
        """Read the messages of a process."""
        with self.http.stream("GET", f"{base}/g/{pid}") as reply:
            lines = (line for line in reply.iter_lines() if line.startswith("data"))
            for _ in range(ROWS):
                assert len(next(lines)) > 1_000_000
            return reply.status_code


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Speaking]:
    async def make(store: SqliteStore) -> None:
        await store.open()
        await store.close()

    with ExitStack() as stack:
        asyncio.run(make(SqliteStore(tmp_path / "signoff.db")))
        yield Speaking(stack, f"sqlite:///{tmp_path}/signoff.db", tmp_path)


def _with_id(id: bytes) -> bytes:
    head = b'{"corrId":"c","version":"%b"}' % VERSION.encode()
    return b'{"kind":"promise.get","head":%b,"data":{"id":%b}}' % (head, id)


def _requests(server: Speaking) -> Iterator[tuple[str, Callable[[], httpx.Response | int]]]:
    for name, id in IDS.items():
        yield name, partial(server.post, _with_id(id))
    for name, data in {"text": TEXT, "lists": LISTS}.items():
        param = {"data": data[: 4 * (250_000)]}
        yield f"value of {name}", partial(server.settle, f"settled {name}", data)
        yield f"get {name}", partial(server.send, "promise.get", {"id": f"settled {name}"})
        new = {"id": f"new {name}", "timeoutAt": NEVER, "param": param}
        yield f"param of {name}", partial(server.send, "promise.create", new)
        old = {"id": f"old {name}", "timeout": NEVER, "param": param}
        yield f"old param of {name}", partial(server.http.post, f"{server.legacy}/promises", json=old)
        yield f"old get {name}", partial(server.http.get, f"{server.legacy}/promises/settled {name}")
    for name, part in {"lists": "[]", "nested": '{"":{}}'}.items():
        terms = QUESTION % f"[{','.join([part] * (900_000 // (len(part) + 1)))}]"
        asked = {"id": f"q {name}", "timeoutAt": NEVER, "tags": {"signoff:question": terms}}
        yield f"question of {name}", partial(server.send, "promise.create", asked)
    tags = {"id": "tags", "timeoutAt": NEVER, "tags": {str(n): "" for n in range(60_000)}}
    yield "tags", partial(server.send, "promise.create", tags)
    held = [{"id": f"{'t' * 500}{n}", "version": 1} for n in range(10_000)]
    yield "heartbeat", partial(server.send, "task.heartbeat", {"pid": "p", "tasks": held})
    yield "search", partial(server.send, "promise.search", {"limit": 1000})
    yield "search by tags", partial(server.send, "promise.search", {"limit": 1000, "tags": {"a": "b"}})
    yield "messages", partial(server.poll, f"{server.today}/poll", "today")
    yield "old messages", partial(server.poll, server.messages, "old")


def test_no_request_to_its_ports_takes_much_of_a_server_s_memory(server: Speaking) -> None:
    for number in range(ROWS):
        server.settle(f"listened-{number}", TEXT, "today")
        server.settle(f"old-{number}", TEXT, "old")
    taken: dict[str, int] = {}
    statuses: set[int] = set()
    for name, send in _requests(server):
        with server.memory.rise() as risen:
            reply = send()
        taken[name] = risen[0]
        statuses.add(reply if isinstance(reply, int) else reply.status_code)
    print(sorted(taken.items(), key=lambda each: -each[1])[:8])
    assert statuses == {200, 201, 400, 422}
    assert {name: kib for name, kib in taken.items() if kib > MOST_KIB} == {}


@pytest.mark.parametrize("key", ["a key", "no key", "wrong keys"])
def test_long_bodies_of_one_sender_take_no_more_than_one(server: Speaking, key: str) -> None:
    body = _with_id(IDS["text"])

    def send(number: int) -> int:
        if key == "a key":
            return server.post(body).status_code
        headers = {**JSON, **({} if key == "no key" else {"authorization": f"Bearer sgw_{number:043}"})}
        return httpx.post(
            server.today, content=body, headers=headers, timeout=LONG_SECONDS, trust_env=False
        ).status_code

    with ThreadPoolExecutor(AT_ONCE) as senders, server.memory.rise() as risen:
        statuses = set(senders.map(send, range(AT_ONCE)))
    assert statuses <= ({400} if key == "a key" else {401, 429})
    assert risen[0] <= MOST_KIB  # 120 MiB of bodies
