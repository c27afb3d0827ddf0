"""A caller of the durable promise protocol: it has orders executed, and checks their steps against the ledger."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.innocent import PATIENCE_SECONDS
from tests.soak.protocol_worker import BATCHES, LEDGER, Connection, creation, decoded, step_id

STEPS_AT_ONCE = max(map(len, BATCHES))


@dataclass
class Orders:
    """Orders of some callers.

    Attributes:
        steps: The steps of finished orders: when each was settled, in unix milliseconds, and its token.
        broken: Promises that did not hold.
    """

    steps: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    broken: list[str] = field(default_factory=list[str])

    async def play(self, connection: Connection, name: str, stop: asyncio.Event) -> None:
        """Have one order after the other executed, until it is to stop."""
        async with connection.http:
            number = 0
            while not stop.is_set():
                number += 1
                id = f"order-{name}-{number}"
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        await self._order(connection, id)
                except Exception as error:
                    self.broken.append(f"{id}: {error!r}")
                await asyncio.sleep(0.02)

    async def _order(self, connection: Connection, id: str) -> None:
        await _get(connection, "promise.create", creation(id, id, "order"))
        while (order := await _get(connection, "promise.get", {"id": id}))["state"] == "pending":
            await asyncio.sleep(0.1)
        steps = [step_id(id, number) for batch in BATCHES for number in batch]
        settled = [await _get(connection, "promise.get", {"id": step}) for step in steps]
        tokens = [decoded(step["value"]) for step in settled]
        if order["state"] != "resolved" or decoded(order["value"]) != tokens:
            self.broken.append(f"{id}: {order}, and its steps came to {tokens}")
        for step, token in zip(settled, tokens, strict=True):
            self.steps[step["id"]] = (step["settledAt"], token)

    def check(self, folder: Path, troubles: int, callers: int) -> list[str]:
        """Return what is wrong: each step must be in the ledger, and none may have begun after it was settled.

        Args:
            folder: Where the ledger is.
            troubles: How often something was killed or stopped: each may repeat the steps that were under way.
            callers: The number of callers, each with one order at a time.
        """
        lines = [line.split() for line in (folder / LEDGER).read_text().splitlines()]
        begun = [(id, int(at), token) for id, _, at, token in (line for line in lines if len(line) == 4)]
        tokens = {token for _, _, token in begun}
        wrong = [
            f"step {id} has a result of none" for id, (_, token) in self.steps.items() if token not in tokens
        ]
        for id, asked_at, _ in begun:
            if id in self.steps and asked_at > self.steps[id][0]:
                wrong.append(f"step {id} was acquired at {asked_at}, and settled at {self.steps[id][0]}")
        repeated = len(begun) - len({id for id, *_ in begun})
        if repeated > troubles * callers * STEPS_AT_ONCE:
            wrong.append(f"{repeated} steps were repeated, by {troubles} troubles")
        orders = len({id.rpartition(".")[0] for id in self.steps})
        print(f"  orders: {orders} of {len(self.steps)} steps; {repeated} steps repeated")
        return [*self.broken, *wrong]


async def _get(connection: Connection, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    status, reply = await connection.ask(kind, data)
    assert status == 200, (kind, status, reply)
    return reply["promise"]
