"""What the contract of a store has for sessions: ordered chains of runs, of which one at most is active at a time.

A session begins with the first run that ``create_run`` puts into it. Its runs have positions from 1, without holes, in
the order of their creation. The first one that has not ended has the *turn*; a run that failed retryably keeps it until
it is retried and ends, or is cancelled. Those behind it are ``paused`` in epoch 0, without a ``wake_at``: a message for
one is kept and counted, ``cancel`` ends it at once, and nothing but the turn makes it ready.

Whatever ends the run that has the turn gives it to the next in the same transaction: that becomes ready, or, if its
``start_at`` is in the future, delayed. From then on it is a run like any other: groups, rates, priorities and
concurrency keys hold of it. Positions are never used again, also when the runs were deleted.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from signoff.records import Session
from signoff.records.paging import Page
from signoff.stores.contract.operations import reads


class SessionStore:
    """The part of ``stores.contract.store.Store`` that shows sessions. Their runs are listed by ``list_runs``."""

    @reads
    async def get_session(self, session_id: str) -> Session:
        """Raises NotFound: no run was ever started in it."""

    @reads
    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        """The one in which a run was started last comes first. ``after`` is a former page's ``next``.

        One in which a run is started while pages are read moves to the first page.
        """
