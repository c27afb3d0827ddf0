"""Forks: sessions that begin with the history of another one."""

from __future__ import annotations

from signoff.agents.conversations.session_turns import fork_of
from signoff.client.async_client import AsyncClient
from signoff.errors import InvalidState, InvalidValue, NotFound
from signoff.records import Run
from signoff.records.start_options import check_id


async def begin_fork(client: AsyncClient, agent: str, turn: Run, session_id: str) -> None:
    """Begin a session with the history up to an ended turn of another one.

    Raises:
        InvalidState: The turn has not ended.
        InvalidValue: The session has runs already.
        IdConflict: It was begun as a fork at another turn.
    """
    if not turn.state.is_final:
        raise InvalidState(turn.id, turn.state.value, "fork")
    id = check_id(fork_of(session_id))
    try:
        session = await client.sessions.get(session_id)
    except NotFound:
        pass
    else:
        if session.last_position > 0 and not await _is_run_of(client, session.id, id):
            raise InvalidValue("session_id", f"session {session_id!r} has runs already; fork into a new one")
    await client.start(agent, {"fork": turn.id}, id=id, session_id=session_id)


async def _is_run_of(client: AsyncClient, session_id: str, run_id: str) -> bool:
    try:
        return (await client.backend.get_run(run_id)).session_id == session_id
    except NotFound:
        return False
