"""Journals the end of each attempt at a step: its outcome, or its failure and the time of the retry."""

from __future__ import annotations

from typing import Any, Final

from signoff.engine.run.execution import Execution
from signoff.engine.run.fatal_exceptions import encode_failure
from signoff.engine.steps.attempt import Attempt
from signoff.engine.steps.failed_attempt_log import log_failed_attempt
from signoff.engine.worker.journal_write import PendingWrite
from signoff.engine.worker.open_calls import OpenCalls
from signoff.errors import (
    CannotRunHere,
    NotAwaited,
)
from signoff.records import EntryKind, Run
from signoff.stores.contract.retries import ISSUED

_COMPLETED: Final = EntryKind.COMPLETED  # a global name: members of enums are slow to read
NEAR_SECONDS = 0.01  # an attempt that began this soon after the previous entry need not journal its start


def journal_attempt(
    attempt: Attempt, run: Run, execution: Execution, pending: PendingWrite, open_calls: OpenCalls
) -> None:
    """Journal the end of an attempt: deliver the step's outcome to the code, or schedule the retry.

    Args:
        attempt: The attempt that ended.
        run: The run.
        execution: The run in memory.
        pending: The next write, to which the entry is added.
        open_calls: The run's open calls.
    """
    call = attempt.call
    if call.n not in execution.open:
        return
    if attempt.error is not None and isinstance(attempt.error, (CannotRunHere, NotAwaited)):
        execution.refuse(attempt.error)
        return
    details: dict[str, Any] | None = None
    before = pending.last_at
    if abs(attempt.started_at - before) > NEAR_SECONDS:
        details = {"started_at": attempt.started_at}
    if attempt.error is None:
        value = attempt.text
        if not call.step_options.durable:
            value, details = None, {**(details or {}), "durable": False}
        call.computed = attempt.value
        entry = pending.record(_COMPLETED, call, value=value, details=details)
        execution.past.note_end(before, entry)
        execution.deliver(entry)
        return
    wait = attempt.retry_after  # before logging: the retry policy may add a note to the error
    log_failed_attempt(f"step {call.name!r}", run, attempt.number, attempt.error, wait)
    if wait is None and call.step_options.on_failure is not None:
        execution.refuse(call.step_options.on_failure(attempt.error))
        return
    error = encode_failure(attempt.error)
    if wait is None:
        details = {**(details or {}), ISSUED: execution.last_n}
        entry = pending.record(EntryKind.COMPLETED, call, error=error, details=details)
        execution.past.note_end(before, entry)
        execution.deliver(entry)
        return
    next_at = pending.now + wait
    details = {**(details or {}), "attempt": attempt.number, "next_at": next_at}
    entry = pending.record(EntryKind.ATTEMPT_FAILED, call, error=error, details=details)
    execution.past.note_end(before, entry)
    execution.past.attempts[call.n] = (attempt.number, next_at)
    open_calls.remind(next_at, call.n)
