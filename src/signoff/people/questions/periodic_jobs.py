"""Periodic jobs for questions."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from signoff.people.audit.sealing import Sealing
from signoff.people.questions.changes import new_set_aside, serve_questions
from signoff.stores.contract.store import Store
from signoff.stores.shared.set_aside_items import SetAside

_questions: WeakKeyDictionary[Store, SetAside] = WeakKeyDictionary()
"""Which questions of each store have failed in this process."""
_sealing: WeakKeyDictionary[Store, Sealing] = WeakKeyDictionary()


async def serve_due_questions(store: Store) -> float | None:
    """Serve questions, and remember those that failed from one time to the next."""
    aside = _questions.get(store)
    if aside is None:
        aside = _questions[store] = new_set_aside()
    return await serve_questions(store, aside)


async def seal_due_events(store: Store) -> float | None:
    """Seal audit events, and remember those that failed from one time to the next."""
    sealing = _sealing.get(store)
    if sealing is None:
        sealing = _sealing[store] = Sealing()
    return await sealing.seal(store)


DUTIES = (serve_due_questions, seal_due_events)
