"""Rebuilds a run in memory from its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from signoff.engine.run.execution import Execution
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.attempt import Attempt
from signoff.errors import ReplayFailed
from signoff.records import Entry, EntryKind

DELIVERED: Final = frozenset(
    {EntryKind.COMPLETED, EntryKind.SIGNALLED, EntryKind.CANCEL_REQUESTED, EntryKind.DEADLINE_PASSED}
)
_MOST_REPEATED: Final = 20

REPLAY_SLICE: Final = 200  # entries delivered in one turn of the worker's event loop


async def replay(
    begin: Callable[[Entry, int], Execution],
    entries: Sequence[Entry],
    rerun: Callable[[StepCall], Awaitable[Attempt]],
) -> Execution:
    """Rebuild an execution from its journal.

    The code may import an exception class only after an error of that class was delivered, so an ``except`` clause may
    miss it. In that case the run is rebuilt once more: now the clause sees the class that it saw live.

    Args:
        begin: Makes the execution from the journal's first entry and the number of deliveries to come.
        entries: One generation of the journal.
        rerun: Runs a ``durable=False`` step again.

    Returns:
        The execution. Its ``failure`` is set if the code does not match the journal.
    """
    for _ in range(_MOST_REPEATED):
        execution = await _replay(begin, entries, rerun)
        if not execution.has_missed_classes:
            return execution
        execution.discard()
    return await _replay(begin, entries, rerun)


async def _replay(
    begin: Callable[[Entry, int], Execution],
    entries: Sequence[Entry],
    rerun: Callable[[StepCall], Awaitable[Attempt]],
) -> Execution:
    deliveries = [entry for entry in entries if entry.kind in DELIVERED]
    execution = begin(entries[0], len(deliveries))
    execution.expect(entries)
    # Code runs before its entries are written, except that of the next generation.
    execution.is_replaying = len(entries) > 1 or entries[0].kind is EntryKind.STARTED
    try:
        return await _deliver(execution, deliveries, rerun)
    except BaseException:  # no other code refers to it: discard the partial rebuild
        execution.discard()
        raise
    finally:
        execution.is_replaying = False


async def _deliver(
    execution: Execution, deliveries: Sequence[Entry], rerun: Callable[[StepCall], Awaitable[Attempt]]
) -> Execution:
    execution.start()
    index = 0
    while index < len(deliveries):
        entry = deliveries[index]
        if execution.ended:
            if execution.failure is None:
                execution.overran(entry)
            return execution
        if (call := _unkept(execution, entry)) is not None:
            attempt = await rerun(call)
            if attempt.error is not None:
                execution.failure = ReplayFailed(execution.run.id, call.n, call.name, repr(attempt.error))
                return execution
            call.computed = attempt.value
        index = _deliver_slice(execution, deliveries, index)
        execution.forget_settled()
        if index < len(deliveries):
            await asyncio.sleep(0)
    execution.check_replayed()
    return execution


def _deliver_slice(execution: Execution, deliveries: Sequence[Entry], index: int) -> int:
    """Deliver a slice of entries from an index on. Returns the index of the rest."""
    end = min(index + REPLAY_SLICE, len(deliveries))

    def is_end(next_index: int) -> bool:
        return next_index == end or _unkept(execution, deliveries[next_index]) is not None

    with execution.loop.entered():
        return execution.deliver_some(deliveries, index, is_end)


def _unkept(execution: Execution, entry: Entry) -> StepCall | None:
    """Return the ``durable=False`` step that an entry completes, if any. Its value is not in the journal."""
    if entry.value is not None or entry.error is not None:
        return None
    call = execution.open.get(entry.n or 0)
    return call if isinstance(call, StepCall) else None
