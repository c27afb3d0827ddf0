"""Client operations on sessions."""

from __future__ import annotations

from typing import Protocol

from signoff.records import Session
from signoff.records.paging import Page


class SessionBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def get_session(self, session_id: str) -> Session: ...
    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]: ...


class AsyncSessions:
    """Reads sessions. A session exists from its first run on.

    Example::

        await client.start("turn", "hello", session_id="c-1")
        await client.start("turn", "and then?", session_id="c-1")  # waits for the first
        session = await client.sessions.get("c-1")
        print(session.active_run_id, (await client.list(session_id="c-1")).items)
    """

    def __init__(self, backend: SessionBackend) -> None:
        self._backend = backend

    async def get(self, session_id: str) -> Session:
        """Return a session. ``client.list(session_id=...)`` lists its runs.

        Raises:
            NotFound: The session has no runs.
        """
        return await self._backend.get_session(session_id)

    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        """List sessions, the one with the newest run first.

        Args:
            after: The ``next`` of the previous page.
            limit: The most to return.
        """
        return await self._backend.list_sessions(after=after, limit=limit)
