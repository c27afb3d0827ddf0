"""The protocol of resonate-sdk 0.6.7, request by request."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.codec.ciphers import EncryptionKey
from signoff.records import PromiseKind, PromiseState, Settlement
from signoff.records.paging import PromiseFilter
from signoff.server import Server
from signoff.server.auth.roles import Role
from signoff.server.auth.stored_keys import StoredKeys
from signoff.server.resonate.legacy.listener import LegacyPorts
from signoff.stores.address import KEYS_VARIABLE
from tests.support import in_asyncio

PATIENCE = 20


class Legacy:
    """A server, and a client of its two ports."""

    def __init__(self, server: Server, store: Any, http: httpx.AsyncClient, auth: Any = None) -> None:
        assert server.resonate_legacy is not None
        self.listener, self.store, self.http = server.resonate_legacy, store, http

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        strict: bool = False,
        **more: Any,
    ) -> tuple[int, Any]:
        headers = {"strict": str(strict), **({} if key is None else {"idempotency-key": key})}
        reply = await self.http.request(method, self.listener.url + path, json=body, headers=headers, **more)
        return reply.status_code, reply.json() if reply.content else None

    async def create(self, id: str, timeout: int = sys.maxsize, **more: Any) -> tuple[int, Any]:
        tags = more.pop("tags", {})
        return await self.send("POST", "/promises", {"id": id, "timeout": timeout, "tags": tags}, **more)

    async def settle(self, id: str, state: str, data: Any = None, **more: Any) -> tuple[int, Any]:
        value = {} if data is None else {"data": base64.b64encode(json.dumps(data).encode()).decode()}
        return await self.send("PATCH", f"/promises/{id}", {"state": state, "value": value}, **more)

    async def code(self, *sent: Any, **more: Any) -> int:
        status, body = await self.send(*sent, **more)
        assert body["error"]["code"] // 100 == status
        assert body["error"]["message"]
        return body["error"]["code"]

    @asynccontextmanager
    async def messages(self, pid: str, group: str = "default", **more: Any) -> AsyncIterator[Any]:
        """The next messages for a process, as an iterator."""
        async with self.http.stream(
            "GET", f"{self.listener.messages_url}/{group}/{pid}", timeout=PATIENCE, **more
        ) as reply:
            assert reply.status_code == 200
            lines = reply.aiter_lines()
            await anext(lines)  # connected

            async def read() -> AsyncIterator[Any]:
                async for line in lines:
                    if line.startswith("data:"):
                        yield json.loads(line[5:])

            yield read()

    async def claim(self, task: dict[str, Any], pid: str = "p", ttl: int = 60_000) -> tuple[int, Any]:
        return await self.send("POST", "/tasks/claim", {**task, "processId": pid, "ttl": ttl})


@asynccontextmanager
async def legacy(store: str | Signoff, **options: Any) -> AsyncIterator[Legacy]:
    app = Signoff(store) if isinstance(store, str) else store
    try:
        async with (
            Server(app, port=0, resonate_legacy=LegacyPorts(0, 0), **options) as server,
            httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as http,
        ):
            yield Legacy(server, app.store, http)
    finally:
        await app.store.close()


def pickled(text: str, data: str | None) -> dict[str, Any]:
    """A value as the SDK writes it: ``jsonpickle`` in a header, and JSON as data."""
    value: dict[str, Any] = {"headers": {"resonate:format-py": text}}
    return value if data is None else {**value, "data": base64.b64encode(data.encode()).decode()}


@in_asyncio
@pytest.mark.parametrize("keys", ["", EncryptionKey("k", b"k" * 32).text], ids=["plain", "encrypted"])
@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (pickled('{"a": [1, null, "\\u00fc"]}', '{"a": [1, null, "\\u00fc"]}'), {"a": [1, None, "ü"]}),
        (pickled('{"b": 1, "a":2}', '{"b": 1, "a":2}'), {"a": 2, "b": 1}),
        (pickled("7", "7"), 7),
        (pickled("null", None), None),
        (pickled("null", "null"), ...),
        (pickled('{"py/tuple": [1]}', "[1]"), ...),
        (pickled("7 ", "7 "), ...),
        (pickled("NaN", "NaN"), ...),
        ({"headers": {"other": "7"}, "data": "Nw=="}, ...),
        ({"headers": {"resonate:format-py": "7", "other": "7"}, "data": "Nw=="}, ...),
        ({"data": base64.b64encode(b"7 ").decode()}, ...),
    ],
    ids=str,
)
async def test_value_of_the_sdk_is_kept_exactly_and_seen_as_json(
    store: str, value: Any, seen: Any, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, keys)
    async with legacy(store) as server:
        await server.create("a")
        _, settled = await server.send("PATCH", "/promises/a", {"state": "RESOLVED", "value": value})
        assert settled["value"] == value
        kept = json.loads((await server.store.get_promise("a")).value)
        assert kept == ({"resonate:value": value} if seen is ... else seen)


@in_asyncio
async def test_value_of_the_sdk_is_what_a_workflow_awaits(store: str) -> None:
    app = Signoff(store)

    @app.workflow
    async def waits(ctx: Context) -> Any:
        return await (await ctx.promise(id="a"))

    async with legacy(app) as server, app.worker(), AsyncClient(app) as client:
        run = await client.start(waits)
        while not (await server.store.list_promises(PromiseFilter())).items:
            await asyncio.sleep(0.01)
        await server.send("PATCH", "/promises/a", {"state": "RESOLVED", "value": pickled("[7]", "[7]")})
        assert await run.result(60) == [7]


@in_asyncio
async def test_call_of_the_sdk_starts_a_workflow_of_signoff(store: str) -> None:
    app = Signoff(store, group="python")

    @app.workflow
    async def adds(ctx: Context, a: int, b: int) -> int:
        return a + b

    call = '{"func": "adds", "args": %s, "kwargs": {"b": 2}}'
    async with legacy(app) as server, app.worker(), server.messages("p", "callers") as messages:
        body = {
            "id": "sum",
            "timeout": sys.maxsize,
            "param": pickled(call % '{"py/tuple": [1]}', call % "[1]"),
            "tags": {"resonate:invoke": "poll://any@python"},
        }
        await server.send("POST", "/promises", body)
        await server.send(
            "POST", "/promises/subscribe/sum", {"id": "s", "recv": "poll://uni@callers/p", "timeout": 1}
        )
        sent = (await anext(messages))["promise"]
        assert (sent["state"], sent["value"]) == ("RESOLVED", {"data": "Mw=="})


@in_asyncio
async def test_promise_is_created_once_and_shown_to_the_same_key(store: str) -> None:
    async with legacy(store) as server:
        status, made = await server.create("a/b", key="k", tags={"x": "1"})
        assert (status, made["state"], made["timeout"], made["tags"]) == (
            201,
            "PENDING",
            sys.maxsize,
            {"x": "1"},
        )
        assert made["idempotencyKeyForCreate"] == "k"
        assert await server.create("a/b", key="k", strict=True) == (200, made)
        assert await server.send("GET", "/promises/a/b") == (200, made)
        body = {"id": "a/b", "timeout": 1}
        assert await server.code("POST", "/promises", body, key="other") == 40900
        assert await server.code("POST", "/promises", body) == 40900


@in_asyncio
@pytest.mark.parametrize(
    ("state", "code"), [("RESOLVED", 40300), ("REJECTED", 40301), ("REJECTED_CANCELED", 40302)]
)
async def test_promise_is_settled_once(store: str, state: str, code: int) -> None:
    async with legacy(store) as server:
        await server.create("a")
        status, settled = await server.settle("a", state, 7, key="k")
        assert (status, settled["state"], settled["idempotencyKeyForComplete"]) == (201, state, "k")
        assert json.loads(base64.b64decode(settled["value"]["data"])) == 7
        assert (await server.settle("a", state, 7, key="k", strict=True))[0] in (200, 201)
        other = "REJECTED" if state == "RESOLVED" else "RESOLVED"
        assert await server.settle("a", other, 8, key="k") == (200, settled)
        assert await server.code("PATCH", "/promises/a", {"state": other}, key="k", strict=True) == code
        assert await server.code("PATCH", "/promises/a", {"state": state}) == code
        assert (await server.store.get_promise("a")).value == "7"


@in_asyncio
async def test_key_that_settled_another_promise_of_a_run_is_refused_for_good(store: str) -> None:
    app = Signoff(store, group="python")

    @app.workflow
    async def waits(ctx: Context) -> Any:
        promises = [await ctx.promise(id=id) for id in "ab"]
        return [await each for each in promises]

    body = {"state": "RESOLVED", "value": pickled("7", "7")}
    async with legacy(app) as server, app.worker(), AsyncClient(app) as client:
        run = await client.start(waits)
        while len((await server.store.list_promises(PromiseFilter())).items) < 2:
            await asyncio.sleep(0.01)
        assert (await server.send("PATCH", "/promises/a", body, key="k"))[0] == 201
        assert await server.code("PATCH", "/promises/b", body, key="k") == 40999
        assert (await server.send("PATCH", "/promises/b", body, key="other"))[0] == 201
        assert await run.result(60) == [7, 7]


@in_asyncio
async def test_promise_past_its_timeout_is_timed_out_or_resolved(store: str) -> None:
    async with legacy(store) as server:
        await server.create("late", 1)
        await server.create("timer", 1, tags={"resonate:timeout": "true"})
        assert (await server.send("GET", "/promises/late"))[1]["state"] == "REJECTED_TIMEDOUT"
        assert (await server.send("GET", "/promises/timer"))[1]["state"] == "RESOLVED"
        assert (await server.settle("late", "RESOLVED"))[1]["state"] == "REJECTED_TIMEDOUT"
        body = {"state": "RESOLVED"}
        assert await server.code("PATCH", "/promises/late", body, strict=True) == 40303
        assert await server.code("PATCH", "/promises/timer", body, strict=True) == 40300


@in_asyncio
async def test_missing_records_and_invalid_bodies_have_codes_of_their_own(store: str) -> None:
    async with legacy(store) as server:
        task = {"id": "none", "counter": 1}
        assert await server.code("GET", "/promises/none") == 40400
        assert await server.code("PATCH", "/promises/none", {"state": "RESOLVED"}) == 40400
        assert await server.code("POST", "/promises/subscribe/none", {"id": "s", "recv": "default"}) == 40400
        assert await server.code("POST", "/tasks/claim", {**task, "processId": "p", "ttl": 1}) == 40403
        assert await server.code("POST", "/tasks/complete", task) == 40403
        assert await server.code("GET", "/schedules/none") == 40401
        assert await server.code("DELETE", "/schedules/none") == 40401
        for body in ({}, [], {"id": "a"}, {"id": "a", "timeout": "1"}, {"id": "a", "timeout": -1}):
            assert await server.code("POST", "/promises", body) == 40000
        bad = {"id": "a", "timeout": 1, "tags": {"resonate:invoke": "http://example.com"}}
        assert await server.code("POST", "/promises", bad) == 40000
        await server.create("a")
        assert await server.code("PATCH", "/promises/a", {"state": "PENDING"}) == 40000


@in_asyncio
async def test_task_is_sent_claimed_and_resumed_by_what_it_awaits(store: str) -> None:
    async with legacy(store) as server, server.messages("p") as messages:
        await server.create("root", tags={"resonate:invoke": "default"})
        sent = await anext(messages)
        assert sent == {"type": "invoke", "task": {"id": "root", "counter": 1}}
        status, claimed = await server.claim(sent["task"])
        assert (status, claimed["type"], claimed["promises"]["root"]["data"]["id"]) == (201, "invoke", "root")
        assert (
            await server.code("POST", "/tasks/claim", {**sent["task"], "processId": "q", "ttl": 1}) == 40305
        )
        assert await server.send("POST", "/tasks/heartbeat", {"processId": "p"}) == (
            200,
            {"tasksAffected": 1},
        )

        await server.create("leaf")
        awaits = {"rootPromiseId": "root", "recv": "poll://any@default/p", "timeout": sys.maxsize}
        status, registered = await server.send("POST", "/promises/callback/leaf", awaits)
        assert (status, registered["callback"]["id"]) == (201, "__resume:root:leaf")
        for status in (201, 200):  # the second is a repetition
            assert (await server.send("POST", "/tasks/complete", sent["task"]))[0] == status
        assert await server.send("POST", "/tasks/heartbeat", {"processId": "p"}) == (
            200,
            {"tasksAffected": 0},
        )

        await server.settle("leaf", "RESOLVED", "done")
        sent = await anext(messages)
        assert sent == {"type": "resume", "task": {"id": "root", "counter": 2}}
        _, claimed = await server.claim(sent["task"])
        assert claimed["promises"]["leaf"]["data"]["state"] == "RESOLVED"
        status, registered = await server.send("POST", "/promises/callback/leaf", awaits)
        assert (status, registered.get("callback"), registered["promise"]["state"]) == (200, None, "RESOLVED")
        await server.settle("root", "RESOLVED")
        assert (await server.send("POST", "/tasks/complete", sent["task"]))[0] == 200


@in_asyncio
async def test_promise_settled_before_its_awaiter_suspends_resumes_it(store: str) -> None:
    async with legacy(store) as server, server.messages("p") as messages:
        body = {"promise": {"id": "root", "timeout": sys.maxsize, "tags": {"resonate:invoke": "default"}}}
        holder = {"task": {"processId": "p", "ttl": 60_000}}
        status, made = await server.send("POST", "/promises/task", {**body, **holder}, key="k")
        assert (status, made["task"]["counter"]) == (201, 1)
        status, again = await server.send("POST", "/promises/task", {**body, **holder}, key="k")
        assert (status, again.get("task")) == (200, None)
        for leaf in ("x", "y"):
            await server.create(leaf)
            awaits = {"rootPromiseId": "root", "recv": "poll://any@default/p"}
            await server.send("POST", f"/promises/callback/{leaf}", awaits)
            await server.settle(leaf, "RESOLVED")
        task: dict[str, Any] = {"id": "root", "counter": 1}
        for leaf in ("x", "y"):
            assert (await server.send("POST", "/tasks/complete", task))[0] == 201
            sent = await anext(messages)
            assert sent["type"] == "resume"
            task = sent["task"]
            assert (await server.claim(task))[1]["promises"]["leaf"]["id"] == leaf


@pytest.mark.long  # a new server frees no lease in its first ten seconds
@in_asyncio
async def test_expired_lease_is_given_to_the_next_process(store: str) -> None:
    async with legacy(store) as server, server.messages("p") as messages:
        await server.create("root", tags={"resonate:invoke": "poll://any@default"})
        first = await anext(messages)
        await server.claim(first["task"], ttl=0)
        second = await anext(messages)
        assert second == {"type": "invoke", "task": {"id": "root", "counter": 2}}
        assert await server.code("POST", "/tasks/complete", first["task"]) == 40308
        await server.claim(second["task"], pid="q")
        assert await server.code("POST", "/tasks/complete", first["task"]) == 40307


@in_asyncio
async def test_subscriber_is_sent_the_settled_promise_once(store: str) -> None:
    async with legacy(store) as server, server.messages("p") as messages:
        await server.create("a", key="k")
        body = {"id": "p", "recv": "poll://uni@default/p", "timeout": sys.maxsize}
        status, subscribed = await server.send("POST", "/promises/subscribe/a", body)
        assert (status, subscribed["callback"]["id"]) == (201, "__notify:a:p")
        # Settled by the store, as a person or a workflow would.
        await server.store.settle("a", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, '"\\u2028"'))
        sent = await anext(messages)
        assert (sent["type"], sent["promise"]["state"]) == ("notify", "RESOLVED")
        await server.create("b", tags={"resonate:invoke": "default"})
        assert (await anext(messages))["type"] == "invoke"


@in_asyncio
async def test_messages_of_a_lost_connection_go_to_the_next_one(store: str) -> None:
    async with legacy(store) as server, server.messages("p") as lost:
        await server.create("root", tags={"resonate:invoke": "default"})
        sent = await anext(lost)
        async with server.messages("p") as messages:  # the process connects again
            assert await anext(messages) == sent


@in_asyncio
async def test_schedule_is_created_once_shown_and_deleted(store: str) -> None:
    async with legacy(store) as server:
        body = {
            "id": "s",
            "cron": "0 * * * *",
            "promiseId": "s.{{.timestamp}}",
            "promiseTimeout": sys.maxsize,
            "promiseTags": {"resonate:invoke": "default"},
        }
        status, made = await server.send("POST", "/schedules", body, key="k")
        assert (status, made["promiseTags"], made["idempotencyKey"]) == (201, body["promiseTags"], "k")
        assert made["nextRunTime"] % 3_600_000 == 0
        assert await server.send("POST", "/schedules", body, key="k") == (200, made)
        assert await server.code("POST", "/schedules", body) == 40901
        assert await server.code("POST", "/schedules", {**body, "id": "t", "cron": "never"}) == 40000
        assert await server.send("DELETE", "/schedules/s") == (204, None)
        assert await server.code("GET", "/schedules/s") == 40401


@in_asyncio
async def test_key_is_the_password_of_basic_authentication(store: str) -> None:
    async with legacy(store, require_auth=True) as server:
        keys = StoredKeys(server.store)
        key, _ = await keys.create_for_service("bot", [Role.OPERATOR])
        reader, _ = await keys.create_for_service("reader", [Role.VIEWER])
        body = {"id": "a", "timeout": 1}
        assert await server.code("POST", "/promises", body) == 40100
        assert await server.code("POST", "/promises", body, auth=("bot", "wrong")) == 40100
        assert await server.code("POST", "/promises", body, auth=("", reader)) == 40399
        assert (await server.send("POST", "/promises", body, auth=("anything", key)))[0] == 201
        assert (await server.send("GET", "/promises/a", auth=("", reader)))[0] == 200
        async with server.messages("p", auth=("", key)):
            pass
        refused = await server.http.get(f"{server.listener.messages_url}/default/p")
        assert refused.status_code == 401
