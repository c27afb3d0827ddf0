"""Rows whose encryption key is lost: each is shown as such, alone, in every list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from signoff import AsyncClient, Signoff
from signoff.codec.ciphers import Ciphers, EncryptionKey
from signoff.errors import MissingKey
from signoff.people.audit.sealing import seal_events
from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.notices import Notice
from signoff.people.notifications.outbox import Dispatcher
from signoff.people.questions.question import Question
from signoff.records import (
    Amendment,
    AuditKind,
    CallKind,
    Entry,
    EntryKind,
    NewAuditEvent,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    PromiseKind,
    PromiseState,
    RunState,
    Settlement,
    WorkflowInfo,
)
from signoff.records.paging import PromiseFilter
from signoff.server import Server
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.encrypted import encrypted
from tests import worker_keys
from tests.postgres.databases import fresh_database
from tests.support import in_asyncio

LOST, KNOWN = EncryptionKey("lost", b"l" * 32), EncryptionKey("known", b"k" * 32)
REASON = "it cannot be decrypted: it needs key 'lost', which this process does not have"

EACH = pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])

LISTS = {
    "/v1/runs": ("arguments", "result"),
    "/v1/promises": ("data", "value"),
    "/v1/questions": ("data",),
    "/v1/schedules": ("arguments",),
    "/v1/rules": ("arguments",),
    "/v1/audit": (),
    "/v1/workflows": ("parameters",),
    "/v1/sessions": (),
}


pytestmark = pytest.mark.usefixtures("open_trail")


async def _fill(store: Store, name: str) -> None:
    """Write a row of each kind whose id begins with a name."""
    arguments = json.dumps({"args": [name], "kwargs": {"card": {"number": f"number of {name}"}}})
    await store.create_run(NewRun(f"{name}-run", "pay", "nobody", arguments, session_id=f"{name}-session"))
    claims = await store.claim("worker", "nobody", ["pay"], 10)
    [claim] = [each for each in claims if each.run.id == f"{name}-run"]
    entries = (
        Entry(0, 1.0, EntryKind.STARTED, value=arguments),
        Entry(1, 1.0, EntryKind.COMPLETED, 0, CallKind.STEP, "said", value=json.dumps(name)),
    )
    await store.complete(
        Write(claim.run.id, claim.run.epoch, entries), Outcome(RunState.SUCCEEDED, result=json.dumps(name))
    )
    asked = Question.make(f"Pay {name}?").to_json()
    await store.create_promise(NewPromise(f"{name}-question", PromiseKind.QUESTION, data=asked))
    await store.create_promise(NewPromise(f"{name}-settled", PromiseKind.QUESTION, data=asked))
    rule = NewRule(f"{name}-rule", "ana", "pay", '{"/to":"acme"}', 9e9, f"{name}-settled")
    settlement = Settlement(PromiseState.RESOLVED, "true", "ana", note=f"so says {name}")
    await store.amend(f"{name}-settled", Amendment(0, None, (), None, settlement, rule=rule))
    await store.create_promise(NewPromise(f"{name}-promise", data=json.dumps(name)))
    told = NewAuditEvent(f"{name}-event", AuditKind.COMMENTED, f"{name}-question", details='{"text":"so"}')
    await store.record([told])
    await store.put_schedule(
        NewSchedule(f"{name}-schedule", "pay", "nobody", arguments, "0 0 1 1 *", "UTC", next_at=4e9)
    )
    described = WorkflowInfo("nobody", f"{name}-workflow", "1", True, f"Pays {name}.", '{"type":"object"}')
    await store.announce([described])
    await seal_events(store)


@asynccontextmanager
async def _stored(kind: str, folder: Path) -> AsyncGenerator[Store]:
    """A store with rows of two keys; of one of them the key is lost."""
    with fresh_database() if kind == "postgres" else nullcontext("") as url:
        store = PostgresStore(url) if url else SqliteStore(folder / "signoff.db")
        await store.open()
        try:
            for key in (LOST, KNOWN):
                await _fill(encrypted(store, Ciphers([key])), key.name)
            yield store
        finally:
            await store.close()


@asynccontextmanager
async def _served(kind: str, folder: Path, **options: Any) -> AsyncGenerator[Server]:
    async with _stored(kind, folder) as store:
        app = Signoff(encrypted(store, Ciphers([KNOWN])))
        async with Server(app, port=0, worker_keys=worker_keys.KEYS, **options) as server:
            yield server


@EACH
@pytest.mark.parametrize("redact", [(), ("card.number",)], ids=["plain", "redacted"])
@in_asyncio
async def test_every_list_shows_all_rows_and_says_which_cannot_be_decrypted(
    kind: str, redact: tuple[str, ...], tmp_path: Path
) -> None:
    async with (
        _served(kind, tmp_path, redact=redact) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        for path, lost in LISTS.items():
            replied = await http.get(path)
            assert replied.status_code == 200, (path, replied.text)
            items = {each.get("id") or each["name"]: each for each in replied.json()["items"]}
            names = {str(id).partition("-")[0] for id in items}
            assert names >= {"lost", "known"} or path == "/v1/audit", (path, names)
            for id, item in items.items():
                reasons = {each["field"]: each["message"] for each in item.get("unreadable", ())}
                if not str(id).startswith("lost-"):
                    assert not reasons, (path, item)
                    continue
                for field in lost:
                    if field in item:
                        assert item[field] is None, (path, item)
                        assert "cannot be decrypted" in reasons[field], (path, item)
        known = (await http.get("/v1/questions")).json()["items"]
        assert "Pay known?" in [(each["data"] or {}).get("text") for each in known]


@EACH
@in_asyncio
async def test_a_journal_shows_which_entries_cannot_be_decrypted(kind: str, tmp_path: Path) -> None:
    async with (
        _served(kind, tmp_path) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http,
        AsyncClient(server.url) as client,
    ):
        replied = await http.get("/v1/runs/lost-run/journal")
        assert replied.status_code == 200, replied.text
        entries = replied.json()["items"]
        assert [each["unreadable"] for each in entries if each["kind"] == "completed"] == [
            [{"field": "value", "message": REASON}]
        ]
        read = await client.backend.read_journal("lost-run")
        assert [each.value for each in read if each.kind is EntryKind.COMPLETED] == [REASON]
        single = await http.get("/v1/runs/lost-run")
        assert single.status_code == 503
        assert "needs key 'lost'" in single.json()["detail"]


@EACH
@in_asyncio
async def test_a_remote_worker_lists_what_can_be_decrypted(kind: str, tmp_path: Path) -> None:
    async with _served(kind, tmp_path) as server:
        store = RemoteStore(server.url, key=worker_keys.SECRET)
        await store.open()
        try:
            listed = (await store.list_promises(PromiseFilter())).items
            assert {each.data for each in listed if each.id == "lost-promise"} == {REASON}
            assert {each.data for each in listed if each.id == "known-promise"} == {'"known"'}
        finally:
            await store.close()


@EACH
@in_asyncio
async def test_a_run_that_cannot_be_decrypted_is_never_replayed(kind: str, tmp_path: Path) -> None:
    async with _stored(kind, tmp_path) as store:
        known = encrypted(store, Ciphers([KNOWN]))
        with pytest.raises(MissingKey):
            await known.read_journal("lost-run")
        with pytest.raises(MissingKey):
            await known.get_run("lost-run")


@EACH
@in_asyncio
async def test_an_operator_ends_a_run_that_cannot_be_decrypted(kind: str, tmp_path: Path) -> None:
    async with _stored(kind, tmp_path) as store:
        lost, known = (encrypted(store, Ciphers([key])) for key in (LOST, KNOWN))
        await lost.create_run(NewRun("waits", "pay", "nobody", "{}"))
        ended = await known.cancel("waits")
        assert (ended.state, ended.arguments) == (RunState.CANCELLED, REASON)


class _Box:
    """A sender that keeps what it is given."""

    can_link = is_record = is_shared = False

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, notice: Notice) -> None:
        self.sent.append(notice.delivery.question_id)

    async def close(self) -> None:
        pass


@EACH
@in_asyncio
async def test_a_question_whose_key_is_lost_delays_no_other_notice(kind: str, tmp_path: Path) -> None:
    async with _stored(kind, tmp_path) as store:
        box = _Box()
        outbox = Dispatcher(
            encrypted(store, Ciphers([KNOWN])),
            [Channel("box", cast("Any", box), to=("everybody",), begin="open")],
        )
        for _ in range(50):
            await outbox.serve(store)
            await asyncio.sleep(0.02)
            if box.sent:
                break
        await outbox.close()
        assert box.sent == ["known-question"]
