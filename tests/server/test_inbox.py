"""The stream of an inbox's changes: complete, in order, resumable, and without other people's questions."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import Signoff
from signoff.codec.ciphers import Ciphers, EncryptionKey
from signoff.people.audit.sealing import seal_events
from signoff.people.questions.question import Question
from signoff.records import AuditKind, NewAuditEvent, NewPromise, PromiseKind, PromiseState, Settlement
from signoff.redaction import Redaction
from signoff.server import Server, services
from signoff.server.feeds import inbox_feed as inboxes
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.encrypted import encrypted
from signoff.wire.sse import Event, read_events
from tests.server import workflows
from tests.server.conftest import app_in, asked, kind, serving, start
from tests.server.proxied import PROXY, through
from tests.support import OnThread, in_asyncio

PATH = "/v1/questions/events"


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("inboxes"))
    with OnThread(lambda: serving(app, proxy=PROXY)) as served:
        yield served


Lines = Iterator[str]


class Stream:
    """A stream of an inbox, read event by event."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.last_id: str | None = None
        self.next_frame()  # where it begins

    def next_frame(self) -> dict[str, str]:
        """The next event, or the next word that the stream lives."""
        frame: dict[str, str] = {}
        for line in self._lines:
            if not line:
                break
            field, _, value = line.partition(": ")
            frame[field] = value
        self.last_id = frame.get("id", self.last_id)
        return frame

    def next(self) -> tuple[str, dict[str, Any]]:
        """The name and the data of the next event."""
        while "data" not in (frame := self.next_frame()):
            assert frame, "the stream has ended"
        return frame["event"], json.loads(frame["data"])


@contextmanager
def listening(http: httpx.Client, last_id: str | None = None, **which: Any) -> Iterator[Stream]:
    headers = {} if last_id is None else {"last-event-id": last_id}
    with http.stream("GET", PATH, params=which, headers=headers, timeout=60) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        yield Stream(response.iter_lines())


def client_of(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60)


def told(stream: Stream) -> tuple[str, str]:
    event, data = stream.next()
    return event, data["id"]


def ask(http: httpx.Client, id: str, *assignees: str, **policy: Any) -> str:
    """Have a run ask, and return the question's id."""
    start(http, "approve", id, kwargs={"assignees": list(assignees), **policy})
    return asked(http, id)


def test_each_change_of_a_question_is_sent_with_its_current_state(http: httpx.Client, name: str) -> None:
    start(http, "listen", name)  # that it is there is enough
    with listening(http, run_id=f"{name}-2") as inbox:
        question = ask(http, f"{name}-2")
        event, data = inbox.next()
        assert (event, data) == ("asked", http.get(f"/v1/questions/{question}").json())
        http.post(f"/v1/questions/{question}/claim", json={"user_id": "ana"})
        event, data = inbox.next()
        assert (event, data["progress"]["claimed_by"]) == ("changed", "user:ana")
        http.post(f"/v1/questions/{question}/answer", json={"value": True, "user_id": "ana"})
        event, data = inbox.next()
        assert (event, data["state"], data["settled_by"]) == ("settled", "resolved", "ana")


def test_what_only_the_trail_knows_is_no_change(http: httpx.Client, name: str) -> None:
    with listening(http, run_id=name) as inbox:
        question = ask(http, name)
        assert told(inbox) == ("asked", question)
        http.post(f"/v1/questions/{question}/view", json={"user_id": "ana"})
        http.post(f"/v1/questions/{question}/answer", json={"value": "yes", "user_id": "ana"})  # refused
        http.post(f"/v1/runs/{name}/cancel")
        assert told(inbox) == ("settled", question)


def test_an_inbox_of_assignees_gets_theirs_and_open_questions(http: httpx.Client, name: str) -> None:
    with listening(http, assignee=[f"user:{name}", f"group:{name}"]) as inbox:
        ask(http, f"{name}-1", "user:bob")
        theirs = [
            ask(http, f"{name}-2", f"user:{name}"),
            ask(http, f"{name}-3", f"group:{name}", "user:bob"),
            ask(http, f"{name}-4"),
        ]
        for question in theirs:
            assert told(inbox) == ("asked", question)


