"""Callers and people of a world of the protocol: they call programs, and settle promises at once through both APIs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from signoff import AlreadySettled, AsyncClient, WrongAnswer
from signoff.errors import RequestConflict, StoreUnavailable
from signoff.records import Promise, PromiseKind, PromiseState
from signoff.records.tasks import TaskState
from signoff.server.resonate.durable_promises import details_of, to_record
from signoff.testing.simulation import Process, World
from tests.simulation.acting import Acting
from tests.simulation.crowd import PATIENCE, Attempt, Target, wrong_of
from tests.simulation.protocol.network import Answer, Network
from tests.simulation.protocol.programs import FUNCTION, GROUPS, SIGNOFF, WAIT
from tests.simulation.protocol.sdk import Record, create, decoded, encoded, tags_of

T = TypeVar("T")

GROUP, PID = "callers", "c"
REFRESH_SECONDS = 20.0  # how often listeners are registered again, as SDKs do
PUNCTUAL_SECONDS = 3.0
SCHEDULE = "nightly"


@dataclass
class Settling:
    """A request of the protocol that settles a promise."""

    promise_id: str
    state: str
    value: Any


@dataclass
class Callers(Acting):
    """All callers, on one process without faults of its own.

    Args:
        world: The world.
        network: Reaches its servers.
        source: Decides what they do.
        roots: Ids of invocations, and their programs.
        run_by_sdk: The ids of those that a process of an SDK creates.
        has_schedule: Whether a schedule creates an invocation, too.
    """

    world: World
    network: Network
    source: random.Random
    roots: dict[str, str]
    run_by_sdk: set[str]
    has_schedule: bool
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    settlings: list[Settling] = field(default_factory=list[Settling])
    busy: int = 0

    async def main(self, process: Process) -> None:
        """Be there until the world ends."""
        self.begin(process)
        self._client = AsyncClient(Target(process.store))
        self._results: dict[str, asyncio.Future[Record]] = {}
        self._scheduled: asyncio.Future[str] = process.loop.create_future()
        self.world.observer.on_promise(self._see)
        for id, program in self.roots.items():
            self.act(self._call(id, program))
        if self.has_schedule:
            self.act(self._schedule())
        async with asyncio.TaskGroup() as work:
            work.create_task(self._listen())
            work.create_task(self._refresh())
            work.create_task(self._settle_the_rest())

    async def _insist(self, kind: str, data: dict[str, Any]) -> Answer:
        return await self.network.insist(self._process, kind, data)

    # Results

    async def _call(self, id: str, program: str) -> None:
        source = self.source
        await asyncio.sleep(source.choice((0.0, 0.0, 1.0, 5.0)))
        timeout = source.choice((None, None, None, None, 7.0))
        repeats = 1 + (source.random() < 0.2)
        tags = tags_of(id, id, f"poll://any@{source.choice(GROUPS)}")
        timeout_at = None if timeout is None else self.world.clock.now() + timeout
        data = create(id, tags, {"func": FUNCTION, "args": [program]}, timeout_at=timeout_at)
        for _ in range(0 if id in self.run_by_sdk else repeats):
            await self._insist("promise.create", data)
        await self._hear(id)

    async def _hear(self, id: str) -> None:
        """Wait for the result of an invocation, and check it."""
        heard = self._results.setdefault(id, self._process.loop.create_future())
        while await self._register(id) == 404:
            await asyncio.sleep(1.0)  # its process has not created it yet
        registered_at = self.world.clock.now()
        seen = await heard
        promise = self.world.store.model.tables.promises["default", id]
        if _state_of(promise) != seen["state"]:
            self.world.blame(f"a caller saw {id!r} {seen['state']}, and it is {promise.state}")
        late = self.world.clock.now() - max(promise.settled_at or 0.0, registered_at)
        if not self.world.has_faults and late > PUNCTUAL_SECONDS:
            self.world.blame(f"a caller heard of {id!r} {late:.1f} s after it was settled")

    async def _register(self, id: str) -> int:
        address = f"poll://uni@{GROUP}/{PID}"
        answer = await self._insist("promise.register_listener", {"awaited": id, "address": address})
        if answer.status == 200 and answer.data["promise"]["state"] != "pending":
            self._heard(answer.data["promise"])
        return answer.status

    def _heard(self, promise: Record) -> None:
        heard = self._results.get(promise["id"])
        if heard is not None and not heard.done():
            heard.set_result(promise)

    async def _listen(self) -> None:
        async for message in self.network.messages(self._process, GROUP, PID):
            if message is not None:
                self.world.note("callers", "hear of", message["data"]["promise"]["id"])
                self._heard(message["data"]["promise"])

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            for id in [id for id, heard in self._results.items() if not heard.done()]:
                await self._register(id)

    # Schedules

    async def _schedule(self) -> None:
        """Have a schedule create an invocation, and delete the schedule."""
        program = next(iter(self.roots.values()))
        data = {
            "id": SCHEDULE,
            "cron": "* * * * *",
            "promiseId": "{{.id}}-{{.timestamp}}",
            "promiseTimeout": 86_400_000,
            "promiseParam": encoded({"func": FUNCTION, "args": [program]}),
            "promiseTags": {"resonate:target": f"poll://any@{GROUPS[0]}"},
        }
        await self._insist("schedule.create", data)
        id = await self._scheduled
        await self._insist("schedule.delete", {"id": SCHEDULE})
        await self._hear(id)

    # Promises

    def _see(self, promise: Promise) -> None:
        """Decide what callers do with a new promise."""
        source, details = self.source, details_of(promise)
        if details.tags.get("resonate:schedule") == SCHEDULE and not self._scheduled.done():
            self._process.loop.call_soon(self._scheduled.set_result, promise.id)
        if promise.kind is PromiseKind.QUESTION or _is_waited_for(promise):
            self._settle_at_once(promise, source.choice((1, 2, 2, 3)))
        elif "resonate:target" in details.tags:
            is_workflow = details.tags["resonate:target"].endswith(f"@{SIGNOFF}")
            if source.random() < (0.4 if is_workflow else 0.06):
                self._settle_at_once(promise, 2)
            if source.random() < 0.08:
                self.act(self._halt(promise.id))

    def _settle_at_once(self, promise: Promise, crowd: int) -> None:
        source = self.source
        patience = source.choice((0.0, 0.5, 3.0, 7.0))
        for number in range(crowd):
            delay = patience if source.random() < 0.5 else source.random() * (patience + 1.0)
            person = f"user:{number}"
            if source.random() < 0.5:
                self.act(self._settle_by_protocol(promise, person, delay))
            else:
                self.act(self._settle_by_client(promise, person, delay))

    async def _settle_the_rest(self) -> None:
        """Settle what nobody has settled. A program can only cancel a question, so a person answers it."""
        await asyncio.sleep(self.world.calm_at)
        while True:
            await asyncio.sleep(2.0)
            for promise in list(self.world.store.model.tables.promises.values()):
                age = self.world.clock.now() - promise.created_at
                is_open = promise.state is PromiseState.PENDING and promise.due_at is None and age > PATIENCE
                if is_open and (promise.kind is PromiseKind.QUESTION or _is_waited_for(promise)):
                    self.act(self._settle_by_client(promise, "user:last", 0.0))

    async def _settle_by_protocol(self, promise: Promise, person: str, delay: float) -> None:
        source = self.source
        state = source.choice(("resolved", "resolved", "rejected", "rejected_canceled"))
        if "resonate:target" in details_of(promise).tags:
            state = "rejected_canceled"
        repeats = 1 + (source.random() < 0.3)
        await asyncio.sleep(delay)
        value = None if state == "rejected_canceled" else f"settled by {person}"
        settling = Settling(promise.id, state, value)
        data = {"id": promise.id, "state": state, "value": {} if value is None else encoded(value)}
        for _ in range(repeats):
            answer = await self._insist("promise.settle", data)
            self._check_settled(promise, settling, answer)

    def _check_settled(self, promise: Promise, settling: Settling, answer: Answer) -> None:
        current = self.world.store.model.tables.promises["default", promise.id]
        if answer.status == 422:  # a program may only cancel a question
            if promise.kind is not PromiseKind.QUESTION or settling.state == "rejected_canceled":
                self.world.blame(f"{settling} was refused: {answer}")
            return
        self.settlings.append(settling)
        shown = answer.data["promise"]["state"] if answer.status == 200 else None
        if current.state is PromiseState.PENDING or shown != _state_of(current):
            self.world.blame(f"{settling} got {answer}, and the promise is {current}")

    async def _settle_by_client(self, promise: Promise, person: str, delay: float) -> None:
        source = self.source
        request_id = source.choice((None, person, "shared request"))
        again, errs, is_yes = source.random() < 0.3, source.random() < 0.3, source.random() < 0.5
        await asyncio.sleep(delay)
        attempt = Attempt(promise.id, person)
        self.attempts.append(attempt)

        async def settle() -> Promise:
            if promise.kind is PromiseKind.QUESTION:
                value: Any = is_yes if '"approval"' in (promise.data or "") else f"says {person}"
                return await self._client.answer(promise.id, value, user_id=person, request_id=request_id)
            end = self._client.promises.resolve if is_yes else self._client.promises.reject
            return await end(promise.id, f"settled by {person}", by=person, request_id=request_id)

        if errs and promise.kind is PromiseKind.QUESTION:
            await self._answer_wrongly(promise, person)
        for _ in range(1 + again):
            try:
                attempt.told, attempt.winner = "won", (await self._try(settle, attempt)).settled_by
            except AlreadySettled as told:
                if attempt.told == "nothing":
                    attempt.told, attempt.winner = "lost", told.settled_by
            except RequestConflict:
                attempt.told = "conflict"

    async def _answer_wrongly(self, promise: Promise, person: str) -> None:
        for value in (None, 17, {"approved": "yes"}):
            try:
                await self._try(
                    lambda value=value: self._client.answer(promise.id, value, user_id=person), None
                )
                self.world.blame(f"question {promise.id!r} took {value!r} for an answer")
            except (WrongAnswer, AlreadySettled):
                pass

    async def _try(self, call: Callable[[], Awaitable[T]], attempt: Attempt | None) -> T:
        while True:
            try:
                return await call()
            except StoreUnavailable:
                if attempt is not None:
                    attempt.unknown = True
                await asyncio.sleep(0.5)

    async def _halt(self, id: str) -> None:
        """Halt a task, and continue it later."""
        wait, pause = self.source.choice((0.0, 1.0, 4.0)), self.source.choice((0.5, 6.0))
        await asyncio.sleep(wait)
        if (await self._insist("task.halt", {"id": id})).status != 200:
            return  # it is fulfilled
        await asyncio.sleep(pause)
        answer = await self._insist("task.continue", {"id": id})
        task = self.world.store.model.tables.tasks["default", id]
        if answer.status not in (200, 409) or task.state is TaskState.HALTED:
            self.world.blame(f"a halted task was not continued: {answer}, {task}")

    # At the end

    def check(self) -> None:
        """Check that one settlement of each promise won, and that all others saw it."""
        for attempt in self.attempts:
            promise = self.world.store.model.tables.promises["default", attempt.promise_id]
            wrong = wrong_of(attempt, promise)
            if wrong is not None:
                self.world.blame(f"{attempt} of {promise}: {wrong}")

    def settled_from_outside(self, promise: Promise) -> bool:
        """Whether a caller has tried to settle a promise as it was settled. The reply may have been lost."""
        if any((each.promise_id, each.by) == (promise.id, promise.settled_by) for each in self.attempts):
            return True
        return any(
            (each.promise_id, each.state) == (promise.id, _state_of(promise)) for each in self.settlings
        )


def function_of(promise: Promise) -> str | None:
    """Return the function that a promise calls; None if it calls none."""
    call = decoded(details_of(promise).param)
    return call.get("func") if isinstance(call, dict) else None


def _is_waited_for(promise: Promise) -> bool:
    """Whether callers settle a promise: one of ``Wait``, or of a run."""
    is_plain = promise.kind is PromiseKind.PROMISE
    return is_plain and (promise.run_id is not None or function_of(promise) == WAIT)


def _state_of(promise: Promise) -> str:
    return to_record(promise)["state"]
