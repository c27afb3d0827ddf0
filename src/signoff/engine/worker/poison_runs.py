"""Suspends poison runs: runs that keep losing their workers. An operator looks at them."""

from __future__ import annotations

from signoff.errors import LeaseLost
from signoff.observability import events
from signoff.observability.current_run import fields_of
from signoff.observability.events import RunInfo, RunSetAside
from signoff.records import AuditKind, Entry, NewAuditEvent, Run
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store

log = own_logger("signoff.worker")


async def suspend_poison_run(store: Store, run: Run) -> None:
    """Suspend a run that blocks or kills one worker after the other, until an operator resumes or terminates it.

    Args:
        store: The store.
        run: The run, as it was claimed.
    """
    entries = await store.read_journal(run.id, after=run.first_seq - 1)
    reason = (
        f"{run.takeovers} workers in turn were lost or blocked while they ran it, and its journal did not grow "
        f"{place_of(entries[-1] if entries else None)}. Look for a step or workflow code that blocks the event "
        "loop or ends the process; then resume the run, or terminate it"
    )
    event = NewAuditEvent(f"{run.id}/suspended/{run.epoch}", AuditKind.SUSPENDED, "", run.id)
    log.error("run %s is suspended: %s", run.id, reason, extra=fields_of(run))
    try:
        await store.suspend(run.id, event, reason=reason, epoch=run.epoch)
        if events.subscribers:
            events.announce(RunSetAside(RunInfo.of(run), run.takeovers))
    except LeaseLost as lost:
        log.info("%s", lost)


def place_of(entry: Entry | None) -> str:
    """Say where a journal ends, for people."""
    if entry is None:
        return "at all"
    what = " ".join(filter(None, (entry.call, repr(entry.name) if entry.name else None)))
    return f"after entry {entry.seq} ({entry.kind}{f' {what}' if what else ''})"
