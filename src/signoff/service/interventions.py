"""Interventions of operators in runs: suspend, resume, terminate and retry. Each is recorded in the audit trail."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import Final

from signoff.errors import InvalidState, NotFound
from signoff.people.questions.question import Question
from signoff.records import AuditKind, Entry, NewAuditEvent, PromiseState, Run, RunState
from signoff.service.retry_plans import Outline, ReadEntry
from signoff.stores.contract.retries import Retry
from signoff.stores.contract.store import Store

ENTRIES_AT_ONCE: Final = 500


async def suspend(
    store: Store, run_id: str, *, by: str | None = None, reason: str | None = None, token: str | None = None
) -> Run:
    """Suspend a run until an operator resumes it. Running steps finish first; no new steps start.

    Args:
        store: The run's store.
        run_id: The run.
        by: The operator, such as ``user:ana``.
        reason: The reason, for people.
        token: The id of this call, so that a repeated call has no effect.

    Returns:
        The run after the change.

    Raises:
        NotFound: The run does not exist.
        InvalidState: The run has ended.
    """
    event = _event(AuditKind.SUSPENDED, run_id, by, reason, token)
    return await store.suspend(run_id, event, reason=reason)


async def resume(store: Store, run_id: str, *, by: str | None = None, token: str | None = None) -> Run:
    """Resume a suspended run. Raises NotFound, InvalidState."""
    return await store.resume(run_id, _event(AuditKind.RESUMED, run_id, by, None, token))


async def terminate(
    store: Store, run_id: str, *, by: str | None = None, reason: str | None = None, token: str | None = None
) -> Run:
    """Terminate a run at once. Its code, including its cleanup, does not run. Its children are cancelled.

    Args:
        store: The run's store.
        run_id: The run.
        by: The operator, such as ``user:ana``.
        reason: The reason, for people. Callers that wait for the run find it in ``RunTerminated``.
        token: The id of this call, so that a repeated call has no effect.

    Returns:
        The run after the change: ``cancelled``.

    Raises:
        NotFound: The run does not exist.
        InvalidState: The run has ended.
    """
    event = _event(AuditKind.TERMINATED, run_id, by, reason, token)
    return await store.terminate(run_id, event, reason=reason)


async def retry(
    store: Store, run_id: str, *, by: str | None = None, reason: str | None = None, token: str | None = None
) -> Run:
    """Retry a failed run from where it failed, or resume a suspended one.

    A run that failed permanently keeps its journal, except the outcome of the failed call and everything after it:
    steps that the code ran after the failure are dropped. Callers that waited for the run keep its failure.

    Args:
        store: The run's store.
        run_id: The run.
        by: The operator, such as ``user:ana``.
        reason: The reason, for people.
        token: The id of this call, so that a repeated call has no effect.

    Returns:
        The run after the change.

    Raises:
        NotFound: The run does not exist.
        InvalidState: The run has not failed, or another run of its session is active. Or after the failure it asked
            questions, started child runs or began steps with ``effect="once"``, which cannot be undone.
    """
    token = token or uuid.uuid4().hex
    how: Retry | None = None
    run = await store.get_run(run_id)
    if run.state is RunState.FAILED and not run.retryable:
        outline = Outline(run)
        async for entry in _journal(store, run):
            outline.add(entry)
        read = partial(_entry, store, run_id)
        how = await outline.plan(read, await _closed(store, outline, read))
    event = _event(AuditKind.RETRIED, run_id, by, reason, token)
    try:
        return await store.retry(run_id, how=how, event=event, token=token)
    except InvalidState as error:
        if how is None or error.why:
            raise
        raise InvalidState(run_id, error.state, "retry", "it has changed meanwhile; read it again") from None


def _event(
    kind: AuditKind, run_id: str, by: str | None, reason: str | None, token: str | None
) -> NewAuditEvent:
    details = None if reason is None else json.dumps({"reason": reason}, ensure_ascii=False)
    id = uuid.uuid4().hex if token is None else f"{kind}/{run_id}/{token}"
    return NewAuditEvent(id, kind, "", run_id, by, details)


async def _closed(store: Store, outline: Outline, read: ReadEntry) -> list[int]:
    """Return the closed questions that a retry asks anew: not callbacks, whose address the code has passed on."""
    closed: list[int] = []
    for seq in outline.unanswered():
        opened = await read(seq)
        with suppress(NotFound):
            question = await store.get_promise(opened.fact("id"))
            is_over = question.state in (PromiseState.CANCELLED, PromiseState.TIMED_OUT)
            if is_over and opened.n is not None and Question.of(question).input_type != "external":
                closed.append(opened.n)
    return closed


async def _journal(store: Store, run: Run) -> AsyncGenerator[Entry]:
    """Yield the journal of a run's current generation."""
    after = run.first_seq - 1
    while entries := await store.read_journal(run.id, after=after, limit=ENTRIES_AT_ONCE):
        for entry in entries:
            yield entry
        after = entries[-1].seq


async def _entry(store: Store, run_id: str, seq: int) -> Entry:
    [entry] = await store.read_journal(run_id, after=seq - 1, limit=1)
    return entry
