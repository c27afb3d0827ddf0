"""A process that polls a server for a group and calls functions, as an SDK of Resonate does."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx

from tests.server.resonate.speaker import envelope

Function = Callable[..., Any]


class Rejection(Exception):
    """Rejects the promise of a call with this value."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class Process:
    """A process with functions, as an async context manager.

    Args:
        url: The server.
        functions: By name. An async function may wait.
        group: Its group.
        pid: Its id.
        ttl: The lease that it takes on a task, in milliseconds. It extends none.
        waits: Whether the block begins once it is connected. It connects again whenever a server listens.
        key: Its key.

    Attributes:
        calls: The calls so far: function, args, kwargs.
        params: Their parameters, as they came.
    """

    def __init__(
        self,
        url: str,
        functions: Mapping[str, Function],
        *,
        group: str = "ts-workers",
        pid: str = "p",
        ttl: int = 60_000,
        waits: bool = True,
        key: str | None = None,
    ) -> None:
        self.calls: list[tuple[str, list[Any], dict[str, Any]]] = []
        self.params: list[dict[str, Any]] = []
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=60, headers=headers)
        self._functions = functions
        self._path = f"/poll/{group}/{pid}"
        self._pid = pid
        self._ttl = ttl
        self._waits = waits
        self._connected = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(8)  # httpx slows down with many connections

    async def __aenter__(self) -> Process:
        self._begin(self._poll())
        if self._waits:
            await self._connected.wait()
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()

    async def send(self, kind: str, data: Any) -> Any:
        """Send a request. Returns the data of its reply; None if it is refused."""
        async with self._turns:
            response = await self._http.post("/", json=envelope(kind, data))
        return response.json()["data"] if response.is_success else None

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _poll(self) -> None:
        while True:
            with suppress(httpx.TransportError):  # the server has ended, and another may come
                async with self._http.stream("GET", self._path, timeout=None) as response:
                    async for line in response.aiter_lines():
                        self._connected.set()
                        if line.startswith("data: "):
                            self._begin(self._execute(json.loads(line[6:])["data"]["task"]))
            await asyncio.sleep(0.1)

    async def _execute(self, sent: Any) -> None:
        lease = {"pid": self._pid, "ttl": self._ttl}
        with suppress(httpx.TransportError):
            acquired = await self.send("task.acquire", {**sent, **lease})
            if acquired is None:
                return
            param = json.loads(base64.b64decode(acquired["promise"]["param"]["data"]))
            task = {"id": sent["id"], "version": acquired["task"]["version"]}
            function = self._functions.get(param["func"])
            if function is None:
                await self.send("task.release", task)
                return
            self.params.append(param)
            self.calls.append((param["func"], param["args"], param["kwargs"]))
            state, value = "resolved", None
            try:
                value = function(*param["args"], **param["kwargs"])
                value = await value if asyncio.iscoroutine(value) else value
            except Rejection as rejection:
                state, value = "rejected", rejection.value
            settle = {"id": sent["id"], "state": state, "value": in_wire(value)}
            action = {"kind": "promise.settle", "head": {}, "data": settle}
            await self.send("task.fulfill", {**task, "action": action})


def in_wire(value: Any) -> dict[str, Any]:
    """Return a value as the SDKs write it. ``Raw`` is sent as it is."""
    if isinstance(value, Raw):
        return value.value
    return {} if value is None else {"data": base64.b64encode(json.dumps(value).encode()).decode()}


class Raw:
    """A value of the protocol that is not the base64 of JSON."""

    def __init__(self, **value: Any) -> None:
        self.value = value
