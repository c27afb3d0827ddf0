"""Rule: of all who settle a promise at once, through the protocol and the HTTP API of two servers, exactly one wins.

The others learn how it was settled, and whatever awaits the promise continues once, with the winner's value.
"""

from __future__ import annotations

import asyncio
import json
import random
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from signoff import AsyncClient, Context, PromiseCancelled, PromiseRejected, Signoff
from signoff.records.audit import AuditKind
from signoff.records.paging import AuditFilter
from signoff.server.resonate.durable_promises import to_record
from signoff.server.server import Server
from signoff.stores.contract.store import Store
from signoff.testing import VirtualClock
from tests.server.resonate.speaker import (
    NEVER,
    START,
    TARGET,
    await_action,
    create_action,
    envelope,
    open_store,
    settle_action,
)
from tests.support import pauses

STATES = {"resolve": "resolved", "reject": "rejected", "cancel": "rejected_canceled"}
QUESTION = {
    "text": "How much?",
    "input_type": "form",
    "answer_schema": {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]},
}
ENDS = (AuditKind.RESOLVED, AuditKind.CANCELLED, AuditKind.TIMED_OUT)
LASTS = 60_000
"""Milliseconds until a question's deadline."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request to settle a promise.

    Attributes:
        own: The state and the value that it would settle it with. The value is its own, but for cancellations.
        seen: Those that the promise has, as far as the reply shows it: of a refusal, the state alone.
        was_accepted: Whether the status says that it has won. None if it does not tell.
    """

    own: tuple[str, Any]
    seen: tuple[str | None, Any]
    was_accepted: bool | None = None


@dataclass
class World:
    """Two servers on one database, each with both APIs, and a worker of Signoff.

    Attributes:
        app: The app of the worker.
        stores: The stores of the servers.
        client: Starts runs.
        apis: The HTTP APIs.
        protocols: The protocol's ports.
        continued: The values that runs have continued with.
    """

    app: Signoff
    stores: Sequence[Store]
    client: AsyncClient
    apis: Sequence[httpx.AsyncClient]
    protocols: Sequence[httpx.AsyncClient]
    clock: VirtualClock
    continued: list[Any]

    async def ask(self, kind: str, data: Any) -> Any:
        """Return the data of a reply of the protocol."""
        response = await self.protocols[0].post("/", json=envelope(kind, data))
        assert response.status_code == 200, response.text
        return response.json()["data"]

    async def hold(self, id: str) -> None:
        """Create a promise with a task that is acquired, in version 1."""
        await self.ask("task.create", {"pid": "p", "ttl": 10**9, "action": create_action(id, tags=TARGET)})

    async def await_in_task(self, task_id: str, awaited: str) -> None:
        """Let a new task await a promise."""
        await self.hold(task_id)
        await self.ask(
            "task.suspend", {"id": task_id, "version": 1, "actions": [await_action(awaited, task_id)]}
        )

    def settling(self, number: int, id: str, holder: str | None = None) -> Awaitable[Outcome]:
        """Settle a promise through the protocol, in the name of a task if one is given: its own, or another one."""
        state = [*STATES.values()][number % 3]
        action = settle_action(id, state, data=encoded(number))
        if holder is None:
            request = envelope("promise.settle", action["data"])
        else:
            kind = "task.fulfill" if holder == id else "task.fence"
            request = envelope(kind, {"id": holder, "version": 1, "action": action})
        return self._settling(number, (state, number), request)

    async def _settling(self, number: int, own: tuple[str, Any], request: Any) -> Outcome:
        response = await self.protocols[number % 2].post("/", json=request)
        data = response.json()["data"]
        if response.status_code == 409:
            return Outcome(own, (None, None), was_accepted=False)
        assert response.status_code == 200, response.text
        promise = data["action"]["data"]["promise"] if "action" in data else data["promise"]
        return Outcome(own, shown(promise))

    async def deciding(self, number: int, id: str) -> Outcome:
        """Settle a promise through the HTTP API."""
        verb = [*STATES][number % 3]
        value = None if verb == "cancel" else number
        body = {"by": f"user:{number}", **({} if verb == "cancel" else {"value": value})}
        response = await self.apis[number % 2].post(f"/v1/promises/{id}/{verb}", json=body)
        return read(response, (STATES[verb], value))

    async def answering(self, number: int, id: str) -> Outcome:
        """Answer a question in the inbox."""
        body = {"value": {"cents": number}, "user_id": f"user-{number}"}
        response = await self.apis[number % 2].post(f"/v1/questions/{id}/answer", json=body)
        return read(response, ("resolved", {"cents": number}))

    async def record(self, id: str) -> tuple[str, Any]:
        """Return the state and the value of a promise."""
        return shown((await self.ask("promise.get", {"id": id}))["promise"])

    async def was_resumed_once(self, task_id: str) -> None:
        """Check that a task was resumed: of two processes that acquire it one does."""
        request = envelope("task.acquire", {"id": task_id, "version": 1, "pid": "q", "ttl": 10**9})
        replies = await asyncio.gather(*(each.post("/", json=request) for each in self.protocols))
        assert sorted(reply.status_code for reply in replies) == [200, 409]
        assert (await self.ask("task.get", {"id": task_id}))["task"]["version"] == 2


