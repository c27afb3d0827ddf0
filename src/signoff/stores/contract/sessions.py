"""The session operations of the store contract. A session is an ordered chain of runs, at most one of which is active.

A session begins with the first run that ``create_run`` puts into it. Its runs have positions from 1, without gaps, in
the order of their creation. The first one that has not ended has the *turn*; a run that failed retryably keeps it until
it is retried and ends, or is cancelled. Those behind it are ``paused`` in epoch 0, without a ``wake_at``: a message for
one is kept and counted, ``cancel`` ends it at once, and only getting the turn makes it ready.

When the run that has the turn ends, the same transaction gives the turn to the next one, which becomes ready, or
delayed if its ``start_at`` is in the future. From then on it is a run like any other: groups, rates, priorities and
concurrency keys apply to it. Positions are never reused, even if the runs were deleted.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from signoff.records import Session
from signoff.records.paging import Page
from signoff.stores.contract.operations import reads


class SessionStore:
    """The part of ``stores.contract.store.Store`` that reads sessions. Their runs are listed by ``list_runs``."""

    @reads
    async def get_session(self, session_id: str) -> Session:
        """Raises NotFound: no run was ever started in it."""

    @reads
    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        """Most recently started run first. ``after`` is an earlier page's ``next``.

        A session in which a run starts while pages are read moves to the first page.
        """
