"""Checks whether the code matches a recorded journal, by a replay in memory: no step runs, nothing is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from signoff.engine.run.execution import Execution, Program
from signoff.engine.run.replay import replay
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.attempt import Attempt
from signoff.errors import NonDeterminism, SignoffError
from signoff.records import CallKind, Entry, EntryKind, Run


class Programs(Protocol):
    """The registry of workflows, as a check uses it."""

    def program(self, workflow: str, version: str | None) -> Program:
        """Return the code of a workflow in the given version, or in its latest one if that is not registered.

        Raises:
            UnknownWorkflow: The workflow is not registered.
        """
        ...


class Verdict(StrEnum):
    """The result of a check."""

    FITS = "fits"
    PARTLY = "partly"  # it matches up to a step whose value is not in the journal
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one checked journal.

    Attributes:
        run_id: The run.
        workflow: Its workflow.
        verdict: Whether the code matches.
        entries: The number of entries of its current generation.
        checked: How many of them were replayed.
        message: The difference, or why the check is partial; None if the code matches.
        n: The number of the first differing call.
        recorded: The journaled call.
        issued: The code's call.
        where: ``file:line`` of the code's call, if there is one.
    """

    run_id: str
    workflow: str
    verdict: Verdict
    entries: int = 0
    checked: int = 0
    message: str | None = None
    n: int | None = None
    recorded: str | None = None
    issued: str | None = None
    where: str | None = None


async def check(run: Run, entries: Sequence[Entry], programs: Programs) -> Finding:
    """Replay a journal with the current code and report whether it matches.

    No step runs. So the check ends at a ``durable=False`` step, whose value is not in the journal; that is not a
    difference.

    Args:
        run: The run.
        entries: Its journal. Of a run that continued as new, only the current generation is checked.
        programs: The registered workflows.
    """
    entries = _generation(entries)
    begun: list[Execution] = []

    def begin(first: Entry, replaying: int) -> Execution:
        program = programs.program(run.workflow, first.fact("version"))
        begun.append(Execution(run, program, first, replaying=replaying))
        return begun[0]

    try:
        if not entries:
            programs.program(run.workflow, None)
            return Finding(run.id, run.workflow, Verdict.FITS)
        return _finding(run, entries, await replay(begin, entries, _refuse_to_run))
    except _NotKept as missing:
        return _partly(run, entries, missing.step)
    except SignoffError as error:
        return Finding(run.id, run.workflow, Verdict.DIFFERS, len(entries), message=str(error))
    finally:
        for execution in begun:
            execution.discard()


class _NotKept(Exception):  # not an error: it ends the replay
    def __init__(self, step: StepCall) -> None:
        super().__init__(step.name)
        self.step = step


async def _refuse_to_run(step: StepCall) -> Attempt:
    raise _NotKept(step)


def _generation(entries: Sequence[Entry]) -> Sequence[Entry]:
    starts = [
        index for index, entry in enumerate(entries) if entry.kind in (EntryKind.STARTED, EntryKind.CONTINUED)
    ]
    return entries[starts[-1] :] if starts else []


def _partly(run: Run, entries: Sequence[Entry], step: StepCall) -> Finding:
    ends = [
        index
        for index, entry in enumerate(entries)
        if entry.kind is EntryKind.COMPLETED and entry.n == step.n
    ]
    message = (
        f"checked up to step {step.name!r} (call {step.n}): it is durable=False, so its value is not in the journal "
        f"and the step would have to run again"
    )
    return Finding(run.id, run.workflow, Verdict.PARTLY, len(entries), ends[0], message, n=step.n)


def _finding(run: Run, entries: Sequence[Entry], execution: Execution) -> Finding:
    failure = execution.failure
    if isinstance(failure, NonDeterminism):
        return _differs(run, entries, failure, _ending(execution))
    if failure is not None:
        return Finding(run.id, run.workflow, Verdict.DIFFERS, len(entries), message=str(failure))
    recorded = _recorded_end(entries)
    if recorded is not None and (execution.outcome is None or execution.outcome.state != recorded):
        last_n = execution.last_n
        n = last_n if execution.outcome is None else last_n + 1
        parting = NonDeterminism(run.id, n, f"the end: {recorded}", _next_move(execution), None)
        return _differs(run, entries, parting, None)
    return Finding(run.id, run.workflow, Verdict.FITS, len(entries), len(entries))


def _differs(run: Run, entries: Sequence[Entry], parting: NonDeterminism, ending: str | None) -> Finding:
    issued = f"{parting.issued} ({ending})" if ending and parting.where is None else parting.issued
    before = [index for index, entry in enumerate(entries) if entry.n == parting.n]
    return Finding(
        run.id,
        run.workflow,
        Verdict.DIFFERS,
        len(entries),
        before[0] if before else len(entries) - 1,
        str(NonDeterminism(run.id, parting.n, parting.recorded, issued, parting.where)),
        parting.n,
        parting.recorded,
        issued,
        parting.where,
    )


def _recorded_end(entries: Sequence[Entry]) -> EntryKind | None:
    last = entries[-1]
    if last.kind in (EntryKind.SUCCEEDED, EntryKind.CANCELLED):
        return last.kind
    return last.kind if last.kind is EntryKind.FAILED and not last.fact("retryable") else None


def _ending(execution: Execution) -> str | None:
    """Return how the code ended although the journal continues."""
    if execution.outcome is None:
        return None
    if execution.outcome.error is None:
        return str(execution.outcome.state)
    error = json.loads(execution.outcome.error)
    return f"{execution.outcome.state} with {error['type'].rpartition(':')[2]}: {error['message']}"


def _next_move(execution: Execution) -> str:
    """Return what the code does where the journal ends."""
    ending = _ending(execution)
    if ending is not None:
        return f"the end: {ending}"
    if execution.continuation is not None:
        return "continue_as_new"
    for call in execution.open.values():
        if call.kind is not CallKind.TIMER:
            return f"{call.kind} {call.name!r}"
    return f"more to do at {execution.waiting_line()}"
