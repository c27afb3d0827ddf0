"""A worker of the soak that speaks the durable promise protocol, as Resonate's SDKs do.

    python -m tests.soak.protocol_worker URL KEY

An order has five steps, each a call of any worker of the group. A step adds a line to the ledger: its id, its task's
version, when the task was asked for, and a token, which is also its result.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
import uuid
from collections.abc import Coroutine
from typing import Any

import httpx

GROUP = "orders"
TARGET = f"poll://any@{GROUP}"
LEDGER = "ledger"
BATCHES = ((0,), (1,), (2,), (3, 4))
"""Numbers of the steps. Those of one batch run at the same time."""

TTL = 5_000
NEVER = 2**53 - 1
AGAIN_SECONDS = 0.2


class LostError(Exception):
    """The worker holds the task no longer."""


class Connection:
    """Sends requests of the protocol.

    Args:
        url: The server's.
        key: An API key or a worker key.
    """

    def __init__(self, url: str, key: str) -> None:
        headers = {"authorization": f"Bearer {key}"}
        self.http = httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=10)

    async def ask(self, kind: str, data: dict[str, Any]) -> tuple[int, Any]:
        """Send a request until there is a reply that is no failure of the server. Returns its status and data."""
        request = {"kind": kind, "head": {"corrId": uuid.uuid4().hex, "version": "2026-04-01"}, "data": data}
        while True:
            try:
                reply = await self.http.post("/", json=request)
            except httpx.HTTPError:
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if reply.status_code < 500 and reply.status_code != 429:
                return reply.status_code, reply.json()["data"]
            await asyncio.sleep(AGAIN_SECONDS)


class Worker:
    """Runs tasks until it is killed, or its parent is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pid = uuid.uuid4().hex
        self._held: dict[str, int] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._parent = os.getppid()

    async def run(self) -> None:
        """Poll, and work."""
        self._begin(self._extend())
        while True:
            try:
                async with self._connection.http.stream(
                    "GET", f"/poll/{GROUP}/{self._pid}", timeout=30
                ) as reply:
                    async for line in reply.aiter_lines():
                        if line.startswith("data: "):
                            self._begin(self._work_on(json.loads(line[6:])["data"]["task"]))
            except httpx.HTTPError:
                pass
            await asyncio.sleep(AGAIN_SECONDS)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(TTL / 3000)
            if os.getppid() != self._parent:
                os._exit(0)  # the soak was killed
            if self._held:
                tasks = [{"id": id, "version": version} for id, version in self._held.items()]
                await self._connection.ask("task.heartbeat", {"pid": self._pid, "tasks": tasks})

    async def _work_on(self, ref: dict[str, Any]) -> None:
        asked_at = round(time.time() * 1000)
        status, data = await self._connection.ask("task.acquire", {**ref, "pid": self._pid, "ttl": TTL})
        if status != 200:
            return  # another worker has it
        task, promise = data["task"], data["promise"]
        call = decoded(promise["param"])
        held = Held(self._connection, task["id"], task["version"])
        self._held[held.id] = held.version
        try:
            if call["func"] == "order":
                await held.order({each["id"]: each for each in data["preload"]})
            else:
                await held.step(asked_at)
        except LostError:
            pass
        finally:
            if self._held.get(held.id) == held.version:
                del self._held[held.id]


class Held:
    """A task that the worker holds."""

    def __init__(self, connection: Connection, id: str, version: int) -> None:
        self.id = id
        self.version = version
        self._connection = connection

    async def order(self, known: dict[str, Any]) -> None:
        """Have the steps run one batch after the other. The order's result are their results."""
        for batch in BATCHES:
            ids = [step_id(self.id, number) for number in batch]
            for id in ids:
                if id not in known:
                    action = {"kind": "promise.create", "data": creation(id, self.id, "step")}
                    known[id] = (await self._write("task.fence", {"action": action}))["action"]["data"][
                        "promise"
                    ]
            while any(known[id]["state"] == "pending" for id in ids):
                awaits = [
                    {"awaited": id, "awaiter": self.id} for id in ids if known[id]["state"] == "pending"
                ]
                actions = [{"kind": "promise.register_callback", "data": each} for each in awaits]
                reply = await self._write("task.suspend", {"actions": actions})
                if "preload" not in reply:
                    return
                known = {each["id"]: each for each in reply["preload"]}
        results = [decoded(known[step_id(self.id, number)]["value"]) for batch in BATCHES for number in batch]
        await self._fulfil(results)

    async def step(self, asked_at: int) -> None:
        """Add a line to the ledger. If the disk is full, another worker tries."""
        token = uuid.uuid4().hex
        try:
            with open(LEDGER, "a") as ledger:
                ledger.write(f"\n{self.id} {self.version} {asked_at} {token}\n")  # behind a part of a line
        except OSError:
            await self._write("task.release", {})
            return
        await asyncio.sleep(0.05)
        await self._fulfil(token)

    async def _fulfil(self, value: Any) -> None:
        settle = {"id": self.id, "state": "resolved", "value": encoded(value)}
        await self._write("task.fulfill", {"action": {"kind": "promise.settle", "data": settle}})

    async def _write(self, kind: str, data: dict[str, Any]) -> Any:
        status, reply = await self._connection.ask(kind, {"id": self.id, "version": self.version, **data})
        if status in (404, 409):
            raise LostError
        assert status in (200, 300), (kind, status, reply)
        return reply


def creation(id: str, parent: str, func: str) -> dict[str, Any]:
    """Return the data of a promise that calls a function of the group."""
    tags = {
        "resonate:origin": parent,
        "resonate:branch": id,
        "resonate:parent": parent,
        "resonate:target": TARGET,
    }
    return {"id": id, "timeoutAt": NEVER, "param": encoded({"func": func, "args": []}), "tags": tags}


def step_id(order: str, number: int) -> str:
    """Return the id of a step of an order."""
    return f"{order}.{number}"


def encoded(value: Any) -> dict[str, str]:
    """Return a value as the SDKs write it."""
    return {"data": base64.b64encode(json.dumps(value).encode()).decode()}


def decoded(value: dict[str, Any]) -> Any:
    """Return a value as the SDKs read it."""
    return json.loads(base64.b64decode(value["data"])) if value.get("data") else None


if __name__ == "__main__":
    asyncio.run(Worker(Connection(*sys.argv[1:])).run())
