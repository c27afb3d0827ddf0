"""What a run's open calls need: steps to start, timers to fire, promises and children to open or give up."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Any, Protocol

from signoff.engine.run.calls import Call, ProgressCall, PromiseCall, SignalCall, TimerCall
from signoff.engine.run.child_calls import ChildCall, DetachedCall
from signoff.engine.run.execution import Execution
from signoff.engine.run.step_call import StepCall
from signoff.engine.worker.journal_write import Draft
from signoff.records import CallKind, Entry, EntryKind, NewPromise, PromiseKind, Run


@dataclass(frozen=True, slots=True)
class Doubt:
    """The question about a step that was interrupted.

    Attributes:
        data: What is asked, as the question's row has it.
        assignees: Who may answer; empty: anybody.
    """

    data: str
    assignees: tuple[str, ...] = ()


class Interviewer(Protocol):
    """Who words the question about a step that was interrupted."""

    def unclear_question(self, run: Run, call: StepCall, refused: str | None = None) -> Doubt:
        """Return the question to ask about a step of which nobody knows whether it happened.

        Args:
            run: The run.
            call: The step.
            refused: What was wrong with the last answer, if there was one.
        """
        ...


class Agenda:
    """Takes what the code asks for, and drafts what the store must be told of it.

    Args:
        draft: What is about to be written.
        run: The run.
        interviewer: Words the question about an interrupted step.

    Attributes:
        to_start: Steps to start once the draft is durable. Whoever starts them empties it.
        to_stop: Numbers of steps that the code has given up. Whoever stops them empties it.
    """

    def __init__(self, draft: Draft, run: Run, interviewer: Interviewer) -> None:
        self.to_start: list[StepCall] = []
        self.to_stop: list[int] = []
        self._draft = draft
        self._run = run
        self._interviewer = interviewer
        self._due: list[tuple[float, int]] = []  # heap: timers, signal deadlines and back-offs by call number

    def collect(self, execution: Execution) -> None:
        """Take what the code asked for and gave up since the last time."""
        if execution.patched:
            for id in execution.patched:
                self._draft.add(EntryKind.PATCHED, name=id)
            execution.patched.clear()
        if execution.numbers.grown:
            for first_n, branch in execution.numbers.grown:
                self._draft.add(EntryKind.BRANCHED, name=branch, details={"from": first_n})
            execution.numbers.grown.clear()
        issued, execution.issued = execution.issued, []
        for call in issued:
            self._draft.may_be_cut()
            self._open(execution, call)
        if execution.abandoned:
            abandoned, execution.abandoned = execution.abandoned, []
            for call in abandoned:
                self._draft.may_be_cut()
                self._close(call)
        if execution.left_open:
            left_open, execution.left_open = execution.left_open, []
            for opened in left_open:
                self._draft.may_be_cut()
                self._close_opened(opened)

    def close_rest(self, execution: Execution) -> None:
        """Give up everything that is still open."""
        self.collect(execution)
        for call in list(execution.open.values()):
            self._draft.may_be_cut()
            self._close(call)

    def clear(self) -> None:
        """Forget what was to be started and what was due."""
        self._due.clear()
        self.to_start.clear()

    # Time

    def remind(self, at: float, n: int) -> None:
        """Make call ``n`` due at a time."""
        heapq.heappush(self._due, (at, n))

    def remind_of_all(self, execution: Execution) -> None:
        """Make everything due again that an execution waits for, which was kept while the run was paused."""
        for call in execution.open.values():
            if isinstance(call, (TimerCall, SignalCall)) and call.due_at is not None:
                self.remind(call.due_at, call.n)
            elif isinstance(call, StepCall) and call.n not in execution.past.begun:
                self.remind(execution.past.attempts[call.n][1], call.n)

    def due_at(self, execution: Execution) -> float:
        """When the next open call is due, in unix seconds; infinity if none is."""
        while self._due and self._due[0][1] not in execution.open:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else math.inf

    def take_due(self, execution: Execution, now: float) -> Call[Any] | None:
        """Return an open call that is due, if there is one."""
        if not self._due or self.due_at(execution) > now:
            return None
        return execution.open[heapq.heappop(self._due)[1]]

    # Writing

    def note_timers(self, execution: Execution) -> None:
        """Draft the timers that the journal does not know: the run is about to pause on them."""
        for call in execution.open.values():
            if isinstance(call, TimerCall) and call.n not in execution.past.opened:
                self._draft.may_be_cut()
                opened = self._draft.record(EntryKind.OPENED, call, details={"due_at": call.due_at})
                execution.past.learn([opened])

    def announce_once_steps(self) -> None:
        """Draft the starts of the steps that must not happen twice."""
        for call in self.to_start:
            if call.step_options.effect == "once":
                self._draft.may_be_cut()
                self._draft.record(EntryKind.STEP_STARTED, call)

    # Opening and closing

    def _open(self, execution: Execution, call: Call[Any]) -> None:
        if isinstance(call, StepCall):
            if call.n in execution.open:  # else it is given up already
                self._open_step(execution, call)
            return
        is_known = call.n in execution.past.opened
        if isinstance(call, DetachedCall):
            if not is_known:
                self._draft.record(EntryKind.OPENED, call, details={"id": call.id})
                self._draft.starts.append(call.new_run(execution.loop.time()))
        elif isinstance(call, ProgressCall):
            if not is_known:
                self._draft.record(EntryKind.PROGRESSED, call, value=call.value)
        elif isinstance(call, SignalCall):
            self._open_signal(execution, call)
        elif call.n not in execution.open:
            return  # settled or given up already
        elif isinstance(call, TimerCall):
            self.remind(call.due_at, call.n)
        elif isinstance(call, PromiseCall):
            if not is_known:
                new = call.new_promise(execution.loop.time())
                details = call.facts(new)
                opened = self._draft.record(EntryKind.OPENED, call, value=call.data, details=details)
                execution.past.learn([opened])
                self._draft.opens.append(new)
        elif isinstance(call, ChildCall) and not is_known:
            self._draft.record(EntryKind.OPENED, call, value=call.arguments, details={"id": call.id})
            self._draft.starts.append(call.new_run(execution.loop.time()))

    def _open_signal(self, execution: Execution, call: SignalCall) -> None:
        if execution.took_kept(call):
            assert call.kept is not None
            self._draft.record(EntryKind.OPENED, call, details={"received": call.kept.seq})
        if call.n not in execution.open:
            return  # settled or given up already
        if call.due_at is not None:
            self.remind(call.due_at, call.n)
        if call.n not in execution.past.opened:
            opened = self._draft.record(EntryKind.OPENED, call, details={"due_at": call.due_at})
            execution.past.learn([opened])

    def _open_step(self, execution: Execution, call: StepCall) -> None:
        if call.n in execution.past.begun:
            if call.n not in execution.past.opened:
                self.ask_about(execution, call)
            return
        attempts = execution.past.attempts
        next_at = attempts[call.n][1] if call.n in attempts else 0.0
        if next_at > self._draft.now:
            self.remind(next_at, call.n)
        else:
            self.to_start.append(call)

    def ask_about(self, execution: Execution, call: StepCall, refused: str | None = None) -> None:
        """Ask a person what became of a step that was interrupted; again, if their answer was ``refused``."""
        doubt = self._interviewer.unclear_question(self._run, call, refused)
        asked_before = execution.past.asked.get(call.n, 0)
        id = f"{self._run.id}.{call.n}" + (f"~{asked_before + 1}" if asked_before else "")
        opened = self._draft.record(EntryKind.OPENED, call, value=doubt.data, details={"id": id})
        execution.past.learn([opened])
        self._draft.opens.append(
            NewPromise(
                id,
                PromiseKind.QUESTION,
                self._run.id,
                call.n,
                data=doubt.data,
                assignees=doubt.assignees,
            )
        )

    def _close(self, call: Call[Any]) -> None:
        if isinstance(call, StepCall):
            self.to_stop.append(call.n)
            self.to_start = [other for other in self.to_start if other is not call]
        elif isinstance(call, PromiseCall):
            if call.chosen_id is None:
                self._draft.closes.append(call.id)
        elif isinstance(call, ChildCall):
            self._draft.cancels.append(call.id)

    def _close_opened(self, opened: Entry) -> None:
        """Close what code has opened that is not here."""
        id = opened.fact("id")
        if opened.call is CallKind.CHILD:
            self._draft.cancels.append(id)
        elif opened.call is CallKind.STEP or id == f"{self._run.id}.{opened.n}":  # no id of somebody's choice
            self._draft.closes.append(id)
