"""The operations on sessions: ordered chains of runs, of which at most one is active at a time.

A session begins with the first run that ``create_run`` puts into it. Its runs have positions from 1, without holes, in
the order of their creation. The first run that has not ended has the *turn*. A run that failed retryably keeps it until
it is retried and ends, or is cancelled. The runs behind it are ``paused`` in epoch 0, without a ``wake_at``: their
messages are kept and counted, ``cancel`` ends them at once, and only the turn makes them ready.

The operation that ends the run with the turn gives the turn to the next run in the same transaction. That run becomes
ready, or, if its ``start_at`` is in the future, delayed. From then on it is subject to groups, rates, priorities and
concurrency keys like any run. Positions are never reused, even after their runs are deleted.
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
        """Return a session. Raises NotFound if no run was ever started in it."""

    @reads
    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        """List sessions by their latest start of a run, latest first. ``after`` is the ``next`` of the previous page.

        A session in which a run starts while pages are read moves to the first page.
        """