def read(response: httpx.Response, own: tuple[str, Any]) -> Outcome:
    """Return what a reply of the HTTP API tells."""
    body = response.json()
    if response.status_code == 200:
        return Outcome(own, own, was_accepted=True)
    assert (response.status_code, body["type"]) == (409, "urn:signoff:AlreadySettled"), body
    states = {"cancelled": "rejected_canceled", "timed_out": "rejected_timedout"}
    return Outcome(own, (states.get(body["state"], body["state"]), None), was_accepted=False)


def encoded(value: Any) -> str:
    return b64encode(json.dumps(value).encode()).decode()


def shown(promise: Any) -> tuple[str, Any]:
    """Return the state and the value of a promise as the protocol shows it."""
    data = promise.get("value", {}).get("data")
    return promise["state"], json.loads(b64decode(data)) if data else None


async def at_once(chance: random.Random, *requests: Awaitable[Outcome]) -> list[Outcome]:
    """Send requests, all at once and in any order."""

    async def send(request: Awaitable[Outcome]) -> Outcome:
        await asyncio.sleep(chance.choice((0, 0.001, 0.003)))
        return await request

    order = list(requests)
    chance.shuffle(order)
    return list(await asyncio.gather(*map(send, order)))


def check_one_won(outcomes: Sequence[Outcome], final: tuple[str, Any]) -> None:
    """Check that one request won, and that all others learned how the promise was settled."""
    winners = [
        each
        for each in outcomes
        if each.was_accepted is True or (each.was_accepted is None and each.own == final)
    ]
    assert len(winners) == 1, (final, outcomes)
    assert winners[0].own == final
    assert {each.seen[0] for each in outcomes} <= {final[0], None}
    assert {each.seen for each in outcomes if each.was_accepted is None} <= {final}


@asynccontextmanager
async def world(url: str) -> AsyncIterator[World]:
    clock = VirtualClock(START / 1000)
    stores = [open_store(url, clock=clock) for _ in range(2)]
    app = Signoff(stores[0], group="python")
    continued: list[Any] = []

    @app.workflow
    async def waits(ctx: Context, id: str) -> None:
        promise = await ctx.promise(id=id)
        try:
            outcome = ["resolved", await promise]
        except PromiseRejected as error:
            outcome = ["rejected", error.value]
        except PromiseCancelled:
            outcome = ["rejected_canceled", None]
        await ctx.step("continue", continued.append, outcome)

    async with AsyncExitStack() as stack:
        for each in stores:
            stack.push_async_callback(each.close)
        serving = [Server(each, port=0, resonate_port=0) for each in (app, stores[1])]
        servers = [await stack.enter_async_context(each) for each in serving]
        await stack.enter_async_context(app.worker())
        client = await stack.enter_async_context(AsyncClient(app))

        async def http(url: str | None) -> httpx.AsyncClient:
            assert url is not None
            return await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, trust_env=False, timeout=60)
            )

        apis = [await http(server.url) for server in servers]
        protocols = [await http(server.resonate_url) for server in servers]
        yield World(app, stores, client, apis, protocols, clock, continued)