def test_a_reassigned_question_is_announced_as_gone_by_its_id(http: httpx.Client, name: str) -> None:
    with listening(http, assignee=f"user:{name}") as mine, listening(http, assignee="user:bob") as bobs:
        question = ask(http, name, f"user:{name}")
        assert told(mine) == ("asked", question)
        body = {"user_id": name, "to": ["user:bob"]}
        assert http.post(f"/v1/questions/{question}/delegate", json=body).status_code == 200
        assert mine.next() == ("gone", {"id": question})
        assert told(bobs) == ("changed", question)


def test_a_question_escalated_away_is_announced_as_gone(http: httpx.Client, name: str) -> None:
    with listening(http, assignee=f"user:{name}") as mine, listening(http, assignee="user:boss") as bosses:
        question = ask(http, name, f"user:{name}", escalate_to=["user:boss"])
        assert told(mine) == ("asked", question)
        assert mine.next() == ("gone", {"id": question})
        assert told(bosses) == ("changed", question)


# Behind a proxy


def test_a_responder_is_notified_of_assigned_questions_only(proxied: Server, name: str) -> None:
    with (
        through(proxied, "boss", roles="operator") as boss,
        through(proxied, "ana", groups=name) as ana,
        through(proxied, "eve") as eve,
        listening(ana) as anas,
        listening(eve) as eves,
        listening(boss) as all_,
    ):
        secret = ask(boss, f"{name}-1", "user:carl")
        hers = ask(boss, f"{name}-2", f"group:{name}")
        boss.post(f"/v1/runs/{name}-1/cancel")
        last = ask(boss, f"{name}-3", "user:eve", "user:ana")
        assert [told(anas) for _ in range(2)] == [("asked", hers), ("asked", last)]
        assert told(eves) == ("asked", last)
        assert sorted(told(all_)[1] for _ in range(4)) == sorted([secret, secret, hers, last])


def test_a_requester_under_four_eyes_is_not_notified(proxied: Server, name: str) -> None:
    with through(proxied, "boss", roles="operator") as boss, listening(boss, run_id=name) as all_:
        with through(proxied, "req", roles="operator") as requester:
            start(requester, "sign", name, ["user:req", "user:ana"], True)
            question = asked(requester, name)
        assert told(all_) == ("asked", question)
        with through(proxied, "req") as req, through(proxied, "ana") as ana:
            before = str(int(all_.last_id or "") - 1)
            with listening(ana, last_id=before) as anas, listening(req, last_id=before) as reqs:
                assert told(anas) == ("asked", question)
                other = ask(boss, f"{name}-2", "user:req")
                assert told(reqs) == ("asked", other)


def test_a_former_assignee_is_notified_only_if_it_was_theirs(proxied: Server, name: str) -> None:
    with (
        through(proxied, "boss", roles="operator") as boss,
        through(proxied, "ana") as ana,
        through(proxied, "bob") as bob,
        through(proxied, "eve") as eve,
        listening(ana) as anas,
        listening(bob) as bobs,
        listening(eve) as eves,
    ):
        question = ask(boss, name, "user:ana")
        assert told(anas) == ("asked", question)
        assert ana.post(f"/v1/questions/{question}/delegate", json={"to": ["user:bob"]}).status_code == 200
        assert anas.next() == ("gone", {"id": question})
        assert told(bobs) == ("changed", question)
        last = ask(boss, f"{name}-2", "user:eve")
        assert told(eves) == ("asked", last)


def test_an_inbox_of_others_is_refused(proxied: Server) -> None:
    with through(proxied, "ana") as ana:
        refused = ana.get(PATH, params={"assignee": "user:bob"})
        assert (refused.status_code, kind(refused)) == (403, "AccessDenied")
    with through(proxied) as nobody:
        assert nobody.get(PATH).status_code == 401


