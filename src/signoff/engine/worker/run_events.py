"""Announces a run's events to subscribers. Without subscribers, no event is created."""

from __future__ import annotations

import asyncio

from signoff.engine.run.calls import Call, PromiseCall, SignalCall, TimerCall
from signoff.engine.run.execution import Execution
from signoff.observability import events
from signoff.observability.events import (
    DeadlineServed,
    Event,
    RunClaimed,
    RunEnded,
    RunInfo,
    RunLost,
    RunPaused,
    RunReleased,
    WaitEnded,
    WaitStarted,
)
from signoff.records import CallKind, Entry, EntryKind, Message, PromiseState, Run
from signoff.stores.contract.leases import Outcome, Write

_WAITS = frozenset({CallKind.QUESTION, CallKind.PROMISE, CallKind.SIGNAL})


class RunEvents:
    """Announces the events of one run under one lease.

    Events of pending journal entries are announced once the entries are durable, so that no event is announced twice if
    the lease is lost.

    Args:
        run: The run, as it was claimed.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._clock = asyncio.get_running_loop().time
        self._since = self._clock()
        self._unannounced: list[Event] = []

    # The lease

    def claimed(self, now: float) -> None:
        """Announce that the worker has claimed the run."""
        if events.subscribers:
            could_start = max(self._run.created_at, self._run.start_at or 0.0)
            waited = max(0.0, now - could_start) if self._run.epoch == 1 else None
            events.announce(RunClaimed(self._info, waited))

    def paused(self) -> None:
        """Announce that the run has paused."""
        if events.subscribers:
            events.announce(RunPaused(self._info, self._held_seconds))

    def ended(self, outcome: Outcome, now: float) -> None:
        """Announce that the run has ended."""
        if events.subscribers:
            seconds = max(0.0, now - self._run.created_at)
            events.announce(
                RunEnded(self._info, self._held_seconds, outcome.state, outcome.retryable, seconds)
            )

    def let_go(self, *, lost: bool) -> None:
        """Announce that the run is no longer driven, though it neither paused nor ended."""
        if events.subscribers:
            kind = RunLost if lost else RunReleased
            events.announce(kind(self._info, self._held_seconds))

    # Pending entries

    def settled(
        self, execution: Execution, call: Call[object] | None, entry: Entry, message: Message
    ) -> None:
        """Note that a promise or question is settled. Settlements of other calls are not waits."""
        if not events.subscribers or not isinstance(call, PromiseCall):
            return
        started_at = execution.past.opened.get(call.n, entry.at)
        state = message.state or PromiseState.RESOLVED
        self._end_wait(call, None, state, message.by, started_at, message.at, entry.at)
        if state == PromiseState.TIMED_OUT:
            self._serve(call.kind, started_at + (call.timeout or 0.0), entry.at)

    def signalled(self, execution: Execution, message: Message, now: float) -> None:
        """Note a signal, which may end a call's wait."""
        if not events.subscribers:
            return
        call = execution.signals.listener(message.name or "", execution.open)
        if call is not None:
            started_at = execution.past.opened.get(call.n, now)
            self._end_wait(call, call.name, PromiseState.RESOLVED, message.by, started_at, message.at, now)

    def fired(self, execution: Execution, call: TimerCall | SignalCall, now: float) -> None:
        """Note that a timer fired, or a signal timed out."""
        if not events.subscribers or call.due_at is None:
            return
        if isinstance(call, SignalCall):
            started_at = execution.past.opened.get(call.n, now)
            self._end_wait(call, call.name, PromiseState.TIMED_OUT, None, started_at, call.due_at, now)
        self._serve(call.kind, call.due_at, now)

    def deadline_passed(self, now: float) -> None:
        """Note that the run's deadline has passed."""
        if events.subscribers:
            self._serve("run", self._run.deadline_at or now, now)

    def written(self, write: Write) -> None:
        """Announce the events of entries that are now durable."""
        if not events.subscribers:
            return
        for entry in write.entries:
            kind = entry.call
            if entry.kind is EntryKind.OPENED and kind is not None and kind in _WAITS:
                name = entry.name if kind is CallKind.SIGNAL else None
                events.announce(WaitStarted(self._info, entry.n or 0, kind, name))
        unannounced, self._unannounced = self._unannounced, []
        for event in unannounced:
            events.announce(event)

    @property
    def _info(self) -> RunInfo:
        return RunInfo.of(self._run)

    @property
    def _held_seconds(self) -> float:
        return self._clock() - self._since

    def _end_wait(
        self,
        call: Call[object],
        name: str | None,
        state: str,
        by: str | None,
        started_at: float,
        settled_at: float,
        ended_at: float,
    ) -> None:
        self._unannounced.append(
            WaitEnded(self._info, call.n, call.kind, name, state, by, started_at, settled_at, ended_at)
        )

    def _serve(self, kind: str, due_at: float, now: float) -> None:
        self._unannounced.append(DeadlineServed(self._info, str(kind), max(0.0, now - due_at)))
