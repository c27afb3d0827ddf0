"""An open Postgres database, shared by the stores of several namespaces."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import psycopg

from signoff.errors import InvalidValue, StoreUnavailable
from signoff.records import Run
from signoff.records.failed_items import SetAsideItem
from signoff.runtime import forks
from signoff.runtime.clock import Clock
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.postgres import leases, reads, retention
from signoff.stores.postgres.clock import DatabaseClock
from signoff.stores.postgres.notifier import Notifier
from signoff.stores.postgres.pipelined_connection import Link
from signoff.stores.postgres.run_lookups import Lookups
from signoff.stores.postgres.schema import (
    code_of,
    connection_options,
    is_conflict,
    is_gone,
    is_shared,
    location_of,
    migrate,
    require_current,
    translate,
)
from signoff.stores.postgres.writer import RETRY_LATER, RETRY_SOON, Writer
from signoff.stores.shared import settled_promises
from signoff.stores.shared.claims import Claims
from signoff.stores.shared.deferred_changes import DeferredChanges, Made, Times
from signoff.stores.shared.failure_isolation import (
    ROW_UNCHANGED,
    Done,
    IsolatedBatches,
    LeftUndone,
    Skipped,
    earliest,
)
from signoff.stores.shared.listeners import Listeners
from signoff.stores.shared.outages import OUTAGE_SECONDS, Outages, is_absence
from signoff.stores.shared.reader_pool import Readers
from signoff.stores.shared.touched_runs import TouchedRuns
from signoff.stores.shared.write_checks import WriteCheck

T = TypeVar("T")

log = own_logger("signoff.store")

LONG_AGO = -1e12  # unix seconds: before any lease expired
TAKES_NO_WRITES = ("25006", "53100")  # read-only, such as a standby; or the disk is full
LOG_AFTER_SECONDS = 6.0  # of waiting for an unavailable server


class Database:
    """One writing connection, one that listens, and a pool of readers for everything else.

    Args:
        address: ``postgresql://user:password@host:port/database``, with any libpq options.
        clock: Business time; None uses the database's clock.
        lease_clock: Lease time; None uses the database's clock.
        patience_seconds: How long operations wait for an unavailable server before they raise StoreUnavailable.
        readers: Number of connections that read, extend leases and process due work.
        listen_address: Where to LISTEN if ``address`` is a pooler; the empty string disables listening.
        inline_below_seconds: Send single operations from the event loop while replies take less; 0 disables this.
        migrates: Whether opening migrates the schema; otherwise opening an outdated schema fails.

    Attributes:
        options: The connection string, with credentials.
        listen_options: The connection string of the listener; None if listening is disabled.
        location: The address without credentials, for messages.
        clock: Business time.
        listeners: Callbacks of this process, which ``notify`` calls.
        due_aside: Fires due deadlines and timers, and sets aside failed items.
        prune_aside: Deletes ended runs, and sets aside those that fail.
        settled_aside: The same for settled promises without a run.
        claims: Claims runs, and sets aside those that fail.
        deferred: Applies deferred changes, and sets aside those that fail.
        deferred_times: When to try deferred changes, as of the last call of ``due``; None if there are none.
        outages: When the database could not be reached.
        lookups: Batches lookups of runs.
    """

    def __init__(
        self,
        address: str,
        *,
        clock: Clock | None,
        lease_clock: Clock | None,
        patience_seconds: float,
        readers: int,
        listen_address: str | None,
        inline_below_seconds: float,
        migrates: bool,
    ) -> None:
        self._migrates = migrates
        self.options = connection_options(address)
        self.location = location_of(address)
        self.trouble: str | None = None  # why readers are retrying at the moment
        self.write_check = WriteCheck(self.location, lambda: self.trouble)
        self.listeners = Listeners()
        self.due_aside = IsolatedBatches(leases.JOBS, log)
        self.prune_aside = IsolatedBatches([retention.JOB], log)
        self.settled_aside = IsolatedBatches([settled_promises.JOB], log)
        self.claims = Claims(log)
        self.deferred = DeferredChanges(log)
        self.deferred_times: Times | None = None
        self.outages = Outages()
        self.clock: Clock = clock or DatabaseClock()
        self.listen_options = None if listen_address == "" else connection_options(listen_address or address)
        self._is_pooled = listen_address is not None
        self._own_clock = clock
        self._lease_clock = lease_clock
        self._patience_seconds = patience_seconds
        self._readers = Readers(
            readers, name="signoff-postgres-reader", location=self.location, connect=self._connect_to_read
        )
        self._inline_below_seconds = inline_below_seconds
        self.lookups = Lookups(self._get_runs)
        self._writer: Writer | None = None
        self._notifier: Notifier | None = None
        self._opening = threading.Lock()
        self._closing = False
        self._was_forked = False
        self.clock.on_jump(self.listeners.notify_jump)
        forks.in_child(self)

    def forked(self) -> None:
        """Reset a forked child, so that it opens connections of its own."""
        forks.keep(self._writer, self._notifier, *self._readers.inherited())
        self._was_forked = self._writer is not None or self._was_forked
        self._writer = self._notifier = None
        self._closing = False
        self._opening = threading.Lock()
        self.lookups = Lookups(self._get_runs)
        self.listeners.forget()
        if isinstance(self.clock, DatabaseClock):
            self.clock.forked()

    @property
    def writer(self) -> Writer:
        """The writer. Raises StoreUnavailable if the database is not open."""
        if self._writer is None:
            raise StoreUnavailable(
                self.location, forks.NOT_REOPENED if self._was_forked else "it is not open"
            )
        return self._writer

    def now(self) -> float | None:
        """Return the business time; None to use the database's clock."""
        return None if self._own_clock is None else self._own_clock.now()

    def lease_now(self) -> float | None:
        """Return the lease time; None to use the database's clock."""
        return None if self._lease_clock is None else self._lease_clock.now()

    def open(self, given_up: threading.Event) -> None:
        """Connect, and migrate the schema if need be. Does nothing if the database is open.

        Args:
            given_up: Set when the caller has stopped waiting; this method then stops waiting for the server.

        Raises:
            StoreUnavailable: The server was unreachable for ``patience_seconds``.
            SchemaTooNew: A newer version of Signoff has migrated the schema.
            SchemaTooOld: The schema is outdated, and migrating is disabled or the role may not do it.
        """
        with self._opening:
            if self._writer is not None:
                return
            self._closing = False
            self._with_retries(self._prepare, given_up)
            self._readers.open()
            if (listen_options := self.listen_options) is not None:
                self._notifier = Notifier(
                    lambda: psycopg.connect(listen_options, autocommit=True),
                    self.listeners,
                    self.location,
                )
                self._notifier.wait_until_listening(self._patience_seconds, given_up)
            link = Link(lambda: psycopg.connect(self.options, autocommit=True), prepares=not self._is_pooled)
            self._with_retries(link.open, given_up)
            self._writer = Writer(
                link,
                location=self.location,
                clock=self._own_clock,
                lease_clock=self._lease_clock,
                patience_seconds=self._patience_seconds,
                inline_below_seconds=self._inline_below_seconds,
                committed=self.notify,
                reply_lost=self.listeners.notify_disturbance,
            )

    def close(self) -> None:
        """Finish pending operations and disconnect. Safe to call twice."""
        with self._opening:
            writer, self._writer = self._writer, None
            notifier, self._notifier = self._notifier, None
            if writer is not None:
                writer.close()
            self._closing = True
            self._readers.close()
            if notifier is not None:
                notifier.close()

    async def call(self, work: Callable[[reads.Connection], T]) -> T:
        """Run ``work`` on a reader's thread and connection. It must be safe to run twice.

        Raises:
            StoreUnavailable: The database is not open, or was unavailable for ``patience_seconds``.
        """
        self.writer.check_usable()
        return await self._readers.call(lambda: self._call_on_thread(work))

    async def due(self, limit: int, lease_seconds: float) -> float | None:
        """Fire due deadlines and timers in all namespaces; free expired leases. See ``Store.due`` for the contract.

        Raises:
            LeftUndone: The database did not change the rows of some items. The others are done.
        """
        asked_at = self.outages.now()
        sent_at = time.monotonic()
        reply = await self.call(
            lambda db: leases.due(db, self.now(), self._lease_time(db, lease_seconds, asked_at), limit)
        )
        next_at = self._processed(reply, sent_at, lease_seconds)
        if not reply.is_all:
            raise LeftUndone(ROW_UNCHANGED)
        return next_at

    async def due_each(self, limit: int, skipped: Skipped, lease_seconds: float) -> Done[float | None]:
        """Like ``due``, but one item at a time, except for ``skipped`` items."""
        asked_at = self.outages.now()
        sent_at = time.monotonic()
        done = await self.call(
            lambda db: leases.due_each(
                db, self.now(), self._lease_time(db, lease_seconds, asked_at), limit, skipped
            )
        )
        next_at = self._processed(done.result, sent_at, lease_seconds)
        return Done(next_at, done.failures, done.is_all, done.busy)

    def _lease_time(self, db: reads.Connection, lease_seconds: float, asked_at: float) -> leases.LeaseTime:
        """Wait until runs can be written, and return the expiry time up to which leases may be freed."""
        began_at = time.monotonic()
        self.deferred_times = leases.wait_for_locks(db)
        if time.monotonic() - began_at >= OUTAGE_SECONDS:
            self.outages.waiting(began_at)
        self.outages.reached()
        # If the network is this slow, the holders could not extend their leases either.
        follows_database = self._lease_clock is None and isinstance(self.clock, DatabaseClock)
        at_most = self.clock.now() if follows_database else None
        self.outages.hold_if_late(asked_at, lease_seconds)
        served = self.outages.take_served()
        if self.outages.held_for(lease_seconds) > 0:
            but_until = leases.hold(db, self.lease_now(), served, lease_seconds)
            return leases.LeaseTime(self.lease_now(), at_most=LONG_AGO if but_until is None else but_until)
        return leases.LeaseTime(self.lease_now(), at_most=at_most)

    def _processed(self, reply: leases.Due, sent_at: float, lease_seconds: float) -> float | None:
        if isinstance(self.clock, DatabaseClock):
            ahead = self.clock.learn(sent_at, reply.now, time.monotonic())
            if is_absence(
                ahead, lease_seconds
            ):  # this machine was suspended, or the database's clock was changed
                self.outages.hold()
        self.notify(reply.touched)
        held_for = self.outages.held_for(lease_seconds)
        return earliest(reply.next_at, self.clock.now() + held_for if held_for > 0 else None)

    async def make_deferred(self, store: Store) -> float | None:
        """Apply due deferred changes in all namespaces. Returns when the next ones are due."""
        found = self.deferred_times  # read by ``due`` just before

        async def times() -> Times | None:
            nonlocal found
            known, found = found, None
            return known or await self.call(leases.deferred_times)

        async def make_some() -> Made:
            now = self.now()
            made, touched = await self.call(lambda db: leases.make_deferred(db, now))
            self.notify(touched)
            return made

        async def list_failed(limit: int) -> Sequence[SetAsideItem]:
            return await self.call(lambda db: leases.list_failed_changes(db, limit))

        if found is None:
            return self.deferred.none_left(self.location)
        return await self.deferred.make(store, times, make_some, list_failed)

    async def release(self, worker_id: str, *, dead: bool, each: bool = False) -> int:
        """Unregister a worker and make its runs ready, all at once or one by one. Returns how many."""
        now = self.now()
        release = leases.release_each if each else leases.release
        freed, touched = await self.call(lambda db: release(db, worker_id, now, dead=dead))
        self.notify(touched)
        return freed

    def notify(self, touched: TouchedRuns) -> None:
        """Notify this process, then the others, of the runs that a commit touched."""
        if not touched:
            return
        self.listeners.notify(touched.change)
        notifier = self._notifier
        if notifier is not None:
            notifier.notify(touched)

    async def _get_runs(self, namespace: str, run_ids: Sequence[str]) -> dict[str, Run]:
        return await self.call(lambda db: reads.get_runs(db, namespace, run_ids))

    def _prepare(self) -> None:
        with psycopg.connect(self.options, autocommit=True) as connection:
            if self._migrates:
                migrate(connection, self.location)
            else:
                require_current(connection, self.location)
            if isinstance(self.clock, DatabaseClock):
                self.clock.ask(connection)

    def _connect_to_read(self) -> reads.Connection:
        # A transaction pooler may use another connection, which does not have our prepared statements.
        return psycopg.connect(
            self.options, autocommit=True, prepare_threshold=None if self._is_pooled else 5
        )

    def _call_on_thread(self, work: Callable[[reads.Connection], T]) -> T:
        began_at = time.monotonic()

        def once() -> T:
            try:
                connection = self._readers.connection()
            except psycopg.Error as error:
                self._note_outage(error, began_at)
                raise
            try:
                return work(connection)
            except psycopg.Error as error:
                # A lost connection that is re-established at once does not count as an outage.
                if code_of(error) in TAKES_NO_WRITES or time.monotonic() - began_at >= OUTAGE_SECONDS:
                    self._note_outage(error, began_at)
                if is_shared(error):
                    self._is_pooled = True
                if is_gone(error) or is_shared(error):
                    self._readers.disconnect()
                raise

        return self._with_retries(once)

    def _note_outage(self, error: psycopg.Error, since: float) -> None:
        if is_gone(error) or code_of(error) in TAKES_NO_WRITES:
            self.outages.waiting(since)

    def _with_retries(self, work: Callable[[], T], given_up: threading.Event | None = None) -> T:
        """Run ``work``, and retry it while the server is unavailable or after a conflict with another transaction."""
        began_at = time.monotonic()
        pause = RETRY_SOON
        was_logged = False
        while True:
            try:
                done = work()
                if self.trouble is not None:
                    self.trouble = None
                return done
            except UnicodeEncodeError as error:
                raise InvalidValue(
                    "id", f"{error.object!a:.100} has a lone surrogate, which is not valid Unicode"
                ) from None
            except psycopg.Error as error:
                may_come_back = is_gone(error) or is_conflict(error) or is_shared(error)
                waited = time.monotonic() - began_at
                is_over = self._closing or (given_up is not None and given_up.is_set())
                if not may_come_back or is_over or waited > self._patience_seconds:
                    raise translate(error, self.location) from error
                said = " ".join(str(error).split())
                if is_gone(error):
                    self.trouble = said
                if waited > LOG_AFTER_SECONDS and not was_logged:
                    was_logged = True
                    log.warning("store %s is not available, still trying: %s", self.location, said)
            time.sleep(pause)
            pause = min(pause * 2, RETRY_LATER)
