"""Sessions from outside: which there are, and whose turn it is in each."""

from __future__ import annotations

from typing import Protocol

from signoff.records import Session
from signoff.records.paging import Page


class SessionBackend(Protocol):
    """What it talks to: a store in this process, or a server."""

    async def get_session(self, session_id: str) -> Session: ...
    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]: ...


class AsyncSessions:
    """Sessions by their ids. One begins with the first run that is started in it.

    Example::

        await client.start("turn", "hello", session_id="c-1")
        await client.start("turn", "and then?", session_id="c-1")  # waits for the first
        session = await client.sessions.get("c-1")
        print(session.active_run_id, (await client.list(session_id="c-1")).items)
    """

    def __init__(self, backend: SessionBackend) -> None:
        self._backend = backend

    async def get(self, session_id: str) -> Session:
        """Return a session. Its runs are listed by ``client.list(session_id=...)``.

        Raises:
            NotFound: No run was ever started in it.
        """
        return await self._backend.get_session(session_id)

    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        """List sessions; the one in which a run was started last comes first.

        Args:
            after: A former page's ``next``.
            limit: How many at most.
        """
        return await self._backend.list_sessions(after=after, limit=limit)
