"""A run's open calls: steps to start, timers that become due, promises and child runs to open or close."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Any, Protocol

from signoff.engine.run.calls import Call, ProgressCall, PromiseCall, SignalCall, TimerCall
from signoff.engine.run.child_calls import ChildCall, DetachedCall
from signoff.engine.run.execution import Execution
from signoff.engine.run.step_call import StepCall
from signoff.engine.worker.journal_write import PendingWrite
from signoff.records import EntryKind, NewPromise, PromiseKind, Run


@dataclass(frozen=True, slots=True)
class OutcomeQuestion:
    """The question to an operator about a step whose outcome is unknown.

    Attributes:
        data: The question's data, as stored.
        assignees: Who may answer; empty for any user.
    """

    data: str
    assignees: tuple[str, ...] = ()


class OutcomeQuestions(Protocol):
    """Makes the question about a step whose outcome is unknown."""

    def outcome_question(self, run: Run, call: StepCall, refused: str | None = None) -> OutcomeQuestion:
        """Return the question.

        Args:
            run: The run.
            call: The step.
            refused: Why the previous answer was refused, if there was one.
        """
        ...


class OpenCalls:
    """Collects the calls that the code opens and closes, and adds them to the next write.

    Args:
        pending: The next write.
        run: The run.
        questions: Makes the question about an interrupted step.

    Attributes:
        to_start: Steps to start once the write is durable; emptied by the caller that starts them.
        to_stop: Numbers of cancelled steps; emptied by the caller that stops them.
        due: The heap of due times and call numbers. Calls that are no longer open may still be in it.
    """

    def __init__(self, pending: PendingWrite, run: Run, questions: OutcomeQuestions) -> None:
        self.to_start: list[StepCall] = []
        self.to_stop: list[int] = []
        self._pending = pending
        self._run = run
        self._questions = questions
        self.due: list[tuple[float, int]] = []

    def collect(self, execution: Execution) -> None:
        """Add the calls opened and closed since the last collection to the next write."""
        if execution.patched:
            for id in execution.patched:
                self._pending.add(EntryKind.PATCHED, name=id)
            execution.patched.clear()
        issued, execution.issued = execution.issued, []
        for call in issued:
            if len(issued) > 1:
                self._pending.may_be_cut()
            self._open(execution, call)
        if execution.abandoned:
            abandoned, execution.abandoned = execution.abandoned, []
            for call in abandoned:
                self._pending.may_be_cut()
                self._close(call)

    def close_rest(self, execution: Execution) -> None:
        """Close all calls that are still open."""
        self.collect(execution)
        for call in list(execution.open.values()):
            self._pending.may_be_cut()
            self._close(call)

    def clear(self) -> None:
        """Drop pending starts and due times."""
        self.due.clear()
        self.to_start.clear()

    # Due times

    def remind(self, at: float, n: int) -> None:
        """Make call ``n`` due at a time."""
        heapq.heappush(self.due, (at, n))

    def remind_of_all(self, execution: Execution) -> None:
        """Restore the due times of a paused run that was kept in memory."""
        for call in execution.open.values():
            if isinstance(call, (TimerCall, SignalCall)) and call.due_at is not None:
                self.remind(call.due_at, call.n)
            elif isinstance(call, StepCall) and call.n not in execution.past.begun:
                self.remind(execution.past.attempts[call.n][1], call.n)

    def due_at(self, execution: Execution) -> float:
        """Return when the next open call is due, in Unix seconds; infinity if none is."""
        while self.due and self.due[0][1] not in execution.open:
            heapq.heappop(self.due)
        return self.due[0][0] if self.due else math.inf

    def take_due(self, execution: Execution, now: float) -> Call[Any] | None:
        """Remove and return an open call that is due, if any."""
        if not self.due or self.due_at(execution) > now:
            return None
        return execution.open[heapq.heappop(self.due)[1]]

    # Entries

    def note_timers(self, execution: Execution) -> None:
        """Journal the timers that the journal does not have yet, because the run is about to pause."""
        for call in execution.open.values():
            if isinstance(call, TimerCall) and call.n not in execution.past.opened:
                self._pending.may_be_cut()
                opened = self._pending.record(EntryKind.OPENED, call, details={"due_at": call.due_at})
                execution.past.learn([opened])

    def announce_once_steps(self) -> None:
        """Journal the starts of steps with ``effect="once"``."""
        for call in self.to_start:
            if call.step_options.effect == "once":
                self._pending.may_be_cut()
                self._pending.record(EntryKind.STEP_STARTED, call)

    # Opening and closing

    def _open(self, execution: Execution, call: Call[Any]) -> None:
        if isinstance(call, StepCall):
            if call.n in execution.open:  # otherwise it was cancelled already
                self._open_step(execution, call)
            return
        is_known = call.n in execution.past.opened
        if isinstance(call, DetachedCall):
            if not is_known:
                self._pending.record(EntryKind.OPENED, call, details={"id": call.id})
                self._pending.starts.append(call.new_run(execution.loop.time()))
        elif isinstance(call, ProgressCall):
            if not is_known:
                self._pending.record(EntryKind.PROGRESSED, call, value=call.value)
        elif isinstance(call, SignalCall):
            self._open_signal(execution, call)
        elif call.n not in execution.open:
            return  # settled or cancelled already
        elif isinstance(call, TimerCall):
            self.remind(call.due_at, call.n)
        elif isinstance(call, PromiseCall):
            if not is_known:
                new = call.new_promise(execution.opening_time(call))
                details = call.facts(new)
                opened = self._pending.record(EntryKind.OPENED, call, value=call.data, details=details)
                execution.past.learn([opened])
                self._pending.opens.append(new)
        elif isinstance(call, ChildCall) and not is_known:
            self._pending.record(EntryKind.OPENED, call, value=call.arguments, details={"id": call.id})
            self._pending.starts.append(call.new_run(execution.loop.time()))

    def _open_signal(self, execution: Execution, call: SignalCall) -> None:
        if call.n not in execution.open:
            return  # settled or cancelled already
        if call.due_at is not None:
            self.remind(call.due_at, call.n)
        if call.n not in execution.past.opened:
            opened = self._pending.record(EntryKind.OPENED, call, details={"due_at": call.due_at})
            execution.past.learn([opened])

    def _open_step(self, execution: Execution, call: StepCall) -> None:
        if call.n in execution.past.begun:
            if call.n not in execution.past.opened:
                self.ask_about(execution, call)
            return
        attempts = execution.past.attempts
        next_at = attempts[call.n][1] if call.n in attempts else 0.0
        if next_at > self._pending.now:
            self.remind(next_at, call.n)
        else:
            self.to_start.append(call)

    def ask_about(self, execution: Execution, call: StepCall, refused: str | None = None) -> None:
        """Ask an operator about the unknown outcome of a step, again if the last answer was ``refused``."""
        question = self._questions.outcome_question(self._run, call, refused)
        asked_before = execution.past.asked.get(call.n, 0)
        id = f"{self._run.id}.{call.n}" + (f"~{asked_before + 1}" if asked_before else "")
        opened = self._pending.record(EntryKind.OPENED, call, value=question.data, details={"id": id})
        execution.past.learn([opened])
        self._pending.opens.append(
            NewPromise(
                id,
                PromiseKind.QUESTION,
                self._run.id,
                call.n,
                data=question.data,
                assignees=question.assignees,
            )
        )

    def _close(self, call: Call[Any]) -> None:
        if isinstance(call, StepCall):
            self.to_stop.append(call.n)
            self.to_start = [other for other in self.to_start if other is not call]
        elif isinstance(call, PromiseCall):
            if call.chosen_id is None:
                self._pending.closes.append(call.id)
        elif isinstance(call, ChildCall):
            self._pending.cancels.append(call.id)
