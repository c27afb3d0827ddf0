"""People and callers of a simulated world: they answer late, twice, wrongly and all at once, and send signals."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from signoff import AlreadySettled, AsyncClient, RunCancelled, SignoffError, WrongAnswer
from signoff.errors import InvalidState, RequestConflict, StoreUnavailable
from signoff.records import Promise, PromiseKind, PromiseState, Run, RunState
from signoff.service import interventions
from signoff.stores.contract.store import Store
from signoff.testing.simulation import Process, World
from signoff.workflow.registry import Registry
from tests.simulation.acting import Acting
from tests.simulation.programs import WORKFLOW, BrokenError, Listen, Program, Several

T = TypeVar("T")

PATIENCE = 9.0  # seconds after which everyone has acted

OPERATOR = "user:operator"


@dataclass
class Target:
    """What a client needs of an app."""

    store: Store
    group: str = "default"
    registry: Registry = field(default_factory=lambda: Registry("default"))


@dataclass
class Attempt:
    """A caller's attempt to settle a promise, and its result."""

    promise_id: str
    by: str
    told: str = "nothing"  # won, lost, conflict
    winner: str | None = None  # if they lost: who was first, as they were told
    unknown: bool = False  # a reply was lost on the way to that


@dataclass
class Crowd(Acting):
    """All outside callers: they start runs, signal, cancel, settle promises and wait for results.

    Args:
        world: The world.
        source: Decides what they do.
        programs: By name.
        roots: Names of the programs to start runs of.
    """

    world: World
    source: random.Random
    programs: dict[str, Program]
    roots: list[str]
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    cancelled: set[str] = field(default_factory=set[str])
    busy: int = 0

    async def main(self, process: Process) -> None:
        """Be there until the world ends."""
        self.begin(process)
        self._client = AsyncClient(Target(process.store))
        self.world.observer.on_promise(self._see_promise)
        self._signalled: set[str] = set()
        self._resumed: set[tuple[str, float]] = set()
        self.world.store.listen(lambda change: [self._see_run(id) for id in sorted(change.runs or ())])
        for number, name in enumerate(self.roots):
            self.act(self._start(f"r{number}", name))
        await asyncio.sleep(self.world.calm_at)
        while (
            True
        ):  # the remaining people answer the remaining questions, for example after a retry of a step
            await asyncio.sleep(2.0)
            for promise in list(self.world.store.model.tables.promises.values()):
                age = self.world.clock.now() - promise.created_at
                if promise.state is PromiseState.PENDING and promise.due_at is None and age > PATIENCE:
                    self.act(self._settle(promise, "user:last", 0.0, f"last:{promise.id}"))

    async def _insist(self, call: Callable[[], Awaitable[T]], attempt: Attempt | None = None) -> T:
        """Repeat it until there is a reply, as callers do."""
        while True:
            try:
                return await call()
            except StoreUnavailable:
                if attempt is not None:
                    attempt.unknown = True
                await asyncio.sleep(0.5)

    # Runs

    async def _start(self, run_id: str, name: str) -> None:
        source = self.source
        await asyncio.sleep(source.choice((0.0, 0.0, 1.0, 5.0)))
        deadline = source.choice((None, None, None, None, 7.0))
        is_cancelled, after = source.random() < 0.15, source.random() * 12
        is_suspended, later = source.random() < 0.1, source.random() * 12
        twice = source.random() < 0.2
        session = source.choice((None, None, None, "talk"))
        for _ in range(1 + twice):
            handle = await self._insist(
                lambda: self._client.start(
                    WORKFLOW, name, id=run_id, timeout_seconds=deadline, session_id=session
                )
            )
        if is_cancelled:
            self.act(self._cancel(run_id, after))
        if is_suspended:
            self.act(self._suspend(run_id, later))
        try:
            await self._insist(handle.result)
            seen = RunState.SUCCEEDED
        except RunCancelled:
            seen = RunState.CANCELLED
        except (BrokenError, SignoffError):
            seen = RunState.FAILED
        if self.world.store.model.tables.runs["default", run_id].state is not seen:
            self.world.blame(f"a waiter for {run_id!r} saw it {seen}")

    async def _cancel(self, run_id: str, after: float) -> None:
        await asyncio.sleep(after)
        self.cancelled.add(run_id)
        await self._insist(lambda: self._client.cancel(run_id))

    async def _suspend(self, run_id: str, after: float) -> None:
        await asyncio.sleep(after)
        try:
            await self._insist(
                lambda: interventions.suspend(self._process.store, run_id, by=OPERATOR, token="1")
            )
        except InvalidState:
            return  # it has ended

    async def _resume(self, run_id: str, after: float) -> None:
        """Resume a run that was suspended: by the operator, or by Signoff after it had lost too many workers."""
        token = str(len(self._resumed))
        await asyncio.sleep(after)
        try:
            await self._insist(
                lambda: interventions.resume(self._process.store, run_id, by=OPERATOR, token=token)
            )
        except InvalidState:
            return  # it has ended: cancelled or at its deadline

    def _check_turn(self, session_id: str) -> None:
        runs = self.world.store.model.tables.runs.values()
        going = [run for run in runs if run.session_id == session_id and run.ended_at is None]
        active = [run.id for run in going if run.state is not RunState.PAUSED or run.epoch > 0]
        if len(active) > 1:
            self.world.blame(f"of session {session_id!r} {active} are active at once")

    # Signals

    def _see_run(self, run_id: str) -> None:
        """Send a run that has begun all the signals that its program listens for; resume one that is suspended."""
        run = self.world.store.model.tables.runs["default", run_id]
        if run.session_id is not None:
            self._check_turn(run.session_id)
        if run.suspended_at is not None and (run_id, run.suspended_at) not in self._resumed:
            self._resumed.add((run_id, run.suspended_at))
            self.act(self._resume(run_id, self.source.choice((0.1, 1.0, 5.0, 20.0))))
        if run_id not in self._signalled:
            self._signalled.add(run_id)
            name, *_ = json.loads(run.arguments)["args"]
            for generation in self.programs[name].generations:
                for listen in _listens(generation):
                    self.act(self._signal(run, listen))

    async def _signal(self, run: Run, listen: Listen) -> None:
        source = self.source
        plan = [(source.choice((0.0, 0.1, 2.0, 4.0)), source.random() < 0.3) for _ in range(listen.count)]
        for value, (wait, twice) in enumerate(plan):
            await asyncio.sleep(wait)
            send = partial(
                self._client.signal, run.id, listen.name, value, request_id=f"{listen.name}-{value}"
            )
            for _ in range(1 + twice):
                try:
                    await self._insist(send)
                except InvalidState:
                    return  # it has ended

    # Promises

    def _see_promise(self, promise: Promise) -> None:
        source = self.source
        crowd = source.choice((1, 1, 2, 3))
        patience = source.choice((0.0, 0.5, 3.0, 7.0))
        for number in range(crowd):
            at_once = source.random() < 0.5
            delay = patience if at_once else source.random() * (patience + 1.0)
            person = f"user:{number}"
            request = source.choice((None, person, person, "shared request"))
            self.act(self._settle(promise, person, delay, request))

    async def _settle(self, promise: Promise, person: str, delay: float, request_id: str | None) -> None:
        value = self._value(promise, person)
        errs, again = self.source.random() < 0.3, self.source.random() < 0.3
        await asyncio.sleep(delay)
        attempt = Attempt(promise.id, person)
        self.attempts.append(attempt)
        if errs and promise.kind is PromiseKind.QUESTION:
            await self._answer_wrongly(promise, person)
        for _ in range(1 + again):
            await self._try(attempt, promise, value, request_id)

    async def _try(self, attempt: Attempt, promise: Promise, value: Any, request_id: str | None) -> None:
        person = attempt.by

        async def settle() -> Promise:
            if promise.kind is PromiseKind.QUESTION:
                return await self._client.answer(promise.id, value, user_id=person, request_id=request_id)
            settle = self._client.promises.reject if value == "no" else self._client.promises.resolve
            return await settle(promise.id, value, by=person, request_id=request_id)

        try:
            settled = await self._insist(settle, attempt)
            attempt.told = "won"
            attempt.winner = settled.settled_by
        except AlreadySettled as told:
            if attempt.told == "nothing":
                attempt.told, attempt.winner = "lost", told.settled_by
        except RequestConflict:
            attempt.told = "conflict"

    async def _answer_wrongly(self, promise: Promise, person: str) -> None:
        for value in (None, 17, {"approved": "yes"}, {"action": "perhaps"}):
            try:
                await self._insist(partial(self._client.answer, promise.id, value, user_id=person))
                self.world.blame(f"question {promise.id!r} took {value!r} for an answer")
            except (WrongAnswer, AlreadySettled) as told:
                self.world.note(person, "is refused with", type(told).__name__)

    def _value(self, promise: Promise, person: str) -> Any:
        """A caller's value for a promise. Each gives another one, if there is a choice."""
        source = self.source
        if promise.kind is PromiseKind.PROMISE:
            return source.choice(("yes", "no", person))
        question = json.loads(promise.data or "null")
        if "step" in (question.get("metadata") or {}):
            action = source.choice(("retry", "done", "fail"))
            return {"action": action, "result": "done by hand"} if action == "done" else {"action": action}
        return source.random() < 0.5 if question["input_type"] == "approval" else f"says {person}"

    # At the end

    def check(self) -> None:
        """Check that one settlement of each promise won, and that all others were refused with its name."""
        for attempt in self.attempts:
            promise = self.world.store.model.tables.promises["default", attempt.promise_id]
            wrong = wrong_of(attempt, promise)
            if wrong is not None:
                self.world.blame(f"{attempt} of {promise}: {wrong}")


def wrong_of(attempt: Attempt, promise: Promise) -> str | None:
    """Return why a caller's result contradicts the promise as it is; None if it does not."""
    if attempt.told == "nothing":
        return "they got no reply"
    if attempt.told == "won" and promise.state not in (PromiseState.RESOLVED, PromiseState.REJECTED):
        return "it is not settled by anybody"
    if attempt.told == "won" and attempt.winner != promise.settled_by:
        return "they were refused because another one had won"
    if attempt.told == "lost" and attempt.winner != promise.settled_by:
        return "they got another winner's name"
    if attempt.told == "lost" and attempt.by == promise.settled_by and not attempt.unknown:
        return "they won, but were refused"
    return None


def _listens(node: Any) -> list[Listen]:
    if isinstance(node, Listen):
        return [node]
    return [listen for part in node.parts for listen in _listens(part)] if isinstance(node, Several) else []
