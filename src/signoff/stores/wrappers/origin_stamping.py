"""A store that states of all that is done through it from where it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from signoff.records import Amendment, NewAuditEvent, Origin, Promise, PromiseKind, Rule, Run, Settlement
from signoff.stores.contract.retries import Retry
from signoff.stores.contract.snapshots import Saved
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.view import View

R = TypeVar("R", Settlement, NewAuditEvent)
T = TypeVar("T")


def origin_stamped(store: Store, origin: Origin) -> Store:
    """Return a store by which all that is done comes from there, unless it says itself from where.

    Of two such views of a store the one that was made later counts.

    Args:
        store: The store.
        origin: From where.

    Example::

        await answer(origin_stamped(store, Origin(OriginWay.LINK, link.id)), question_id, True, user_id="ana")
    """
    return cast("Store", OriginStampedStore(store, origin))


def without_origin(value: T) -> T:
    """Return what is to be written without what it says of where it comes from."""
    if isinstance(value, Settlement | NewAuditEvent):
        return replace(value, origin=None)
    if isinstance(value, Amendment):
        events = tuple(map(without_origin, value.events))
        return replace(value, settlement=without_origin(value.settlement), events=events)
    if isinstance(value, list):
        return cast("T", [without_origin(each) for each in cast("list[Any]", value)])
    return value


class OriginStampedStore(View):
    """Passes every operation on, with where it comes from.

    Args:
        inner: A store.
        origin: From where.
    """

    def __init__(self, inner: Store, origin: Origin) -> None:
        super().__init__(inner)
        self._origin = origin

    def within(self, namespace: str) -> Store:
        return origin_stamped(self.inner.within(namespace), self._origin)

    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        return await self.inner.settle(promise_id, kind, self._from(settlement), token=token)

    async def amend(
        self, question_id: str, amendment: Amendment, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        settlement = None if amendment.settlement is None else self._from(amendment.settlement)
        events = tuple(map(self._from, amendment.events))
        made = replace(amendment, settlement=settlement, events=events)
        return await self.inner.amend(question_id, made, token=token)

    async def record(self, events: Sequence[NewAuditEvent]) -> None:
        await self.inner.record([self._from(event) for event in events])

    async def revoke_rule(self, rule_id: str, event: NewAuditEvent) -> Rule:
        return await self.inner.revoke_rule(rule_id, self._from(event))

    async def retry(
        self,
        run_id: str,
        *,
        how: Retry | None = None,
        event: NewAuditEvent | None = None,
        token: str | None = None,
    ) -> Run:
        stated_event = None if event is None else self._from(event)
        return await self.inner.retry(run_id, how=how, event=stated_event, token=token)

    async def suspend(self, run_id: str, event: NewAuditEvent, **more: Any) -> Run:
        return await self.inner.suspend(run_id, self._from(event), **more)

    async def resume(self, run_id: str, event: NewAuditEvent) -> Run:
        return await self.inner.resume(run_id, self._from(event))

    async def terminate(self, run_id: str, event: NewAuditEvent, **more: Any) -> Run:
        return await self.inner.terminate(run_id, self._from(event), **more)

    async def load_run(self, saved: Saved, event: NewAuditEvent) -> Run:
        return await self.inner.load_run(saved, self._from(event))

    def _from(self, record: R) -> R:
        return record if record.origin is not None else replace(record, origin=self._origin)
