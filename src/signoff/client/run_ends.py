"""Waits for the end of a run. Refused in a step that the run itself waits for."""

from __future__ import annotations

from typing import Final, Protocol

from signoff.client.slot_waits import SlotBackend, wait_for_slot
from signoff.errors import CircularWait, NotFound
from signoff.observability.current_run import current_attempt
from signoff.records import Run

DEEPEST: Final = 100
"""The most ancestors of a step's run to check."""


class RunBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def get_run(self, run_id: str) -> Run: ...
    async def wait(self, run_id: str) -> Run: ...


async def end_of(backend: SlotBackend, run_id: str) -> Run:
    """Wait for the end of a run and return it.

    Args:
        backend: The run's backend.
        run_id: The run.

    Raises:
        NotFound: The run does not exist.
        CircularWait: The caller is a step of that run, of a descendant that it waits for, or of an earlier run in its
            session: neither could end. Or steps that wait like this one hold all slots that the run could take.
    """
    await refuse_circle(backend, run_id)
    if current_attempt.get(None) is None:
        return await backend.wait(run_id)
    return await wait_for_slot(backend, run_id)


async def refuse_circle(backend: RunBackend, run_id: str) -> None:
    """Raise CircularWait if the caller is a step that must not wait for the end of a run. See ``end_of``."""
    attempt = current_attempt.get(None)
    if attempt is None:
        return
    own = attempt[0].run
    try:
        found = await backend.get_run(own.id)
    except NotFound:
        return
    if (found.namespace, found.created_at) != (own.namespace, own.created_at):
        return  # another store's run with the same id
    if run_id == own.id:
        raise CircularWait([run_id, run_id])
    target = await backend.get_run(run_id)
    if target.state.is_final:
        return
    is_behind_it = (own.position or 0) < (target.position or 0)
    if own.session_id is not None and own.session_id == target.session_id and is_behind_it:
        raise CircularWait([own.id, run_id, own.id])
    descent = [own.id]
    while found.parent_id is not None and found.parent_n is not None and len(descent) < DEEPEST:
        if found.parent_id == run_id:
            raise CircularWait([own.id, run_id, *reversed(descent)])
        descent.append(found.parent_id)
        try:
            found = await backend.get_run(found.parent_id)
        except NotFound:
            return
