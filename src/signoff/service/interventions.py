"""What operators do with runs, each with its event in the audit trail: suspend, resume, terminate, retry."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from signoff.errors import InvalidState
from signoff.records import AuditKind, Entry, NewAuditEvent, Run, RunState
from signoff.stores.contract import retries
from signoff.stores.contract.store import Store

ENTRIES_AT_ONCE: Final = 500


async def suspend(
    store: Store, run_id: str, *, by: str | None = None, reason: str | None = None, token: str | None = None
) -> Run:
    """Have a run wait until an operator resumes it. Steps that run are finished first; nothing else begins.

    Args:
        store: Where the run is.
        run_id: The run.
        by: Who asks for it, such as ``user:ana``.
        reason: Why, for people.
        token: The id of this call, so that a repetition has no effect.

    Returns:
        The run as it is afterwards.

    Raises:
        NotFound: The run does not exist.
        InvalidState: It has ended.
    """
    event = _event(AuditKind.SUSPENDED, run_id, by, reason, token)
    return await store.suspend(run_id, event, reason=reason)


async def resume(store: Store, run_id: str, *, by: str | None = None, token: str | None = None) -> Run:
    """Have a suspended run go on. Raises NotFound, InvalidState."""
    return await store.resume(run_id, _event(AuditKind.RESUMED, run_id, by, None, token))


async def terminate(
    store: Store, run_id: str, *, by: str | None = None, reason: str | None = None, token: str | None = None
) -> Run:
    """End a run at once, without its code: none of its clean-up runs. Its children are asked to stop.

    Args:
        store: Where the run is.
        run_id: The run.
        by: Who asks for it, such as ``user:ana``.
        reason: Why, for people. Callers that wait for the run read it in ``RunTerminated``.
        token: The id of this call, so that a repetition has no effect.

    Returns:
        The run as it is afterwards: ``cancelled``.

    Raises:
        NotFound: The run does not exist.
        InvalidState: It has ended.
    """
    event = _event(AuditKind.TERMINATED, run_id, by, reason, token)
    return await store.terminate(run_id, event, reason=reason)


async def retry(
    store: Store, run_id: str, *, by: str | None = None, reason: str | None = None, token: str | None = None
) -> Run:
    """Have a failed run go on from where it failed, or a suspended one go on.

    A run that failed for good keeps its journal, but for what came of the call that failed and everything after it:
    steps that the code did on its way out are forgotten. Callers that waited for the run keep its failure.

    Args:
        store: Where the run is.
        run_id: The run.
        by: Who asks for it, such as ``user:ana``.
        reason: Why, for people.
        token: The id of this call, so that a repetition has no effect.

    Returns:
        The run as it is afterwards.

    Raises:
        NotFound: The run does not exist.
        InvalidState: It has not failed, another run of its session is active, or it asked people, started child runs,
            or began steps of ``effect="once"`` after the failure, which cannot be taken back.
    """
    token = token or uuid.uuid4().hex
    how: retries.Retry | None = None
    run = await store.get_run(run_id)
    if run.state is RunState.FAILED and not run.retryable:
        how = retries.plan(run, await _outline(store, run))
    event = _event(AuditKind.RETRIED, run_id, by, reason, token)
    try:
        return await store.retry(run_id, how=how, event=event, token=token)
    except InvalidState as error:
        if how is None or error.why:
            raise
        raise InvalidState(run_id, error.state, "retry", "it has changed meanwhile; look again") from None


def _event(
    kind: AuditKind, run_id: str, by: str | None, reason: str | None, token: str | None
) -> NewAuditEvent:
    details = None if reason is None else json.dumps({"reason": reason}, ensure_ascii=False)
    id = uuid.uuid4().hex if token is None else f"{kind}/{run_id}/{token}"
    return NewAuditEvent(id, kind, "", run_id, by, details)


async def _outline(store: Store, run: Run) -> Sequence[Entry]:
    """Return the journal of a run's current generation without values, which may be more than memory holds."""
    outline: list[Entry] = []
    after = run.first_seq - 1
    while entries := await store.read_journal(run.id, after=after, limit=ENTRIES_AT_ONCE):
        outline += [replace(entry, value=None) for entry in entries]
        after = entries[-1].seq
    return outline
