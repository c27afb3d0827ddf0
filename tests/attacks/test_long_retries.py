"""To retry a failed run takes little memory, however long its journal and however large its errors are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from signoff.records import CallKind, Entry, EntryKind, NewRun, RunState
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.large_rows import MIB, ROOM
from tests.attacks.served import JSON, MOST_KIB, NAMES, Served
from tests.postgres.databases import fresh_database

AT_ONCE = 1_000
FAILURE = json.dumps({"type": "builtins:OSError", "message": "the bank is closed", "args": []})

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc"),
]


def _steps(count: int) -> Iterator[Entry]:
    for seq in range(1, count):
        yield Entry(seq, 1.5, EntryKind.COMPLETED, n=seq, call=CallKind.STEP, name=f"step {seq}", value="1")


def _caught(count: int) -> Iterator[Entry]:
    for seq in range(1, count):
        error = {"type": "builtins:ValueError", "message": str(seq), "args": ["x" * (MIB - ROOM)]}
        yield Entry(
            seq, 1.5, EntryKind.COMPLETED, n=seq, call=CallKind.STEP, name="step", error=json.dumps(error)
        )


def _timers(count: int) -> Iterator[Entry]:
    for seq in range(1, count, 2):
        details = json.dumps({"id": f"failed.{seq}", "act_at": 1.5, "why": "x" * 100})
        for kind, at in ((EntryKind.OPENED, seq), (EntryKind.COMPLETED, seq + 1)):
            yield Entry(at, 1.5, kind, n=seq, call=CallKind.TIMER, name="sleep", details=details)


JOURNALS = {"steps": (_steps, 300_000), "caught errors": (_caught, 80), "timers": (_timers, 100_000)}


async def _fail(store: Store, entries: Iterable[Entry]) -> None:
    """Write a run with these entries that failed permanently in its last step."""
    await store.open()
    try:
        await store.create_run(NewRun("failed", "w", "default", '{"args":[]}'))
        [claim] = await store.claim("w", "default", ["w"], 1)
        write = Write("failed", claim.run.epoch)
        seq, part = 0, [Entry(0, 1.5, EntryKind.STARTED)]
        for entry in entries:
            part.append(entry)
            seq = entry.seq
            if len(part) == AT_ONCE or entry.error is not None:
                await store.append(replace(write, entries=part))
                part = []
        failed = Entry(
            seq + 1, 1.5, EntryKind.COMPLETED, n=seq + 1, call=CallKind.STEP, name="pay", error=FAILURE
        )
        ended = Entry(seq + 2, 1.5, EntryKind.FAILED, error=FAILURE)
        outcome = Outcome(RunState.FAILED, error=FAILURE)
        await store.complete(replace(write, entries=[*part, failed, ended]), outcome)
    finally:
        await store.close()


@pytest.fixture(
    params=["caught errors", *(pytest.param(each, marks=pytest.mark.long) for each in ("steps", "timers"))]
)
def journal(request: pytest.FixtureRequest) -> Iterator[Entry]:
    make, count = JOURNALS[request.param]
    return make(count)


@pytest.mark.parametrize("name", NAMES)
def test_no_retry_takes_much_of_a_server_s_memory(
    name: str, journal: Iterator[Entry], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        if name == "sqlite":
            store: Store = SqliteStore(tmp_path / "signoff.db")
            url = f"sqlite:///{tmp_path}/signoff.db"
        else:
            url = stack.enter_context(fresh_database())
            store = PostgresStore(url)
        asyncio.run(_fail(store, journal))
        served = Served(stack, url, tmp_path)
        with served.memory.rise() as risen:
            reply = served.http.post("/v1/runs/failed/retry", content="{}", headers=JSON)
        assert (reply.status_code, reply.json().get("state")) == (200, "ready")
        entries = served.http.get("/v1/runs/failed/journal", params={"after": "0", "limit": "1"}).json()
        assert entries["items"]
        assert risen[0] <= MOST_KIB
