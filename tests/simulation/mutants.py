"""Stores and engines that break one rule each. A simulation that does not detect them proves nothing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from signoff.engine.run.replay import replay
from signoff.engine.timers.timers import TimerService
from signoff.engine.worker import driver
from signoff.engine.worker.driver import Driver
from signoff.engine.worker.journal_write import PendingWrite
from signoff.engine.worker.open_calls import OpenCalls
from signoff.engine.worker.worker import Worker
from signoff.errors import InvalidValue
from signoff.records import Entry, EntryKind, PromiseKind, PromiseState, Run, RunState, Settlement
from signoff.stores.contract.leases import Outcome, Write
from signoff.testing import MemoryStore
from signoff.testing.model.model import Model
from signoff.testing.model.promises import Promises
from signoff.testing.model.state import State
from signoff.testing.simulation import Faults


class UnfencedModel(Model):
    """Takes a write without the lease, as long as it continues the journal."""

    def _write(self, namespace: str, write: Write) -> bool:
        run = self.tables.runs[namespace, write.run_id]
        if run.state is RunState.RUNNING:
            write = replace(write, epoch=run.epoch)
        return super()._write(namespace, write)


class SleepyModel(Model):
    """Pauses a run whatever has come for it meanwhile."""

    def pause(self, namespace: str, write: Write, wakes: int, wake_at: float | None) -> bool:
        return super().pause(namespace, write, self.tables.runs[namespace, write.run_id].wakes, wake_at)


class FicklePromises(Promises):
    """Lets every caller settle a promise, even the last one."""

    def settle(
        self,
        namespace: str,
        promise_id: str,
        kind: PromiseKind,
        settlement: Settlement,
        token: str | None = None,
    ) -> tuple[Any, bool]:
        promise = self._tables.promises[namespace, promise_id]
        if promise.state is PromiseState.RESOLVED and promise.settled_by != settlement.by:
            self._tables.promises[namespace, promise_id] = replace(promise, state=PromiseState.PENDING)
        return super().settle(namespace, promise_id, kind, settlement, token)


class ForgetfulState(State):
    """Acknowledges what a worker appends to its journal and forgets it when the lease ends."""

    def let_go(self, run: Run, *, taken_over: bool) -> None:
        journal = self.tables.journals[run.namespace, run.id]
        if len(journal) > 2:
            journal.pop()
        super().let_go(run, taken_over=taken_over)


class RepeatingModel(Model):
    """Leaves a signal again for the same request."""

    def signal(
        self,
        namespace: str,
        run_id: str,
        name: str,
        value: str,
        by: str | None = None,
        request_id: str | None = None,
        token: str | None = None,
    ) -> bool:
        return super().signal(namespace, run_id, name, value, by)


class SuspiciousModel(Model):
    """Refuses a write that it has done before, whose reply was lost."""

    def _write(self, namespace: str, write: Write) -> bool:
        length = len(self.tables.journals[namespace, write.run_id])
        if write.entries and write.entries[0].seq < length:
            raise InvalidValue("entries", f"seq {write.entries[0].seq} where the journal goes on at {length}")
        return super()._write(namespace, write)


class HastyPromises(Promises):
    """Times promises out a second too soon."""

    def is_overdue(self, promise: Any) -> bool:
        is_pending = promise.state is PromiseState.PENDING
        return is_pending and promise.due_at is not None and promise.due_at <= self._state.now + 1.0


class SilentModel(Model):
    """Does not tell a parent of its child's end if that is cancelled or fails."""

    def _finish(self, namespace: str, run_id: str, outcome: Outcome) -> None:
        if outcome.state is RunState.SUCCEEDED:
            super()._finish(namespace, run_id, outcome)


STORES: tuple[type[Model | Promises | State], ...] = (
    UnfencedModel,
    SleepyModel,
    FicklePromises,
    ForgetfulState,
    RepeatingModel,
    SuspiciousModel,
    HastyPromises,
    SilentModel,
)


def store_of(mutant: type[Model | Promises | State]) -> Callable[..., MemoryStore]:
    """Make a store whose model, or a part of it, is a mutant."""

    def make(**options: Any) -> MemoryStore:
        store = MemoryStore(**options)
        parts = (store.model, store.model.promises, store.model.state)
        [mutated] = [part for part in parts if issubclass(mutant, type(part))]
        mutated.__class__ = mutant
        return store

    return make


# Engines: each breaks one part of it, for as long as the test's patch lasts.


def starts_steps_without_looking_at_the_lease(patch: pytest.MonkeyPatch) -> None:
    async def confirmed(self: Worker, driver: Driver) -> None:
        driver.sure_until = math.inf

    patch.setattr(Worker, "confirm", confirmed)


def does_not_journal_that_a_once_step_starts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OpenCalls, "announce_once_steps", lambda self: None)


def forgets_the_last_outcome_at_replay(patch: pytest.MonkeyPatch) -> None:
    async def forgetful(begin: Any, entries: Sequence[Entry], rerun: Any) -> Any:
        is_outcome = entries[-1].kind is EntryKind.COMPLETED
        return await replay(begin, entries[:-1] if is_outcome else entries, rerun)

    patch.setattr(driver, "replay", forgetful)


def counts_as_seen_what_it_has_not_absorbed(patch: pytest.MonkeyPatch) -> None:
    pause = Driver._pause

    async def late(self: Driver, execution: Any) -> bool:
        await asyncio.sleep(0.5)
        return await pause(self, execution)

    patch.setattr(Driver, "_pause", late)


def never_looks_unless_it_is_told(patch: pytest.MonkeyPatch) -> None:
    make = Worker.__init__

    def deaf(self: Worker, *args: Any, **options: Any) -> None:
        make(self, *args, **{**options, "look_seconds": 1e9})

    patch.setattr(Worker, "__init__", deaf)


def serves_deadlines_late(patch: pytest.MonkeyPatch) -> None:
    serve = TimerService._serve_once

    async def late(self: TimerService) -> None:
        await asyncio.sleep(6.0)
        await serve(self)

    patch.setattr(TimerService, "_serve_once", late)


def never_takes_its_messages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingWrite, "take", _without_taking(PendingWrite.take))


def _without_taking(take: Any) -> Any:
    def taken(self: PendingWrite, run: Run, first_seq: int | None = None) -> tuple[Write, Any]:
        write, cuts = take(self, run, first_seq)
        return replace(write, taken=()), cuts

    return taken


# Some need more of one fault, or none at all, to show soon.
ENGINES: dict[Callable[[pytest.MonkeyPatch], None], Faults | None] = dict.fromkeys(
    (
        starts_steps_without_looking_at_the_lease,
        does_not_journal_that_a_once_step_starts,
        forgets_the_last_outcome_at_replay,
        counts_as_seen_what_it_has_not_absorbed,
        never_looks_unless_it_is_told,
        serves_deadlines_late,
        never_takes_its_messages,
    )
)
ENGINES[starts_steps_without_looking_at_the_lease] = Faults(freezes=3.0)
ENGINES[serves_deadlines_late] = Faults()
