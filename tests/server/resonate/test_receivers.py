"""Rule: a message goes to a process that reads; what processes do not read is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from signoff.records import NewPromise, PromiseKind, PromiseState, Settlement
from signoff.records.tasks import NewInvocation
from signoff.server.resonate import connection, delivery
from signoff.server.resonate.connection import Connection
from signoff.server.resonate.delivery import Delivery
from signoff.server.resonate.push import Push
from signoff.stores.contract.store import Store
from signoff.testing import MemoryStore
from tests.support import comes, in_asyncio

ROOM = 2
NEVER = float("inf")
LONG = '"%s"' % ("x" * 10_000)


@asynccontextmanager
async def delivering() -> AsyncIterator[tuple[Store, Delivery]]:
    store = MemoryStore()
    delivery = Delivery(store, lambda _: {}, Push(()), passes_on=True)
    yield store, delivery
    await delivery.close()
    await store.close()


async def to_execute(store: Store, id: str, address: str) -> None:
    await store.open_invocation(NewInvocation(NewPromise(id, PromiseKind.PROMISE), address))


async def to_hear(store: Store, id: str, address: str) -> None:
    await store.create_promise(NewPromise(id, PromiseKind.PROMISE))
    await store.listen_promise(id, address)
    await store.settle(id, PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, LONG))


class Reader:
    """Reads the messages of a connection only when asked."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.got: list[str] = []

    def finish(self) -> None:
        """Note that the process has read all."""
        self.connection.sent(NEVER)

    def read(self) -> Sequence[str]:
        """Start sending."""
        for message in self.connection.take():
            record = message.task or message.promise
            assert record is not None
            self.got.append(record.id)
        return self.got

    async def gets(self, *ids: str) -> None:
        async def look() -> bool:
            self.finish()
            return sorted(self.read()) == sorted(ids)

        assert await comes(look), self.got


@in_asyncio
async def test_messages_for_a_process_without_room_go_to_others_or_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "MOST_UNSENT", ROOM)
    async with delivering() as (store, delivery):
        slow, other = (Reader(delivery.connect("g", pid)) for pid in ("slow", "other"))
        for number in range(ROOM):
            await to_execute(store, f"slow{number}", "poll://any@g/slow")
        await comes(lambda: asyncio.sleep(0, not slow.connection.has_room))
        for number in range(ROOM):
            await to_execute(store, f"other{number}", "poll://any@g/slow")
        await comes(lambda: asyncio.sleep(0, not other.connection.has_room))
        await to_execute(store, "late", "poll://any@g/slow")
        await asyncio.sleep(0.1)
        assert sorted(other.read()) == ["other0", "other1"]
        await other.gets("other0", "other1", "late")
        assert sorted(slow.read()) == ["slow0", "slow1"]


@in_asyncio
async def test_silent_process_with_room_gets_what_full_ones_have_no_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "MOST_UNSENT", ROOM)
    monkeypatch.setattr(delivery, "CONFIRM_SECONDS", 0.1)
    async with delivering() as (store, here):
        silent = Reader(here.connect("g", "silent"))
        full = Reader(here.connect("g", "full"))
        await to_execute(store, "first", "poll://any@g/silent")
        await silent.gets("first")
        here.sent(silent.connection)
        await comes(lambda: asyncio.sleep(0, not full.connection.has_sent_all))  # it is passed on
        await to_execute(store, "second", "poll://any@g/full")
        await comes(lambda: asyncio.sleep(0, not full.connection.has_room))
        await to_execute(store, "third", "poll://any@g")
        await silent.gets("first", "third")


@in_asyncio
async def test_processes_that_read_nothing_are_sent_little_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MUCH_KEPT_BYTES", 2 * len(LONG))
    monkeypatch.setattr(delivery, "MOST_KEPT_BYTES", 4 * len(LONG))
    monkeypatch.setattr(delivery, "QUEUES_AT_ONCE", 2)
    monkeypatch.setattr(delivery, "LOOK_SECONDS", 0.01)
    async with delivering() as (store, here):
        pids = [f"p{number}" for number in range(10)]
        readers = {pid: Reader(here.connect("g", pid)) for pid in pids}
        for pid in pids:
            await to_hear(store, pid, f"poll://uni@g/{pid}")
        await comes(lambda: asyncio.sleep(0, here.kept_bytes >= 4 * len(LONG)))
        await asyncio.sleep(0.2)
        assert here.kept_bytes <= 5 * len(LONG)
        for pid, reader in readers.items():  # the server sends, and nobody reads
            reader.read()
            await to_hear(store, f"more {pid}", f"poll://uni@g/{pid}")
        await asyncio.sleep(0.2)
        assert here.kept_bytes <= 5 * len(LONG)

        async def all_read() -> bool:
            for reader in readers.values():
                reader.finish()
            found = [len(reader.read()) for reader in readers.values()]
            return set(found) == {2}

        await comes(all_read)
