"""A process that speaks the protocol of 2024, as resonate-sdk 0.6.7 does: it claims tasks and keeps its programs.

It keeps a suspended program in memory, so a claim tells it of one settled promise only. Another process replays it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from signoff.testing.simulation import Process
from signoff.testing.simulation.process import Main
from tests.simulation.protocol.network import AGAIN_SECONDS, LEGACY, Answer, Network, UnreachableError
from tests.simulation.protocol.programs import Program
from tests.simulation.protocol.sdk import Execution, LostError, Record, Sdk, Setting, Settings, encoded

_TAGS = {"resonate:target": "resonate:invoke", "resonate:timer": "resonate:timeout"}


async def insist(
    network: Network, process: Process, method: str, path: str, body: Any = None, *, key: str | None = None
) -> Answer:
    """Send a request until there is a reply that is no failure of the server."""
    request = {"method": method, "path": path, "key": key, "body": body}
    while True:
        try:
            reply = await network.exchange(process, LEGACY, request)
        except UnreachableError:
            pass
        else:
            if reply["status"] >= 400:
                process.world.note(process.name, f"{method} {path}", f"is refused: {reply['data']}")
            if reply["status"] < 500:
                return Answer(reply["status"], reply["data"])
        await asyncio.sleep(AGAIN_SECONDS)


def legacy_sdk_of(setting: Setting, settings: Settings) -> Main:
    """Return the code of a process."""

    async def main(process: Process) -> None:
        await LegacySdk(process, setting, settings).run()

    return main


class LegacySdk(Sdk):
    """A process of the SDK of 2024."""

    def __init__(self, process: Process, setting: Setting, settings: Settings) -> None:
        super().__init__(process, setting, settings)
        self._kept: dict[str, LegacyExecution] = {}

    async def run(self) -> None:
        """Work until it ends."""
        async with asyncio.TaskGroup() as work:
            work.create_task(self._extend())
            messages = self.network.messages(self.process, self.settings.group, self.pid, LEGACY)
            async for message in messages:
                if message is not None:
                    work.create_task(self._claim(message["task"]))

    async def send(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        """Send a request until there is a reply."""
        return await insist(self.network, self.process, method, path, body, key=key)

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(self.settings.ttl / 3000)
            if self.held:
                await self.send("POST", "/tasks/heartbeat", {"processId": self.pid})

    async def _claim(self, task: Record) -> None:
        asked_at = self.process.world.now
        claim = {**task, "processId": self.pid, "ttl": self.settings.ttl}
        answer = await self.send("POST", "/tasks/claim", claim)
        if answer.status != 201:
            return
        promises, counter = answer.data["promises"], task["counter"]
        root = today(promises["root"]["data"])
        if not self.has(root):
            await self.send("POST", "/tasks/drop", {"id": task["id"], "counter": counter})
            return
        kept = self._kept.pop(task["id"], None)
        if answer.data["type"] == "invoke" or kept is None or kept.version != counter - 1:
            kept = LegacyExecution(self, {"id": task["id"], "version": counter}, root)
        kept.version = counter
        if "leaf" in promises:
            kept.learn([today(promises["leaf"]["data"])], asked_at)
        await self.work_on(kept)

    def keep(self, execution: LegacyExecution) -> None:
        """Keep a suspended program."""
        self._kept[execution.id] = execution


class LegacyExecution(Execution):
    """A task that the process has claimed. Its promises are created and settled by idempotency keys."""

    def __init__(self, sdk: LegacySdk, task: Record, promise: Record) -> None:
        super().__init__(sdk, task, promise)
        self._process = sdk
        self._awaited: set[str] = set()

    async def _open(self, request: dict[str, Any]) -> Record:
        body = to_legacy(request)
        answer = await self._process.send("POST", "/promises", body, key=body["id"])
        if answer.status == 409:  # another program has created it, or it is a question
            answer = await self._process.send("GET", f"/promises/{quote(body['id'])}")
        assert answer.status in (200, 201), f"{body}: {answer}"
        return today(answer.data)

    async def _settle(self, id: str, state: str, value: Any) -> Record:
        body = {"state": state.upper(), "value": encoded(value)}
        answer = await self._process.send("PATCH", f"/promises/{quote(id)}", body, key=id)
        if answer.status == 403:
            answer = await self._process.send("GET", f"/promises/{quote(id)}")
        assert answer.status in (200, 201), f"{id}: {answer}"
        return today(answer.data)

    async def _fulfil(self, state: str, value: Any) -> None:
        await self._settle(self.id, state, value)
        await self._complete()

    async def _suspend(self, program: Program, awaited: Sequence[str]) -> bool:
        """Register callbacks, and complete the task. Returns False if a promise is settled already."""
        recv = f"{self._process.settings.address}/{self._process.pid}"
        is_settled = False
        for id in awaited:
            if id not in self._awaited:
                asked_at = self._world.now
                body = {"promiseId": id, "rootPromiseId": self.id, "recv": recv, "timeout": 2**53 - 1}
                answer = await self._process.send("POST", f"/promises/callback/{quote(id)}", body)
                assert answer.status in (200, 201), f"{body}: {answer}"
                self.learn([today(answer.data["promise"])], asked_at)
                is_settled |= answer.data["promise"]["state"] != "PENDING"
                self._awaited.add(id)
        if is_settled:
            return False
        self._process.keep(self)
        await self._complete()
        return True

    async def _complete(self) -> None:
        """Complete the task. Raises LostError."""
        done = {"id": self.id, "counter": self.version}
        if (await self._process.send("POST", "/tasks/complete", done)).status >= 400:
            self._world.note(self._process.process.name, "has lost", f"{self.id}/{self.version}")
            raise LostError


def to_legacy(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that creates the promise of a request of today's protocol."""
    tags = {_TAGS.get(name, name): value for name, value in request["tags"].items()}
    return {"id": request["id"], "timeout": request["timeoutAt"], "param": request["param"], "tags": tags}


def today(record: Record) -> Record:
    """Return a promise as today's protocol shows it."""
    return {**record, "state": record["state"].lower()}
