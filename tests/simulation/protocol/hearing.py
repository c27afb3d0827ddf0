"""How callers of a simulated world learn of a settled promise: by polling, by posts, or by the protocol of 2024."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from signoff.testing.simulation import Process
from tests.simulation.protocol.legacy_sdk import insist, today
from tests.simulation.protocol.network import LEGACY, Network
from tests.simulation.protocol.posts import CALLERS, posted_messages
from tests.simulation.protocol.sdk import Record

GROUP, PID = "callers", "c"
ADDRESS = f"poll://uni@{GROUP}/{PID}"


@dataclass(frozen=True)
class Polling:
    """Callers poll. A message may be lost with a broken connection, so they ask again now and then, as SDKs do."""

    network: Network
    asks_again = True

    async def register(self, process: Process, id: str) -> Record | None:
        """Have a promise sent once it is settled. Returns it as it is; None if it does not exist."""
        return await _listen(self.network, process, id, ADDRESS)

    async def heard(self, process: Process) -> AsyncIterator[Record]:
        """Yield the promises that are sent."""
        async for message in self.network.messages(process, GROUP, PID):
            if message is not None:
                yield message["data"]["promise"]


@dataclass(frozen=True)
class Posts:
    """Messages are posted to callers, until they have accepted them."""

    network: Network
    asks_again = False

    async def register(self, process: Process, id: str) -> Record | None:
        """As for ``Polling``."""
        return await _listen(self.network, process, id, CALLERS)

    async def heard(self, process: Process) -> AsyncIterator[Record]:
        """Yield the promises that are posted."""
        async for message in posted_messages(self.network, process, CALLERS):
            yield message["data"]["promise"]


@dataclass(frozen=True)
class Subscriptions:
    """Callers subscribe, and poll, by the protocol of 2024."""

    network: Network
    asks_again = True

    async def register(self, process: Process, id: str) -> Record | None:
        """As for ``Polling``."""
        body = {"id": "sub", "promiseId": id, "recv": ADDRESS, "timeout": 2**53 - 1}
        answer = await insist(self.network, process, "POST", f"/promises/subscribe/{quote(id)}", body)
        return today(answer.data["promise"]) if answer.status in (200, 201) else None

    async def heard(self, process: Process) -> AsyncIterator[Record]:
        """Yield the promises that are sent."""
        async for message in self.network.messages(process, GROUP, PID, LEGACY):
            if message is not None:
                yield today(message["promise"])


Hearing = Polling | Posts | Subscriptions


async def _listen(network: Network, process: Process, id: str, address: str) -> Record | None:
    data: dict[str, Any] = {"awaited": id, "address": address}
    answer = await network.insist(process, "promise.register_listener", data)
    return answer.data["promise"] if answer.status == 200 else None