@pytest.mark.parametrize(
    ("params", "headers"),
    [
        ({"assignee": "ana"}, {}),
        ({"run_id": "\0"}, {}),
        ({}, {"last-event-id": "x"}),
        ({}, {"last-event-id": str(2**63)}),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_stream_begins(
    http: httpx.Client, params: dict[str, str], headers: dict[str, str]
) -> None:
    assert http.get(PATH, params=params, headers=headers).status_code == 422


# Lost streams


def test_a_stream_that_was_lost_goes_on_where_it_was(http: httpx.Client, name: str) -> None:
    with listening(http, run_id=name) as inbox:
        question = ask(http, name)
        assert told(inbox) == ("asked", question)
    http.post(f"/v1/questions/{question}/claim", json={"user_id": "ana"})
    http.post(f"/v1/questions/{question}/answer", json={"value": True, "user_id": "ana"})
    with listening(http, run_id=name, last_id=inbox.last_id) as again:
        assert [told(again)[0] for _ in range(2)] == ["settled", "settled"]  # as it is by now


def test_a_stream_goes_on_at_another_server(tmp_path: Path, name: str) -> None:
    with OnThread(lambda: serving(app_in(tmp_path))) as server, client_of(server) as http:
        with listening(http) as inbox:
            first = ask(http, name)
            assert told(inbox) == ("asked", first)
        second = ask(http, f"{name}-2")
    with (
        OnThread(lambda: serving(app_in(tmp_path))) as server,
        client_of(server) as http,
        listening(http, last_id=inbox.last_id) as again,
    ):
        assert told(again) == ("asked", second)


@pytest.mark.parametrize("last_id", ["1000000", "9223372036854775807"])
def test_a_reader_ahead_of_the_trail_gets_a_gap(http: httpx.Client, name: str, last_id: str) -> None:
    headers = {"last-event-id": last_id}
    with http.stream("GET", PATH, headers=headers, timeout=60) as response:
        assert "event: gap" in [line for line, _ in zip(response.iter_lines(), range(3), strict=False)]


def test_a_reader_too_far_behind_gets_a_gap(
    http: httpx.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "KEPT", 2)
    with listening(http, run_id=name) as inbox:
        first = inbox.last_id
        question = ask(http, name)
        for verb in ("claim", "release", "claim"):
            http.post(f"/v1/questions/{question}/{verb}", json={"user_id": "ana"})
        http.post(f"/v1/runs/{name}/cancel")
        # not only until it is reported as settled: the first change may already show that
        while int(inbox.last_id or "") < int(first or "") + 5:
            inbox.next_frame()
        with http.stream("GET", PATH, headers={"last-event-id": first or ""}, timeout=60) as response:
            lines = response.iter_lines()
            assert next(lines).startswith("id: ")
            assert next(lines) == "event: gap"


def test_a_quiet_stream_says_that_it_lives_and_where_it_is(
    http: httpx.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "PING_SECONDS", 0.05)
    with listening(http, run_id=name) as inbox:
        before = inbox.last_id
        ask(http, f"{name}-2")  # of another run
        while inbox.last_id == before:
            assert set(inbox.next_frame()) == {"id"}


def test_an_unreadable_question_stops_no_notification(tmp_path: Path, name: str) -> None:
    app = app_in(tmp_path)
    with OnThread(lambda: serving(app)) as server, client_of(server) as http, listening(http) as inbox:
        data = json.dumps({"text": "?", "policy": {"lottery": True}})
        strange = NewPromise(f"{name}.q", PromiseKind.QUESTION, data=data)
        asyncio.run(another(tmp_path, strange))
        question = ask(http, name)
        assert told(inbox) == ("asked", strange.id), "users who see everything are notified, too"
        assert told(inbox) == ("changed", strange.id)
        assert told(inbox) == ("asked", question)
        shown = http.get(f"/v1/questions/{strange.id}").json()
        assert shown["unreadable"] == [{"field": "data", "message": "input_type: Field required"}]


def test_an_unreadable_question_is_sent_only_to_users_who_see_all(tmp_path: Path, name: str) -> None:
    app = app_in(tmp_path)
    with (
        OnThread(lambda: serving(app, proxy=PROXY)) as server,
        through(server, "boss", roles="operator") as boss,
        through(server, "eve") as eve,
        listening(boss) as all_,
        listening(eve) as eves,
    ):
        data = json.dumps({"text": "?", "policy": {"exclude": ["user:eve"], "lottery": True}})
        strange = NewPromise(f"{name}.q", PromiseKind.QUESTION, data=data, assignees=("user:eve",))
        asyncio.run(another(tmp_path, strange))
        assert told(all_) == ("asked", strange.id)
        assert eve.get(f"/v1/questions/{strange.id}").is_error
        question = ask(boss, name, "user:eve")
        assert told(eves) == ("asked", question)


async def another(folder: Path, question: NewPromise) -> None:
    """Have another process ask."""
    store = SqliteStore(folder / "signoff.db")
    await store.open()
    try:
        await store.create_promise(question)
        event = NewAuditEvent("e", AuditKind.DELEGATED, question.id, details='{"from": 5, "to": [1]}')
        await store.record([event])
    finally:
        await store.close()


# What it costs


class Counted(SqliteStore):
    """A store that counts how often it is asked for something."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: Counter[str] = Counter()

    async def read_chain(self, **page: Any) -> Any:
        self.asked["read_chain"] += 1
        return await super().read_chain(**page)

    async def unsealed(self, limit: int, **more: Any) -> Any:
        self.asked["unsealed"] += 1
        return await super().unsealed(limit, **more)

    async def get_promise(self, promise_id: str) -> Any:
        self.asked["get_promise"] += 1
        return await super().get_promise(promise_id)

    async def last_seal(self) -> Any:
        self.asked["last_seal"] += 1
        return await super().last_seal()

    async def list_promises(self, *which: Any, **page: Any) -> Any:
        self.asked["list_promises"] += 1
        return await super().list_promises(*which, **page)

    async def list_audit(self, *which: Any, **page: Any) -> Any:
        self.asked["list_audit"] += 1
        return await super().list_audit(*which, **page)


@asynccontextmanager
async def reading(server: Server) -> AsyncIterator[AsyncIterator[Event]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % PATH.encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")

    async def chunks() -> AsyncIterator[bytes]:
        while line := await reader.readline():
            if line.startswith((b"id:", b"event:", b"data:", b"\n")):
                yield line

    try:
        yield read_events(chunks())
    finally:
        writer.close()


@in_asyncio
async def test_a_stream_is_open_once_it_knows_where_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who lists after that misses nothing."""
    find_place = inboxes.Inbox._open
    asked, let = asyncio.Event(), asyncio.Event()

    async def find_place_late(inbox: inboxes.Inbox, *, resumes: bool) -> None:
        asked.set()
        await let.wait()
        await find_place(inbox, resumes=resumes)

    monkeypatch.setattr(inboxes.Inbox, "_open", find_place_late)
    async with serving(app_in(tmp_path)) as server:
        stream = reading(server)
        opening = asyncio.create_task(stream.__aenter__())
        await asked.wait()
        for _ in range(20):  # headers that were sent before would have come
            await asyncio.sleep(0)
        was_open = opening.done()
        let.set()
        await opening
        await stream.__aexit__(None, None, None)
    assert not was_open


@pytest.mark.long
@in_asyncio
async def test_500_readers_cost_one_query_for_a_change_and_not_one_each(tmp_path: Path) -> None:
    store = Counted(tmp_path / "signoff.db")
    app = Signoff(store)
    workflows.register(app)
    async with (
        serving(app) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        readers = [reading(server) for _ in range(500)]
        streams = [await reader.__aenter__() for reader in readers]
        try:
            store.asked.clear()
            began = time.monotonic()
            assert (await http.post("/v1/runs", json={"workflow": "ask", "id": "r"})).status_code == 201
            heard = await asyncio.gather(*(anext(stream) for stream in streams))
            seconds = time.monotonic() - began
        finally:
            for reader in readers:
                await reader.__aexit__(None, None, None)
    assert {(event.name, json.loads(event.data)["id"]) for event in heard} == {("asked", "r.1")}
    assert store.asked["get_promise"] <= 2  # of the feed, and of the caller
    assert store.asked["list_promises"] == store.asked["list_audit"] == 0
    assert store.asked["read_chain"] <= store.asked["unsealed"] + 1  # one for each turn of the timers
    assert store.asked["last_seal"] <= store.asked["unsealed"]
    assert seconds < 60


@pytest.mark.parametrize("lost_first", [True, False])
@in_asyncio
async def test_a_question_whose_key_is_lost_keeps_no_other_from_the_stream(
    tmp_path: Path, lost_first: bool
) -> None:
    raw = SqliteStore(tmp_path / "signoff.db")
    await raw.open()
    lost, known = (
        encrypted(raw, Ciphers([EncryptionKey(name, name[:1].encode() * 32)])) for name in ("lost", "known")
    )
    inbox = inboxes.Inbox(known, Redaction([]))
    inbox._readers.add(asyncio.Event())
    await inbox._open(resumes=False)
    data = Question.make("Pay?").to_json()
    for id, store in sorted([("1" if lost_first else "3", lost), ("2", known)]):
        await store.create_promise(NewPromise(id, PromiseKind.QUESTION, data=data))
        await store.settle(id, PromiseKind.QUESTION, Settlement(PromiseState.RESOLVED, "true", note="so"))
    await seal_events(known)
    await inbox.look()
    assert [each.question.id for each in inbox._kept] == ["2", "2"]
    last = await known.last_seal()
    assert last is not None
    assert inbox._end == last.seq
    await raw.close()
