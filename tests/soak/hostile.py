"""A hostile tenant: an operator's and a worker's key of another namespace, and harmful requests."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from signoff.people.questions.question import Question
from tests.attacks.costly import COSTLY

MOST_LARGE_RUNS = 40
"""Runs of 1 MiB that it starts: what it writes is kept, and the soak's disk is small."""

_COMPRESSED = gzip.compress(gzip.compress(b" " * 50_000_000))


class Hostile:
    """One client of the hostile tenant.

    Args:
        url: The server's.
        key: Its operator's key.
        worker_key: Its worker's key.
        chance: Chooses what it does.
        seen: Counts attacks, and the statuses they were answered with.
    """

    def __init__(
        self, url: str, key: str, worker_key: str, chance: random.Random, seen: Counter[tuple[str, int]]
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {key}"},
            trust_env=False,
            verify=False,
            timeout=20,
        )
        self._worker_key = worker_key
        self._chance = chance
        self._seen = seen
        self._large = 0
        self._attacks: list[Callable[[], Awaitable[httpx.Response | None]]] = [
            self._large_run,
            self._all_runs,
            self._deep_body,
            self._refused_schema,
            self._costly_answer,
            self._long_names,
            self._bad_row,
            self._wrong_key,
            self._wrong_link,
            self._others_run,
            self._bad_schedule,
            self._lost_stream,
            self._half_request,
            self._compressed_body,
            self._two_lengths,
            self._many_headers,
            self._unread_page,
            self._odd_texts,
            self._long_integers,
            self._many_streams,
        ]

    async def play(self, stop: asyncio.Event) -> None:
        """Attack until it is to stop."""
        async with self._http:
            while not stop.is_set():
                attack = self._chance.choice(self._attacks)
                name = attack.__name__.strip("_")
                try:
                    reply = await attack()
                    self._seen[name, 0 if reply is None else reply.status_code] += 1
                except (httpx.HTTPError, OSError):
                    self._seen[name, -1] += 1
                await asyncio.sleep(0.05)

    async def _post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return await self._http.post(path, json=body, **more)

    async def _large_run(self) -> httpx.Response | None:
        self._large += 1
        if self._large > MOST_LARGE_RUNS:
            return None
        return await self._post("/v1/runs", {"workflow": "nobody-has-it", "args": ["x" * 1_000_000]})

    async def _all_runs(self) -> httpx.Response:
        return await self._http.get("/v1/runs", params={"limit": 1000})

    async def _deep_body(self) -> httpx.Response:
        body = b"[" * 200_000
        return await self._http.post("/v1/runs", content=body, headers={"content-type": "application/json"})

    async def _refused_schema(self) -> httpx.Response:
        levels = {f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 8} for n in range(40)}
        schema = {"$ref": "#/$defs/l0", "$defs": {**levels, "l40": {"type": "integer"}}}
        question = json.dumps({"text": "Go?", "input_type": "form", "answer_schema": schema})
        return await self._store("create_promise", {"new": {"id": "q", "kind": "question", "data": question}})

    async def _costly_answer(self) -> httpx.Response:
        """Answer a question whose schema passes, but whose answer takes more than may be spent on it."""
        name, (schema, answer) = self._chance.choice([*COSTLY.items()])
        id = f"costly-{name}"
        data = Question.make("Go?", input_type="form", answer_type=schema).to_json()
        await self._store("create_promise", {"new": {"id": id, "kind": "question", "data": data}})
        return await self._post(f"/v1/questions/{id}/answer", {"user_id": "eve", "value": answer})

    async def _long_names(self) -> httpx.Response:
        return await self._post("/v1/runs", {"workflow": "w" * 5000, "id": "i" * 5000})

    async def _bad_row(self) -> httpx.Response:
        new = {"id": f"bad-{self._chance.random()}", "kind": "question", "data": '{"text": 1}'}
        return await self._store("create_promise", {"new": new})

    async def _wrong_key(self) -> httpx.Response:
        key = f"Bearer sgk_{self._chance.randrange(10**40):043}"
        return await self._http.get("/v1/runs", headers={"authorization": key})

    async def _wrong_link(self) -> httpx.Response:
        return await self._http.get(f"/l/sgl_{self._chance.randrange(10**40):043}")

    async def _others_run(self) -> httpx.Response:
        return await self._post(f"/v1/runs/a-{self._chance.randrange(1, 50)}/cancel", {})

    async def _bad_schedule(self) -> httpx.Response:
        schedule = {"id": "s", "workflow": "w" * 400, "cron": "* * * * *", "timezone": "Mars/Olympus"}
        return await self._post("/v1/schedules", schedule)

    async def _lost_stream(self) -> None:
        async with self._http.stream("GET", "/v1/questions/events"):
            await asyncio.sleep(0.2)

    async def _half_request(self) -> None:
        url = self._http.base_url
        _, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{")
        await asyncio.sleep(0.5)
        writer.close()

    async def _compressed_body(self) -> httpx.Response:
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        return await self._http.post("/v1/runs", content=_COMPRESSED, headers=headers)

    async def _two_lengths(self) -> None:
        head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        await self._raw(head + b"0\r\n\r\nGET /v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n")

    async def _many_headers(self) -> None:
        lines = b"".join(b"X-%d: %b\r\n" % (n, b"y" * 1000) for n in range(2_000))
        await self._raw(b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\n" + lines)

    async def _unread_page(self) -> None:
        key = self._http.headers["authorization"].encode()
        page = b"GET /v1/runs?limit=1000 HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + key + b"\r\n\r\n"
        await self._raw(page * 20)

    async def _odd_texts(self) -> httpx.Response:
        text = self._chance.choice(["\\u0000", "\\ud800", "\\udc00\\ud800", "\\u202e", "\\ufffe", "\\u0085"])
        body = f'{{"workflow":"w{text}","id":"i{text}","group":"g{text}","args":["{text}"]}}'
        return await self._http.post("/v1/runs", content=body, headers={"content-type": "application/json"})

    async def _long_integers(self) -> httpx.Response:
        """Answer with integers of thousands of digits, each of which is compared with each option."""
        schema = {"type": "array", "items": {"enum": list(range(900))}}
        data = Question.make("Go?", input_type="form", answer_type=schema).to_json()
        await self._store("create_promise", {"new": {"id": "digits", "kind": "question", "data": data}})
        return await self._post("/v1/questions/digits/answer", {"user_id": "eve", "value": [10**4000] * 8})

    async def _many_streams(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(30):
                await stack.enter_async_context(self._http.stream("GET", "/v1/questions/events"))

    async def _raw(self, sent: bytes) -> None:
        url = self._http.base_url
        _, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(sent)
        await asyncio.sleep(0.5)
        writer.transport.abort()

    async def _store(self, do: str, arguments: dict[str, Any]) -> httpx.Response:
        operation = {"id": 1, "do": do, "namespace": "evil", "arguments": arguments}
        batch = {"client": f"c{self._chance.random()}", "floor": 0, "operations": [operation]}
        return await self._post("/v1/store", batch, headers={"authorization": f"Bearer {self._worker_key}"})
