"""An innocent tenant: it starts runs, answers their questions, follows their streams, and checks the results."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

PATIENCE_SECONDS = 120.0
"""How long an innocent waits through kills, restarts and a full disk before a promise counts as broken."""


@dataclass
class Figures:
    """What innocents saw.

    Attributes:
        asked: Seconds from a start to its question, by when it began.
        ended: Seconds from an answer to its run's end, by when it began.
        broken: Promises that did not hold.
        ids: The runs that have ended.
        reconnected: How often a stream was resumed.
    """

    asked: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    ended: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    broken: list[str] = field(default_factory=list[str])
    ids: list[str] = field(default_factory=list[str])
    reconnected: int = 0


class Innocent:
    """One client of the innocent tenant.

    Args:
        url: The server's.
        key: The tenant's.
        name: Leads its runs' ids.
        figures: Where it notes what it sees.
    """

    def __init__(self, url: str, key: str, name: str, figures: Figures) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {key}"},
            trust_env=False,
            verify=False,
            timeout=10,
        )
        self._name = name
        self._figures = figures

    async def play(self, stop: asyncio.Event) -> None:
        """Make one refund after the other, until it is to stop."""
        async with self._http:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        await self._refund(f"{self._name}-{number}", number)
                except Exception as error:
                    self._figures.broken.append(f"{self._name}-{number}: {error!r}")
                await asyncio.sleep(0.02)

    async def _refund(self, id: str, amount: int) -> None:
        began_at = time.monotonic()
        start = {"workflow": "refund", "id": id, "args": [amount]}
        await self._insist("POST", "/v1/runs", start, (200, 201))
        following = asyncio.create_task(self._follow(id))
        try:
            question = await self._question(id)
            self._figures.asked.append((began_at, time.monotonic() - began_at))
            answered_at = time.monotonic()
            answer = {"value": amount % 3 != 0, "user_id": "ana", "request_id": f"answer-{id}"}
            await self._insist("POST", f"/v1/questions/{question}/answer", answer, (200,))
            seen = await following
        finally:
            following.cancel()
        self._figures.ended.append((answered_at, time.monotonic() - answered_at))
        run = (await self._insist("GET", f"/v1/runs/{id}", None, (200,))).json()
        expected = {"amount": amount, "approved": amount % 3 != 0, "by": "ana"}
        if run["state"] != "succeeded" or run["result"] != expected:
            self._figures.broken.append(f"{id}: {run['state']} with {run.get('result')}, not {expected}")
        if seen != list(range(len(seen))):
            self._figures.broken.append(f"{id}: its stream had the entries {seen}")
        self._figures.ids.append(id)

    async def _question(self, id: str) -> str:
        while True:
            page = (await self._insist("GET", f"/v1/questions?run_id={id}", None, (200,))).json()
            if page["items"]:
                return page["items"][0]["id"]
            await asyncio.sleep(0.05)

    async def _follow(self, id: str) -> list[int]:
        """Return the seqs of a run's entries as its stream had them, resumed as often as it was lost."""
        seen: list[int] = []
        while True:
            try:
                headers = {"last-event-id": str(seen[-1])} if seen else {}
                async with self._http.stream(
                    "GET", f"/v1/runs/{id}/events", headers=headers, timeout=30
                ) as reply:
                    if reply.status_code == 200:
                        event = "message"
                        async for line in reply.aiter_lines():
                            name, _, value = line.partition(": ")
                            if name == "event":
                                event = value
                            elif name == "data" and event == "end":
                                return seen
                            elif name == "data":
                                seen.append(json.loads(value)["seq"])
            except httpx.HTTPError:
                pass
            self._figures.reconnected += 1
            await asyncio.sleep(0.1)

    async def _insist(self, method: str, path: str, body: Any, expected: tuple[int, ...]) -> httpx.Response:
        """Send a request again until it is answered: the server may be down, or its disk full."""
        while True:
            try:
                reply = await self._http.request(method, path, json=body)
            except httpx.HTTPError:
                await asyncio.sleep(0.1)
                continue
            if reply.status_code in expected:
                return reply
            if reply.status_code not in (429, 503):
                raise AssertionError(f"{method} {path}: {reply.status_code} {reply.text[:500]}")
            await asyncio.sleep(0.1)
