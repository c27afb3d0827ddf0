"""A worker that writes names and texts that no client could: through ``/v1/store``, with batches of up to 20 MiB."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from signoff.errors import InvalidValue
from signoff.records import (
    AuditKind,
    NewAuditEvent,
    NewPromise,
    NewRun,
    PromiseKind,
    PromiseState,
    RunState,
    Settlement,
)
from signoff.records.paging import PromiseFilter
from signoff.server import Server
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.attacks.malformed import QUESTIONS
from tests.support import in_asyncio

NAME = "b" * 801
TEXT = "t" * (5 * 1024 * 1024)
JSON = json.dumps("v" * (5 * 1024 * 1024))
YES = PromiseState.RESOLVED
PROMISE, QUESTION = PromiseKind.PROMISE, PromiseKind.QUESTION

ATTACKS: dict[str, Callable[[RemoteStore], Awaitable[object]]] = {
    "settlement.by": lambda s: s.settle("p", PROMISE, Settlement(YES, "1", by=NAME)),
    "settlement.by of a question": lambda s: s.settle("q", QUESTION, Settlement(YES, "1", by=NAME)),
    "settlement.by with NUL": lambda s: s.settle("p", PROMISE, Settlement(YES, "1", by="a\0b")),
    "settlement.note": lambda s: s.settle("p", PROMISE, Settlement(YES, "1", note=TEXT)),
    "settlement.note with NUL": lambda s: s.settle("p", PROMISE, Settlement(YES, "1", note="\0")),
    "settlement.value": lambda s: s.settle("p", PROMISE, Settlement(YES, JSON)),
    "by of a cancel": lambda s: s.cancel("r", by=NAME),
    "reason of a cancel": lambda s: s.cancel("r", reason=TEXT),
    "by of a signal": lambda s: s.signal("r", "n", "1", by=NAME),
    "name of a signal": lambda s: s.signal("r", TEXT, "1"),
    "value of a signal": lambda s: s.signal("r", "n", JSON),
    "event.by": lambda s: s.suspend("r", NewAuditEvent("e", AuditKind.SUSPENDED, "", by=NAME, run_id="r")),
    "reason of a suspension": lambda s: s.suspend(
        "r", NewAuditEvent("e", AuditKind.SUSPENDED, "", by="ana", run_id="r"), reason=TEXT
    ),
    "new.data": lambda s: s.create_promise(NewPromise("new", PROMISE, data=JSON)),
}


@pytest.mark.parametrize("field", ATTACKS)
@in_asyncio
async def test_a_text_that_no_client_could_write_is_refused_by_its_field(
    tmp_path: Path, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A hostile worker checks nothing.
    monkeypatch.setattr("signoff.stores.remote.store.check_arguments", lambda arguments: None)
    served = SqliteStore(tmp_path / "signoff.db")
    async with Server(served, port=0, worker_keys=worker_keys.KEYS) as server:
        store = RemoteStore(server.url, key=worker_keys.SECRET)
        await store.open()
        try:
            await store.create_run(NewRun("r", "w", "default", "{}"))
            await store.create_promise(NewPromise("p", PROMISE))
            await store.create_promise(NewPromise("q", QUESTION, data=QUESTIONS[5]))
            with pytest.raises(InvalidValue, match=field.split()[0].replace(".", r"\.")):
                await ATTACKS[field](store)
            kept = await served.list_promises(PromiseFilter())
            assert {promise.state for promise in kept.items} == {PromiseState.PENDING}
            assert (await served.get_run("r")).state is RunState.READY
        finally:
            await store.close()
    await served.close()


@in_asyncio
async def test_a_name_and_a_note_as_long_as_a_client_may_write_them_are_taken(tmp_path: Path) -> None:
    served = SqliteStore(tmp_path / "signoff.db")
    async with Server(served, port=0, worker_keys=worker_keys.KEYS) as server:
        store = RemoteStore(server.url, key=worker_keys.SECRET)
        await store.open()
        try:
            await store.create_promise(NewPromise("p", PROMISE))
            said = Settlement(YES, json.dumps("v" * (1024 * 1024 - 2)), by="b" * 256, note="n" * 1024 * 1024)
            promise, settled = await store.settle("p", PROMISE, said)
            assert settled
            assert promise.settled_by == "b" * 256
        finally:
            await store.close()
    await served.close()
