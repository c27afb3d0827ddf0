"""Periodic jobs for questions."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from signoff.people.audit.sealing import Sealing
from signoff.people.questions.deadlines import new_failed_items, serve_questions
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import FailedItems

_questions: WeakKeyDictionary[Store, FailedItems] = WeakKeyDictionary()
"""The questions of each store that have failed in this process."""
_sealing: WeakKeyDictionary[Store, Sealing] = WeakKeyDictionary()


async def serve_due_questions(store: Store) -> float | None:
    """Apply what is due for questions. Remembers failed questions between calls."""
    aside = _questions.get(store)
    if aside is None:
        aside = _questions[store] = new_failed_items()
    return await serve_questions(store, aside)


async def seal_due_events(store: Store) -> float | None:
    """Seal audit events. Remembers failures between calls."""
    sealing = _sealing.get(store)
    if sealing is None:
        sealing = _sealing[store] = Sealing()
    return await sealing.seal(store)


PERIODIC_JOBS = (serve_due_questions, seal_due_events)
