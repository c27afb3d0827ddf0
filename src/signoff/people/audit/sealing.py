"""Seals audit events into their namespaces' chains. Any number of processes may do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from signoff.people.audit.hash_chain import GENESIS, hash_of
from signoff.records import AuditEvent, Seal
from signoff.records.failed_items import Unreadable
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import FailedItems, raise_outage
from signoff.stores.shared.failure_isolation import ItemFailed
from signoff.stores.shared.listed_payloads import may_be_cut

log = own_logger("signoff.people")

_List = Callable[[], Awaitable[Sequence[AuditEvent | Unreadable]]]

AT_ONCE: Final = 500
IN_A_ROW: Final = 3
"""After this many consecutive failures a namespace's whole chain is set aside."""


class Sealing:
    """Seals events, and remembers which events, and which namespaces, have failed.

    An event that cannot be sealed waits outside the chain, and the events after it are sealed.
    """

    def __init__(self) -> None:
        self._events = FailedItems("audit event", log)
        self._chains = FailedItems("audit chain", log)

    async def seal(self, store: Store) -> float | None:
        """Seal events of all namespaces, up to a page.

        Returns:
            The current time in unix seconds, if more events are ready; else None: the next ones cannot be predicted.
        """
        now = store.clock.now()
        waiting = {namespace for namespace, _ in self._chains.waiting(now)}
        aside = set(self._events.waiting(now))
        limit = AT_ONCE + len(self._events)
        passed: set[str] = set()
        while True:
            relist = partial(store.unsealed, limit, besides=sorted(waiting | passed))
            found = await relist()
            ready = sorted(
                (each for each in found if (each.namespace, each.id) not in aside),
                key=lambda each: each.namespace,
            )
            if ready or not may_be_cut(found, limit):
                break
            passed |= {each.namespace for each in found}  # events that are set aside fill the page
        if not may_be_cut(found, limit):
            unseen = waiting | passed
            self._events.keep_only([*((each.namespace, each.id) for each in found), *self._events_of(unseen)])
            self._chains.keep_only(
                [
                    *((each.namespace, "") for each in self._chains.items if each.namespace in unseen),
                    *((each.namespace, "") for each in found),
                ]
            )
        progress = [
            await self._seal_of(store, namespace, list(events), relist)
            for namespace, events in groupby(ready, key=lambda each: each.namespace)
        ]
        return store.clock.now() if may_be_cut(found, limit) and any(progress) else None

    def _events_of(self, namespaces: set[str]) -> list[tuple[str, str]]:
        return [(each.namespace, each.id) for each in self._events.items if each.namespace in namespaces]

    async def _seal_of(
        self, store: Store, namespace: str, events: list[AuditEvent | Unreadable], relist: _List
    ) -> bool:
        """Seal events of one namespace. Returns whether something was sealed, or set aside."""
        within = store.within(namespace)
        readable: list[AuditEvent] = []
        for event in events:
            if isinstance(event, Unreadable):
                self._note(store, self._events, (namespace, event.id), ItemFailed(event.reason))
            else:
                readable.append(event)
        try:
            if readable and not await _seal(within, readable) and not await _is_overtaken(readable, relist):
                await self._seal_each(within, readable)
            self._chains.forget((namespace, ""))
        except Exception as error:
            await raise_outage(store, error)
            await self._seal_each(within, readable)
        return True

    async def _seal_each(self, store: Store, events: Sequence[AuditEvent]) -> None:
        """Seal events one by one; those that fail are set aside."""
        in_a_row = 0
        for event in events:
            key = event.namespace, event.id
            try:
                if not await _seal(store, [event]):
                    raise ItemFailed("the chain refuses it: it is already sealed, or cannot be sealed")
            except Exception as error:
                await raise_outage(store, error)
                self._note(store, self._events, key, error)
                in_a_row += 1
                if in_a_row == IN_A_ROW:
                    self._note(store, self._chains, (event.namespace, ""), error)
                    return
            else:
                self._events.forget(key)
                in_a_row = 0

    @staticmethod
    def _note(store: Store, aside: FailedItems, key: tuple[str, str], error: Exception) -> None:
        aside.note(store.location, key, error, store.clock.now())


async def seal_events(store: Store, sealing: Sealing | None = None) -> float | None:
    """Seal recorded events into their namespaces' chains.

    Args:
        store: The store.
        sealing: Earlier failures; None: none.

    Returns:
        The current time in unix seconds, if more events are ready; else None: the next ones cannot be predicted.
    """
    return await (Sealing() if sealing is None else sealing).seal(store)


async def _seal(store: Store, events: Sequence[AuditEvent]) -> bool:
    """Seal events. Returns False if the chain refused them although no other process has extended it."""
    head = await _head(store)
    seq, hash = head
    seals: list[Seal] = []
    for event in events:
        seq, hash = seq + 1, hash_of(hash, event)
        seals.append(Seal(seq, event.id, hash))
    return await store.seal(seals) or await _head(store) != head


async def _is_overtaken(events: Sequence[AuditEvent], relist: _List) -> bool:
    """Whether another process has sealed some of these events since they were listed. The next look finds the rest."""
    return not {(each.namespace, each.id) for each in events} <= {
        (each.namespace, each.id) for each in await relist()
    }


async def _head(store: Store) -> tuple[int, str]:
    last = await store.last_seal()
    return (-1, GENESIS) if last is None else (last.seq, last.hash)
