"""One key that polls for thousands of processes: others' writes get their turns between the looks for its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from signoff.records import NewPromise
from signoff.records.tasks import NewInvocation, TaskMessage
from signoff.server.resonate.delivery import QUEUES_AT_ONCE, Delivery
from signoff.server.resonate.messages import Messages
from signoff.server.resonate.push import Push
from signoff.stores.sqlite.store import SqliteStore
from tests.support import in_asyncio

PROCESSES = 350
PATIENCE_SECONDS = 30


class Counting(SqliteStore):
    """A store that counts the queues of each look for messages."""

    looks: list[int]

    async def take_task_messages(self, queues: Sequence[str], limit: int) -> Sequence[TaskMessage]:
        self.looks.append(len(queues))
        return await super().take_task_messages(queues, limit)


@in_asyncio
async def test_many_queues_are_looked_at_in_short_operations_and_each_gets_its_messages(
    tmp_path: Path,
) -> None:
    store = Counting(tmp_path / "signoff.db")
    store.looks = []
    await store.open()
    delivery = Delivery(store, Messages("http://localhost").to_wire, Push(()), passes_on=False)
    connections = [delivery.connect(f"g{number}", "p") for number in range(PROCESSES)]
    for number in (0, PROCESSES - 1):
        await store.open_invocation(NewInvocation(NewPromise(f"t{number}"), f"poll://any@g{number}"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        for number in (0, PROCESSES - 1):
            await connections[number].added.wait()
    await delivery.close()
    await store.close()
    assert max(store.looks) == QUEUES_AT_ONCE < 2 * PROCESSES
