"""Places where a test kills its worker, and the store and steps of a worker that can die there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.attempt import Attempt, run_attempt
from signoff.engine.steps.threads import StepThreads
from signoff.engine.worker.compute_throttle import ComputeThrottle
from signoff.stores.contract.leases import Outcome, Write
from signoff.testing.memory_store import MemoryStore

T = TypeVar("T")
When = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a worker's work. A crash between two places has the same effect as a crash at one of them.

    Attributes:
        when: ``before`` or ``after`` the event.
        what: ``step`` (its function runs), ``write`` (entries become durable) or ``pause``.
        run_id: The run.
        name: The step's name.
        seqs: The numbers of the journal entries written.
    """

    when: When
    what: Literal["step", "write", "pause"]
    run_id: str
    name: str | None = None
    seqs: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.what == "step":
            return f"{self.when} step {self.name!r} of run {self.run_id!r}"
        seqs = ", ".join(map(str, self.seqs)) or "none"
        return f"{self.when} a {self.what} of run {self.run_id!r} with journal entries {seqs}"


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where a worker dies; made by ``before_step`` and the other functions here.

    Attributes:
        matches: Returns whether a place matches.
        nth: Which of the matching places, from 1.
        description: The place in words.
    """

    matches: Callable[[Place], bool]
    nth: int
    description: str

    def __str__(self) -> str:
        return self.description if self.nth == 1 else f"{self.description}, time {self.nth}"


def before_step(name: str, *, run_id: str | None = None, nth: int = 1) -> CrashPoint:
    """Die just before the step's function is called for the ``nth`` time. Everything before it is durable."""
    return _step("before", name, run_id, nth)


def after_step(name: str, *, run_id: str | None = None, nth: int = 1) -> CrashPoint:
    """Die just after the step's function ended for the ``nth`` time. The journal does not have its outcome yet."""
    return _step("after", name, run_id, nth)


def at_pause(*, run_id: str | None = None, nth: int = 1) -> CrashPoint:
    """Die after a run has paused for the ``nth`` time: it waits for a person, a promise, a signal or a timer."""
    return CrashPoint(
        lambda place: (place.when, place.what) == ("after", "pause") and run_id in (None, place.run_id),
        nth,
        "at a pause" + _of(run_id),
    )


def before_entry(seq: int, *, run_id: str | None = None) -> CrashPoint:
    """Die just before journal entry ``seq`` is written: its cause has happened, but is not durable."""
    return _entry("before", seq, run_id)


def after_entry(seq: int, *, run_id: str | None = None) -> CrashPoint:
    """Die just after journal entry ``seq`` became durable, before anything follows from it."""
    return _entry("after", seq, run_id)


def _step(when: When, name: str, run_id: str | None, nth: int) -> CrashPoint:
    def matches(place: Place) -> bool:
        return (place.when, place.what, place.name) == (when, "step", name) and run_id in (None, place.run_id)

    return CrashPoint(matches, nth, f"{when} step {name!r}" + _of(run_id))


def _entry(when: When, seq: int, run_id: str | None) -> CrashPoint:
    def matches(place: Place) -> bool:
        return place.when == when and seq in place.seqs and run_id in (None, place.run_id)

    return CrashPoint(matches, 1, f"{when} journal entry {seq}" + _of(run_id))


def _of(run_id: str | None) -> str:
    return "" if run_id is None else f" of run {run_id!r}"


class Mortal:
    """Kills a worker at a place: it is called at each place, and does not return at the fatal one.

    Args:
        reaches: Called with each place; returns whether the worker dies there.
        dies: Called when it dies.
    """

    def __init__(self, reaches: Callable[[Place], bool], dies: Callable[[], None]) -> None:
        self.is_dead = False
        self._reaches = reaches
        self._dies = dies

    async def reach(self, place: Place) -> None:
        """Pass a place, or never return."""
        if not self.is_dead and self._reaches(place):
            self.is_dead = True
            self._dies()
        await self.live()

    async def live(self) -> None:
        """Return while the worker lives; otherwise never."""
        if self.is_dead:
            await asyncio.Event().wait()  # until it is cancelled

    async def attempt(
        self, call: StepCall, run_id: str, number: int, threads: StepThreads, throttle: ComputeThrottle
    ) -> Attempt:
        """Run an attempt of a step, with the places before and after it."""
        place = Place("before", "step", run_id, call.name)
        await self.reach(place)
        attempt = await run_attempt(call, run_id, number, threads, throttle)
        await self.reach(replace(place, when="after"))
        return attempt


class MortalStore(MemoryStore):
    """A worker's view of a store. Writes of a dead worker do not reach the store."""

    mortal: Mortal

    @classmethod
    def view(cls, store: MemoryStore, mortal: Mortal) -> MortalStore:
        """Make a view of ``store`` for one worker."""
        view = object.__new__(cls)
        view.__dict__.update(store.__dict__, mortal=mortal)
        return view

    async def append(self, write: Write) -> None:
        await self._write("write", write, super().append)

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        return await self._write("pause", write, partial(super().pause, wakes=wakes, wake_at=wake_at))

    async def complete(self, write: Write, outcome: Outcome) -> None:
        complete = super().complete
        await self._write("write", write, lambda write: complete(write, outcome))

    async def release(self, worker_id: str, *, dead: bool = False) -> int:
        return 0 if self.mortal.is_dead else await super().release(worker_id, dead=dead)

    def _do(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.mortal.is_dead:
            raise asyncio.CancelledError  # the dead worker's remaining code is being cancelled
        return super()._do(operation, *args, **kwargs)

    async def _write(
        self, what: Literal["write", "pause"], write: Write, operation: Callable[[Write], Awaitable[T]]
    ) -> T:
        place = Place("before", what, write.run_id, seqs=tuple(entry.seq for entry in write.entries))
        await self.mortal.reach(place)
        outcome = await operation(write)
        await self.mortal.reach(replace(place, when="after"))
        return outcome
