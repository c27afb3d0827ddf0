"""Callers and people of a world of the protocol: they call programs, and settle promises at once through both APIs."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from signoff import AlreadySettled, AsyncClient, RunCancelled, SignoffError, WrongAnswer
from signoff.errors import RequestConflict, StoreUnavailable
from signoff.records import Promise, PromiseKind, PromiseState, RunState
from signoff.records.tasks import TaskState
from signoff.server.resonate.durable_promises import Details, details_of, to_record
from signoff.testing.simulation import Process, World
from tests.simulation.acting import Acting
from tests.simulation.crowd import PATIENCE, Attempt, Target, wrong_of
from tests.simulation.protocol.hearing import Hearing
from tests.simulation.protocol.legacy_sdk import insist
from tests.simulation.protocol.network import LEGACY, Answer, Network
from tests.simulation.protocol.programs import FUNCTION, SIGNOFF, WAIT
from tests.simulation.protocol.sdk import Record, address_of, create, decoded, encoded, tags_of

T = TypeVar("T")

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
        groups: The groups, and URLs, of processes.
        run_by_sdk: The ids of those that a process of an SDK creates.
        run_by_client: The ids of those that are runs of a group.
        hearing: How they learn of results.
        schedule: The protocol by which a schedule is made that creates an invocation, too; or None.
    """

    world: World
    network: Network
    source: random.Random
    roots: dict[str, str]
    groups: Sequence[str]
    run_by_sdk: set[str]
    run_by_client: set[str]
    hearing: Hearing
    schedule: str | None
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    settlings: list[Settling] = field(default_factory=list[Settling])
    halted: set[str] = field(default_factory=set[str])
    fired_at: list[float] = field(default_factory=list[float])
    scheduled_at: float = 0.0
    busy: int = 0

    async def main(self, process: Process) -> None:
        """Be there until the world ends."""
        self.begin(process)
        self._client = AsyncClient(Target(process.store))
        self._results: dict[str, asyncio.Future[Record]] = {}
        self._scheduled: asyncio.Future[str] = process.loop.create_future()
        self.world.observer.on_promise(self._see)
        for id, program in self.roots.items():
            self.act(self._run(id, program) if id in self.run_by_client else self._call(id, program))
        if self.schedule is not None:
            self.act(self._schedule(self.schedule))
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
        tags = tags_of(id, id, address_of(source.choice(self.groups)))
        timeout_at = None if timeout is None else self.world.clock.now() + timeout
        data = create(id, tags, {"func": FUNCTION, "args": [program]}, timeout_at=timeout_at)
        for _ in range(0 if id in self.run_by_sdk else repeats):
            await self._insist("promise.create", data)
        await self._hear(id)

    async def _hear(self, id: str) -> None:
        """Wait for the result of an invocation, and check it."""
        heard = self._results.setdefault(id, self._process.loop.create_future())
        while not await self._register(id):
            await asyncio.sleep(1.0)  # its process has not created it yet
        registered_at = self.world.clock.now()
        seen = await heard
        promise = self.world.store.model.tables.promises["default", id]
        if _state_of(promise) != seen["state"]:
            self.world.blame(f"a caller saw {id!r} {seen['state']}, and it is {promise.state}")
        late = self.world.clock.now() - max(promise.settled_at or 0.0, registered_at)
        if not self.world.has_faults and late > PUNCTUAL_SECONDS:
            self.world.blame(f"a caller heard of {id!r} {late:.1f} s after it was settled")

    async def _register(self, id: str) -> bool:
        """Ask for a result. Returns whether there is such a promise."""
        promise = await self.hearing.register(self._process, id)
        if promise is not None and promise["state"] != "pending":
            self._heard(promise)
        return promise is not None

    def _heard(self, promise: Record) -> None:
        heard = self._results.get(promise["id"])
        if heard is not None and not heard.done():
            heard.set_result(promise)

    async def _listen(self) -> None:
        async for promise in self.hearing.heard(self._process):
            self.world.note("callers", f"hear by {type(self.hearing).__name__} of", promise["id"])
            self._heard(promise)

    async def _refresh(self) -> None:
        while self.hearing.asks_again:
            await asyncio.sleep(REFRESH_SECONDS)
            for id in [id for id, heard in self._results.items() if not heard.done()]:
                await self._register(id)

    async def _run(self, id: str, program: str) -> None:
        """Start a run whose code is a program of a group, cancel it now and then, and check its end."""
        source = self.source
        polled = [group for group in self.groups if "://" not in group]
        group, is_cancelled, after = source.choice(polled), source.random() < 0.3, source.random() * 12
        await asyncio.sleep(source.choice((0.0, 1.0, 5.0)))
        start = functools.partial(self._client.start, FUNCTION, program, id=id, group=group)
        handle = await self._try(start, None)
        if is_cancelled:
            self.act(self._cancel(id, after))
        try:
            await self._try(handle.result, None)
            seen = RunState.SUCCEEDED
        except RunCancelled:
            seen = RunState.CANCELLED
        except SignoffError:
            seen = RunState.FAILED
        if self.world.store.model.tables.runs["default", id].state is not seen:
            self.world.blame(f"a waiter for {id!r} saw it {seen}")

    async def _cancel(self, id: str, after: float) -> None:
        await asyncio.sleep(after)
        await self._try(lambda: self._client.cancel(id), None)

    # Schedules

    async def _schedule(self, protocol: str) -> None:
        """Have a schedule create an invocation, and delete the schedule."""
        data = {
            "id": SCHEDULE,
            "cron": "* * * * *",
            "promiseId": "{{.id}}-{{.timestamp}}",
            "promiseTimeout": 86_400_000,
            "promiseParam": encoded({"func": FUNCTION, "args": [next(iter(self.roots.values()))]}),
        }
        target = address_of(self.groups[0])
        if protocol == LEGACY:
            legacy = {**data, "promiseTags": {"resonate:invoke": target}}
            await insist(self.network, self._process, "POST", "/schedules", legacy, key="k")
        else:
            await self._insist("schedule.create", {**data, "promiseTags": {"resonate:target": target}})
        self.scheduled_at = self.world.clock.now()
        id = await self._scheduled
        if protocol == LEGACY:
            await insist(self.network, self._process, "DELETE", f"/schedules/{SCHEDULE}")
        else:
            await self._insist("schedule.delete", {"id": SCHEDULE})
        await self._hear(id)

    # Promises

    def _see(self, promise: Promise) -> None:
        """Decide what callers do with a new promise."""
        source, details = self.source, details_of(promise)
        if details.tags.get("resonate:schedule") == SCHEDULE:
            self.fired_at.append(int(promise.id.rpartition("-")[2]) / 1000)
            if not self._scheduled.done():
                self._process.loop.call_soon(_resolve, self._scheduled, promise.id)
        if promise.kind is PromiseKind.QUESTION or _is_waited_for(promise):
            self._settle_at_once(promise, source.choice((1, 2, 2, 3)))
        elif (target := _target_of(details)) is not None:
            is_workflow = target.endswith(f"@{SIGNOFF}")
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
        if _target_of(details_of(promise)) is not None:
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
        self.halted.add(id)
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
        since_first = [time - self.fired_at[0] for time in self.fired_at]
        is_late = self.fired_at and self.fired_at[0] > self.scheduled_at + 60
        if is_late or since_first != [60.0 * number for number in range(len(since_first))]:
            self.world.blame(f"the schedule of {self.scheduled_at} fired at {self.fired_at}")

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


def _target_of(details: Details) -> str | None:
    return details.tags.get("resonate:target", details.tags.get("resonate:invoke"))


def _resolve(future: asyncio.Future[str], id: str) -> None:
    if not future.done():
        future.set_result(id)


def _is_waited_for(promise: Promise) -> bool:
    """Whether callers settle a promise: one of ``Wait``, or of a run."""
    is_plain = promise.kind is PromiseKind.PROMISE
    return is_plain and (promise.run_id is not None or function_of(promise) == WAIT)


def _state_of(promise: Promise) -> str:
    return to_record(promise)["state"]
