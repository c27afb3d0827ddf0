"""What processes do for questions when time has come."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from signoff.people.audit import seal_events
from signoff.people.decisions import new_set_aside, serve_questions
from signoff.stores.base import Store
from signoff.stores.set_aside import SetAside

_asides: WeakKeyDictionary[Store, SetAside] = WeakKeyDictionary()
"""Which questions of each store have failed in this process."""


async def serve_due_questions(store: Store) -> float | None:
    """Serve questions, and remember those that failed from one time to the next."""
    return await serve_questions(store, _asides.setdefault(store, new_set_aside()))


DUTIES = (serve_due_questions, seal_events)
