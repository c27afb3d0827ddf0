"""Processes batches in one transaction, or one by one while items fail, so that these block no others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from signoff.errors import StoreError
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import FULL_SECONDS, FailedItems, Key, raise_outage

T = TypeVar("T")

AT_ONCE: Final = 200
"""Items of each job per transaction when they are processed one by one."""

ROW_UNCHANGED: Final = "the database has left its row as it was"
"""Error of a row that a trigger leaves unchanged without an error."""

Skipped = Mapping[str, Sequence[Key]]
"""The items to skip, by job."""


BUSY_SECONDS: Final = 1.0
"""How long an item is skipped whose row another transaction has locked."""


class ItemFailed(StoreError):
    """The database refused one item."""


class LeftUndone(StoreError):
    """A batch did not process all its items: a trigger left their rows unchanged, or other transactions locked them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that failed."""

    job: str
    key: Key
    error: Exception


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The result of processing items one by one.

    Attributes:
        result: The result that the batch would have had.
        failures: The items that failed. They were not changed.
        is_all: Whether all due items were tried; else there are more.
        busy: The items locked by other transactions, by job.
    """

    result: T
    failures: Sequence[Failure]
    is_all: bool
    busy: Sequence[tuple[str, Key]] = ()


class IsolatedBatches:
    """Processes batches, and remembers the items that have failed.

    Args:
        jobs: The names of the jobs in a batch, such as ``timer``.
        log: Logger for failures.
    """

    def __init__(
        self, jobs: Iterable[str], log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    ) -> None:
        self._log = log
        self._asides = {job: FailedItems(job, log) for job in jobs}
        self._busy: dict[tuple[str, Key], float] = {}  # until when each is skipped

    async def do(
        self,
        store: Store,
        at_once: Callable[[], Awaitable[T]],
        each: Callable[[Skipped], Awaitable[Done[T]]],
        *,
        namespace: str | None = None,
    ) -> T:
        """Process a batch at once; one by one if that failed or left some undone, or if items are set aside.

        Args:
            store: The items' store.
            at_once: Processes the batch in one transaction.
            each: Processes the items one by one, without those to skip.
            namespace: The batch's only namespace; None: all.

        Raises:
            StoreUnavailable: The store accepts no writes at all, so no item is at fault.
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
        """Return the time of the next batch, in unix seconds; None: unknown.

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
        """Return the busy items with the times until which to skip them, bounded in case the clock was set back."""
        return {item: at for item, at in self._busy.items() if now < at <= now + BUSY_SECONDS}


def earliest(*times: float | None) -> float | None:
    """Return the earliest of the times that are not None; None if all are."""
    return min((time for time in times if time is not None), default=None)
