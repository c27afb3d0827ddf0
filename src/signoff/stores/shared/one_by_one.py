"""Batches of items done in one transaction; item by item while some of them fail, so that these stop no other."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from signoff.errors import StoreError
from signoff.stores.contract.store import Store
from signoff.stores.shared.set_aside_items import FULL_SECONDS, Key, SetAside, raise_outage

T = TypeVar("T")

AT_ONCE: Final = 200
"""Items of each job in one transaction when they are done one by one."""

LEFT_AS_IT_WAS: Final = "the database has left its row as it was"
"""Of a row that a trigger keeps from being changed, without an error."""

Skipped = Mapping[str, Sequence[Key]]
"""The items to pass over, by job."""


BUSY_SECONDS: Final = 1.0
"""How long an item is left alone whose row another transaction has locked."""


class ItemFailed(StoreError):
    """The database refused one item."""


class LeftUndone(StoreError):
    """A batch left items as they were that it was to do: a trigger kept their rows, or others have locked them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that could not be done."""

    job: str
    key: Key
    error: Exception


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """What came of items that were done one by one.

    Attributes:
        result: What the batch would have returned.
        failures: The items that failed. Nothing of them was written.
        is_all: Whether all that was to be done was tried; else there are more.
        busy: The items that other transactions have locked, by job.
    """

    result: T
    failures: Sequence[Failure]
    is_all: bool
    busy: Sequence[tuple[str, Key]] = ()


class OneByOne:
    """Does batches, and remembers which items of them have failed.

    Args:
        jobs: The names of the jobs that a batch has items of, such as ``timer``.
        log: Where failures are logged.
    """

    def __init__(
        self, jobs: Iterable[str], log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    ) -> None:
        self._log = log
        self._asides = {job: SetAside(job, log) for job in jobs}
        self._busy: dict[tuple[str, Key], float] = {}  # until when each is left alone

    async def do(
        self,
        store: Store,
        at_once: Callable[[], Awaitable[T]],
        each: Callable[[Skipped], Awaitable[Done[T]]],
        *,
        namespace: str | None = None,
    ) -> T:
        """Do a batch: at once, or one by one if that failed or left some undone, or if items of it are set aside.

        Args:
            store: Where the items are.
            at_once: Does the batch in one transaction.
            each: Does its items one by one, but for those to pass over.
            namespace: The only one that the batch is about; None: it is about all.

        Raises:
            StoreUnavailable: The store takes no writes at all: no item is at fault.
        """
        failed: Exception | None = None

        def is_ours(key: Key) -> bool:
            return namespace is None or key[0] == namespace

        if not any(is_ours((item.namespace, "")) for aside in self._asides.values() for item in aside.items):
            try:
                return await at_once()
            except Exception as error:
                await raise_outage(store, error)
                failed = error
        now = store.clock.now()
        skipped = {job: list(filter(is_ours, aside.waiting(now))) for job, aside in self._asides.items()}
        self._busy = self._still_busy(now)
        for job, key in self._busy:
            if is_ours(key):
                skipped[job].append(key)
        done = await each(skipped)
        self._busy.update(dict.fromkeys(done.busy, now + BUSY_SECONDS))
        if failed is not None and not done.failures and not isinstance(failed, LeftUndone):
            self._log.warning("a batch failed, but none of its items did: %s", failed)
        for job, aside in self._asides.items():
            failures = [failure for failure in done.failures if failure.job == job]
            if done.is_all:
                others = [key for item in aside.items if not is_ours(key := (item.namespace, item.id))]
                aside.keep_only([*others, *skipped[job], *(failure.key for failure in failures)])
            for failure in failures:
                aside.note(store.location, failure.key, failure.error, now)
        return done.result

    def next_at(self, next_at: float | None, now: float) -> float | None:
        """Return when to do the next batch, in unix seconds; None: it is not known.

        Args:
            next_at: When the next item is due that is not set aside.
            now: The store's time.
        """
        found = earliest(next_at, self._next_try(now))
        if found is not None and any(aside.is_full for aside in self._asides.values()):
            return max(found, now + FULL_SECONDS)
        return found

    def _next_try(self, now: float) -> float | None:
        busy = self._still_busy(now)
        tries = (
            aside.next_try(now, {key for of, key in busy if of == job}) for job, aside in self._asides.items()
        )
        return earliest(*busy.values(), *tries)

    def _still_busy(self, now: float) -> dict[tuple[str, Key], float]:
        """Return the items to leave alone, each until its time; no longer than that if the clock was set back."""
        return {item: at for item, at in self._busy.items() if now < at <= now + BUSY_SECONDS}


def earliest(*times: float | None) -> float | None:
    """Return the earliest of the times that are not None; None if all are."""
    return min((time for time in times if time is not None), default=None)
