"""Journals answers and the other messages to a run, and delivers them to its code.

Other messages are settled promises, results of child runs, signals, cancellations, suspensions and deadlines.
"""

from __future__ import annotations

import json
from typing import Any

from signoff import codec
from signoff.engine.run.execution import Execution
from signoff.engine.run.step_call import StepCall
from signoff.engine.worker.journal_write import PendingWrite
from signoff.engine.worker.open_calls import OpenCalls
from signoff.engine.worker.run_events import RunEvents
from signoff.errors import (
    LeaseLost,
    SignoffError,
    StepFailed,
)
from signoff.records import EntryKind, Message, MessageKind, PromiseState, Run


class MessageJournal:
    """Journals the messages to one run under one lease.

    Args:
        run: The run, as it was claimed.
        pending: The next write, to which the entries are added.
        open_calls: The run's open calls.
        report: Announces what was journaled.

    Attributes:
        is_suspending: Whether an operator has asked to suspend the run.
    """

    def __init__(self, run: Run, pending: PendingWrite, open_calls: OpenCalls, report: RunEvents) -> None:
        self._run = run
        self._pending = pending
        self._open_calls = open_calls
        self._report = report
        self.is_suspending = False

    def take(self, execution: Execution, message: Message) -> None:
        """Journal a message and deliver it to the run's code."""
        self._pending.taken.append(message.id)
        details = {"by": message.by, "note": message.note, "at": message.at}
        match message.kind:
            case MessageKind.SETTLED:
                self._take_settlement(execution, message, {"state": message.state, **details})
            case MessageKind.SIGNAL:
                entry = self._pending.add(
                    EntryKind.SIGNALLED, name=message.name, value=message.value, details=details
                )
                self._report.signalled(execution, message, entry.at)
                execution.deliver(entry)
            case MessageKind.CANCEL:
                entry = self._pending.add(
                    EntryKind.CANCEL_REQUESTED, details={"reason": message.note, "by": message.by}
                )
                execution.deliver(entry)
            case MessageKind.SUSPEND:
                self.is_suspending = True
            case MessageKind.DEADLINE:
                self._report.deadline_passed(self._pending.now)
                execution.deliver(self._pending.add(EntryKind.DEADLINE_PASSED))

    def _take_settlement(self, execution: Execution, message: Message, details: dict[str, Any]) -> None:
        assert message.n is not None
        call = execution.open.get(message.n)
        if isinstance(call, StepCall):
            self._take_decision(execution, call, message, details)
            return
        entry = self._pending.add(
            EntryKind.COMPLETED,
            n=message.n,
            call=None if call is None else call.kind,
            name=message.name if call is None else call.name,
            value=message.value,
            error=message.error,
            details=details,
        )
        self._report.settled(execution, call, entry, message)
        execution.deliver(entry)

    def _take_decision(
        self, execution: Execution, call: StepCall, message: Message, details: dict[str, Any]
    ) -> None:
        """Apply an operator's decision about a step whose outcome is unknown."""
        if call.n not in execution.past.asked:
            raise LeaseLost(self._run.id, self._run.epoch)  # another worker has asked the question
        decision = json.loads(message.value or "null") if message.state == PromiseState.RESOLVED else None
        action = decision.get("action") if isinstance(decision, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if action == "retry":
            details |= {"attempt": execution.past.asked[call.n], "next_at": self._pending.now}
            execution.past.learn([self._pending.record(EntryKind.ATTEMPT_FAILED, call, details=details)])
            self._open_calls.to_start.append(call)
        elif action == "done":
            result = json.dumps(decision.get("result"))  # pyright: ignore[reportUnknownMemberType, reportOptionalMemberAccess]
            try:
                codec.decode(result, call.step_options.returns, path="result")
            except (
                SignoffError
            ) as error:  # the step's type may be stricter than the schema, or may have changed
                self._open_calls.ask_about(execution, call, str(error))
                return
            execution.deliver(self._pending.record(EntryKind.COMPLETED, call, value=result, details=details))
        else:
            failed = StepFailed("UnclearOutcome", f"step {call.name!r} was interrupted and declared failed")
            error = codec.encode_error(failed)
            execution.deliver(self._pending.record(EntryKind.COMPLETED, call, error=error, details=details))