ROUNDS = range(6)


def test_one_settlement_of_a_plain_promise_wins(store: str) -> None:
    """A run, a task and a listener wait for it."""
    chance = random.Random(23)

    async def run() -> None:
        async with world(store) as here:
            await here.hold("holder")
            for n in ROUNDS:
                id, task_id = f"p-{n}", f"t-{n}"
                await here.ask("promise.create", {"id": id, "timeoutAt": NEVER})
                handle = await here.client.start("waits", id, id=f"run-{n}")
                await pauses(here.app, handle.id)
                await here.await_in_task(task_id, id)
                await here.ask("promise.register_listener", {"awaited": id, "address": "poll://uni@g/p"})
                outcomes = await at_once(
                    chance,
                    *(here.settling(number, id) for number in range(4)),
                    *(here.settling(number, id, "holder") for number in range(4, 7)),
                    *(here.deciding(number, id) for number in range(7, 13)),
                )
                final = await here.record(id)
                check_one_won(outcomes, final)
                await handle.result()
                assert here.continued == [[final[0], None if final[0] == "rejected_canceled" else final[1]]]
                here.continued.clear()
                await here.was_resumed_once(task_id)
                taking = (each.take_task_messages(["poll://uni@g/p"], 9) for each in here.stores)
                sent = [message.promise for taken in await asyncio.gather(*taking) for message in taken]
                assert [shown(to_record(promise)) for promise in sent if promise] == [final]

    asyncio.run(run())


def test_one_settlement_of_an_acquired_task_wins(store: str) -> None:
    """Its process fulfills it while others settle its promise. Another task awaits it."""
    chance = random.Random(23)

    async def run() -> None:
        async with world(store) as here:
            for n in ROUNDS:
                id, task_id = f"p-{n}", f"t-{n}"
                await here.hold(id)
                await here.await_in_task(task_id, id)
                outcomes = await at_once(
                    chance,
                    *(here.settling(number, id, id) for number in range(4)),
                    *(here.settling(number, id) for number in range(4, 7)),
                    *(here.deciding(number, id) for number in range(7, 10)),
                )
                check_one_won(outcomes, await here.record(id))
                assert (await here.ask("task.get", {"id": id}))["task"]["state"] == "fulfilled"
                await here.was_resumed_once(task_id)

    asyncio.run(run())


def test_one_of_answers_cancellations_and_the_deadline_ends_a_question(store: str) -> None:
    chance = random.Random(23)

    async def run() -> None:
        async with world(store) as here:
            for n in ROUNDS:
                id, task_id = f"q-{n}", f"t-{n}"
                tags = {"signoff:question": json.dumps(QUESTION)}
                timeout_at = int(here.clock.now() * 1000) + LASTS
                await here.ask("promise.create", {"id": id, "timeoutAt": timeout_at, "tags": tags})
                await here.await_in_task(task_id, id)

                async def pass_time() -> None:
                    await asyncio.sleep(chance.choice((0, 0.003, 0.01)))
                    here.clock.advance(LASTS / 1000)

                outcomes, _ = await asyncio.gather(
                    at_once(
                        chance,
                        *(here.answering(number, id) for number in range(6)),
                        *(here.settling(number, id) for number in (2, 5)),  # cancellations
                    ),
                    pass_time(),
                )
                final = await here.record(id)
                accepted = [each.own for each in outcomes if each.was_accepted]
                assert accepted == ([final] if final[0] == "resolved" else []), (final, outcomes)
                assert {each.seen[0] for each in outcomes} == {final[0]}
                await here.was_resumed_once(task_id)
                events = (await here.stores[0].list_audit(AuditFilter(id))).items
                assert len([event for event in events if event.kind in ENDS]) == 1

    asyncio.run(run())
