"""An open Postgres database, which the stores of several namespaces share."""

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
from signoff.stores.shared.claims import Claims
from signoff.stores.shared.deferred_changes import DeferredChanges, Made, Times
from signoff.stores.shared.listeners import Listeners
from signoff.stores.shared.one_by_one import LEFT_AS_IT_WAS, Done, LeftUndone, OneByOne, Skipped, earliest
from signoff.stores.shared.outages import OUTAGE_SECONDS, Outages, is_absence
from signoff.stores.shared.reader_pool import Readers
from signoff.stores.shared.touched_runs import TouchedRuns
from signoff.stores.shared.write_checks import WriteCheck

T = TypeVar("T")

log = own_logger("signoff.store")

LONG_AGO = -1e12  # unix seconds: no lease has run out by then
TAKES_NO_WRITES = ("25006", "53100")  # it is read-only, such as a standby, or its disk is full
TELL_AFTER_SECONDS = 6.0  # of waiting for a server that is gone


class Database:
    """A writer, a notifier, and readers for the rest.

    Args:
        address: ``postgresql://user:password@host:port/database``, with any options of libpq.
        clock: Business time, instead of the database's.
        lease_clock: The time leases are measured by, instead of the database's.
        patience_seconds: How long operations wait for a server that is gone before they raise StoreUnavailable.
        readers: How many connections read, extend leases and look for what is due.
        listen_address: Where to LISTEN, if ``address`` is a pooler; the empty string does not listen.
        inline_below_seconds: Send single operations from the event loop while replies take less; 0 never does.
        migrates: Whether opening brings the schema up to date; else one that is not is refused.

    Attributes:
        options: How to connect, with the database's secrets.
        listen_options: How to connect to listen; None if it does not listen.
        location: Where it is, without its secrets.
        clock: Business time.
        listeners: Whom ``tell`` tells.
        due_aside: Does what is due, and remembers which items failed.
        prune_aside: Deletes ended runs, and remembers which failed.
        claims: Claims runs, and remembers which failed.
        deferred: Makes deferred changes, and remembers which failed.
        deferred_times: When deferred changes are to be tried, as of the last look for what is due; None: none is.
        outages: When it could not be reached.
        lookups: Looks runs up.
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
        self.trouble: str | None = None  # why readers try again now
        self.write_check = WriteCheck(self.location, lambda: self.trouble)
        self.listeners = Listeners()
        self.due_aside = OneByOne(leases.JOBS, log)
        self.prune_aside = OneByOne([retention.JOB], log)
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
        self.clock.on_jump(self.listeners.tell_jump)
        forks.in_child(self)

    def forked(self) -> None:
        """Have the child connect anew."""
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
        """What commits. Raises StoreUnavailable if the database is not open."""
        if self._writer is None:
            raise StoreUnavailable(
                self.location, forks.NOT_REOPENED if self._was_forked else "it is not open"
            )
        return self._writer

    def now(self) -> float | None:
        """Return the business time; None if it is the database's."""
        return None if self._own_clock is None else self._own_clock.now()

    def lease_now(self) -> float | None:
        """Return the time leases are measured by; None if it is the database's."""
        return None if self._lease_clock is None else self._lease_clock.now()

    def open(self, given_up: threading.Event) -> None:
        """Connect, and bring the schema up to date. Opening twice opens once.

        Args:
            given_up: Set when nobody waits for it any more: then it stops waiting for the server.

        Raises:
            StoreUnavailable: The server could not be reached for ``patience_seconds``.
            SchemaTooNew: A newer Signoff has migrated it.
            SchemaTooOld: It is an older one, and the database's role may not change it.
        """
        with self._opening:
            if self._writer is not None:
                return
            self._closing = False
            self._patiently(self._prepare, given_up)
            self._readers.open()
            if (listen_options := self.listen_options) is not None:
                self._notifier = Notifier(
                    lambda: psycopg.connect(listen_options, autocommit=True),
                    self.listeners,
                    self.location,
                )
                self._notifier.wait_until_listening(self._patience_seconds, given_up)
            link = Link(lambda: psycopg.connect(self.options, autocommit=True), prepares=not self._is_pooled)
            self._patiently(link.open, given_up)
            self._writer = Writer(
                link,
                location=self.location,
                clock=self._own_clock,
                lease_clock=self._lease_clock,
                patience_seconds=self._patience_seconds,
                inline_below_seconds=self._inline_below_seconds,
                committed=self.tell,
                doubted=self.listeners.tell_disturbance,
            )

    def close(self) -> None:
        """Finish what was begun and disconnect. Safe to call twice."""
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
        """Do something on a reader's thread and connection. It must be safe to do twice.

        Raises:
            StoreUnavailable: The database is not open, or has been gone for ``patience_seconds``.
        """
        self.writer.check_usable()
        return await self._readers.call(lambda: self._call_here(work))

    async def due(self, limit: int, lease_seconds: float) -> float | None:
        """Do what time has brought. The contract is in ``signoff.stores.contract.store.Store``, for all namespaces.

        Raises:
            LeftUndone: Some items were left as they were. The others are done.
        """
        asked_at = self.outages.now()
        sent_at = time.monotonic()
        reply = await self.call(
            lambda db: leases.due(db, self.now(), self._lease_time(db, lease_seconds, asked_at), limit)
        )
        next_at = self._took(reply, sent_at, lease_seconds)
        if not reply.is_all:
            raise LeftUndone(LEFT_AS_IT_WAS)
        return next_at

    async def due_each(self, limit: int, skipped: Skipped, lease_seconds: float) -> Done[float | None]:
        """Do what time has brought one by one, but for some items."""
        asked_at = self.outages.now()
        sent_at = time.monotonic()
        done = await self.call(
            lambda db: leases.due_each(
                db, self.now(), self._lease_time(db, lease_seconds, asked_at), limit, skipped
            )
        )
        next_at = self._took(done.result, sent_at, lease_seconds)
        return Done(next_at, done.failures, done.is_all, done.busy)

    def _lease_time(self, db: reads.Connection, lease_seconds: float, asked_at: float) -> leases.LeaseTime:
        """Return the time by which the leases have run out that may be freed, once runs can be written."""
        began_at = time.monotonic()
        self.deferred_times = leases.wait_for_locks(db)
        if time.monotonic() - began_at >= OUTAGE_SECONDS:
            self.outages.waiting(began_at)
        self.outages.reached()
        # A network that delivers this late has kept the holders from extending them too.
        follows_database = self._lease_clock is None and isinstance(self.clock, DatabaseClock)
        at_most = self.clock.now() if follows_database else None
        self.outages.hold_if_late(asked_at, lease_seconds)
        served = self.outages.take_served()
        if self.outages.held_for(lease_seconds) > 0:
            but_until = leases.hold(db, self.lease_now(), served, lease_seconds)
            return leases.LeaseTime(self.lease_now(), at_most=LONG_AGO if but_until is None else but_until)
        return leases.LeaseTime(self.lease_now(), at_most=at_most)

    def _took(self, reply: leases.Due, sent_at: float, lease_seconds: float) -> float | None:
        if isinstance(self.clock, DatabaseClock):
            ahead = self.clock.learn(sent_at, reply.now, time.monotonic())
            if is_absence(
                ahead, lease_seconds
            ):  # this machine was suspended, or the database's clock was set
                self.outages.hold()
        self.tell(reply.touched)
        held_for = self.outages.held_for(lease_seconds)
        return earliest(reply.next_at, self.clock.now() + held_for if held_for > 0 else None)

    async def make_deferred(self, store: Store) -> float | None:
        """Make deferred changes whose time has come, in every namespace. Returns when to make others."""
        found = self.deferred_times  # of the look for what is due just now

        async def times() -> Times | None:
            nonlocal found
            known, found = found, None
            return known or await self.call(leases.deferred_times)

        async def make_some() -> Made:
            now = self.now()
            made, touched = await self.call(lambda db: leases.make_deferred(db, now))
            self.tell(touched)
            return made

        async def list_failed(limit: int) -> Sequence[SetAsideItem]:
            return await self.call(lambda db: leases.list_failed_changes(db, limit))

        if found is None:
            return self.deferred.none_left(self.location)
        return await self.deferred.make(store, times, make_some, list_failed)

    async def release(self, worker_id: str, *, dead: bool, each: bool = False) -> int:
        """Take a worker off the register, and return how many runs became ready, at once or one by one."""
        now = self.now()
        release = leases.release_each if each else leases.release
        freed, touched = await self.call(lambda db: release(db, worker_id, now, dead=dead))
        self.tell(touched)
        return freed

    def tell(self, touched: TouchedRuns) -> None:
        """Tell this process, and then the others, what a commit touched."""
        if not touched:
            return
        self.listeners.tell(touched.change)
        notifier = self._notifier
        if notifier is not None:
            notifier.tell(touched)

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
        # A pooler gives each transaction another connection, which knows no prepared statements of ours.
        return psycopg.connect(
            self.options, autocommit=True, prepare_threshold=None if self._is_pooled else 5
        )

    def _call_here(self, work: Callable[[reads.Connection], T]) -> T:
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
                # A connection that was lost, and is made anew at once, is no outage.
                if code_of(error) in TAKES_NO_WRITES or time.monotonic() - began_at >= OUTAGE_SECONDS:
                    self._note_outage(error, began_at)
                if is_shared(error):
                    self._is_pooled = True
                if is_gone(error) or is_shared(error):
                    self._readers.disconnect()
                raise

        return self._patiently(once)

    def _note_outage(self, error: psycopg.Error, since: float) -> None:
        if is_gone(error) or code_of(error) in TAKES_NO_WRITES:
            self.outages.waiting(since)

    def _patiently(self, work: Callable[[], T], given_up: threading.Event | None = None) -> T:
        """Do something, and again while the server is gone or another transaction won."""
        began_at = time.monotonic()
        pause = RETRY_SOON
        has_told = False
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
                if waited > TELL_AFTER_SECONDS and not has_told:
                    has_told = True
                    log.warning("store %s is not available, still trying: %s", self.location, said)
            time.sleep(pause)
            pause = min(pause * 2, RETRY_LATER)
