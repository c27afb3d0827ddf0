"""An open SQLite file, shared by the stores of all namespaces: one writer, some readers, the listeners."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from signoff.errors import InvalidValue, StoreUnavailable
from signoff.records import TokenKind
from signoff.runtime import forks
from signoff.runtime.clock import Clock
from signoff.runtime.loggers import own_logger
from signoff.stores.shared import settled_promises
from signoff.stores.shared.claims import Claims
from signoff.stores.shared.deferred_changes import DeferredChanges
from signoff.stores.shared.failure_isolation import IsolatedBatches
from signoff.stores.shared.group_commit import GroupCommit, Operation, resolve, resolve_here
from signoff.stores.shared.listeners import Listeners
from signoff.stores.shared.outages import Outages
from signoff.stores.shared.reader_pool import Gate, Readers
from signoff.stores.shared.write_checks import WriteCheck
from signoff.stores.sqlite import clock as host
from signoff.stores.sqlite import retention
from signoff.stores.sqlite import timers as overdue
from signoff.stores.sqlite.clock import FileClock, Watch
from signoff.stores.sqlite.open_files import network_file_system
from signoff.stores.sqlite.schema import connect, connect_to_read, path_of, prepare, translate
from signoff.stores.sqlite.transaction import Committer, Transaction
from signoff.stores.sqlite.writer import LOCKED, Writer

T = TypeVar("T")

log = own_logger("signoff.store")

READERS = 2
READS_AT_ONCE = 100  # small reads; the first of them waits for the last
READ_CLOCK_SECONDS = 1.0  # minimum interval between reads of the file's time


class SmallRead(Operation[T]):
    """A read of a few rows. The change to another thread costs more than the read itself."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        super().__init__()
        self.work = work


class DatabaseFile:
    """The open file shared by the views of all namespaces: one writer, some readers, the listeners.

    Attributes:
        absent_tokens: Kinds of which it has no valid tokens. A commit that may add some, by this process or another,
            replaces the set: take it before you read, and add to it afterwards.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        clock: Clock,
        lease_clock: Clock,
        busy_seconds: float,
        inline_below_seconds: float,
        host_clock: FileClock | None,
        lease_seconds: float,
    ) -> None:
        self.path = path_of(address)
        self.host_clock = host_clock
        self.watch: Watch | None = None
        self._lease_seconds = lease_seconds
        self._read_clock_at = 0.0
        self.location = f"sqlite:///{self.path}"
        self.listeners = Listeners()
        self._ready: set[str] = set()  # namespaces
        self.absent_tokens: set[TokenKind] = set()
        self.due_aside = IsolatedBatches(overdue.ITEMS, log)
        self.prune_aside = IsolatedBatches([retention.JOB], log)
        self.settled_aside = IsolatedBatches([settled_promises.JOB], log)
        self.claims = Claims(log)
        self.deferred = DeferredChanges(log)
        self.outages = Outages()
        self._clock = clock
        self._lease_clock = lease_clock
        self.busy_seconds = busy_seconds
        self.write_check = WriteCheck(self.location, self._locked)
        self._inline_below_seconds = inline_below_seconds
        self._writer: Writer | None = None
        self._readers = Readers(
            READERS,
            name="signoff-sqlite-reader",
            location=self.location,
            connect=lambda: connect_to_read(self.path, busy_seconds=self.busy_seconds),
        )
        self._small_reads = GroupCommit(self._begin_at_once, self._read_together)
        self._opening = threading.Lock()
        self._gate = Gate()
        self._is_held = False  # by a thread that forks
        self._is_disconnected = False
        self._was_forked = False
        self._is_tainted = False
        clock.on_jump(self.listeners.notify_jump)
        forks.around(self)
        forks.in_child(self)

    def _locked(self) -> str | None:
        return LOCKED if self.writer.locked_seconds else None

    @property
    def writer(self) -> Writer:
        if self._writer is None:
            raise StoreUnavailable(
                self.location, forks.NOT_REOPENED if self._was_forked else "it is not open"
            )
        return self._writer

    def open(self) -> None:
        with self._opening:
            if self._writer is not None:
                return
            if self._is_tainted:
                raise StoreUnavailable(
                    self.location,
                    "this process was forked while other threads of its parent used the file, and SQLite cannot use it "
                    "here. Fork before the store is opened, or use the start method 'spawn' or 'forkserver'",
                )
            prepare(self.path, self.location, busy_seconds=self.busy_seconds)
            if (network := network_file_system(self.path)) is not None:
                log.warning(
                    "store %s is on a network file system (%s), where SQLite's locks and shared memory do not work "
                    "between machines: more than one machine would damage the file. Use a local disk, or Postgres",
                    self.location,
                    network,
                )
            try:
                connection = self._connect()
                if self.host_clock is not None:
                    self.host_clock.use(host.begin(connection, self._lease_seconds))
                    self.watch = Watch(self.host_clock, self.location)
                committer = Committer(connection, self.path, self.location, self._clock, self._lease_clock)
            except sqlite3.Error as error:
                raise translate(error, self.location) from error
            except OSError as error:
                raise StoreUnavailable(self.location, str(error)) from error
            self._writer = Writer(
                committer,
                location=self.location,
                busy_seconds=self.busy_seconds,
                inline_below_seconds=self._inline_below_seconds,
                committed=self._notify_commit,
                disturbed=self._notify_disturbance,
                refresh=self._refresh_time,
                outages=self.outages,
            )
            self._readers.open()
            self._was_forked = False

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, busy_seconds=self.busy_seconds)

    # SQLite shares locks between all connections of a process. A forked child would inherit SQLite's records of them,
    # but not the locks. So no connection may be open when the process is forked.

    def before_fork(self) -> None:
        """Close all connections, if that is quick."""
        self._is_disconnected = False
        if not self._opening.acquire(timeout=forks.WAIT_SECONDS):
            return
        self._is_held = True
        if self._writer is None:
            self._is_disconnected = True
            return
        if not self._gate.shut(forks.WAIT_SECONDS):
            return
        self._readers.disconnect_all()
        self._is_disconnected = self._writer.disconnect(forks.WAIT_SECONDS)

    def after_fork(self) -> None:
        """Reopen them, in the parent."""
        if not self._is_held:
            return
        if self._writer is not None and self._is_disconnected:
            self._writer.reconnect(self._connect)
        self._gate.open()
        self._is_held = self._is_disconnected = False
        self._opening.release()

    def forked(self) -> None:
        """Reset a forked child, so that it opens the file itself."""
        forks.keep(self._writer, *self._readers.inherited())
        self._was_forked = self._writer is not None or self._was_forked
        self._is_tainted = not self._is_disconnected or self._is_tainted
        self._writer = None
        self._is_held = self._is_disconnected = False
        self._opening = threading.Lock()
        self._gate = Gate()
        self.listeners.forget()

    def close(self) -> None:
        with self._opening:
            writer, self._writer = self._writer, None
            self._readers.close()
            if writer is not None:
                writer.close()

    def _refresh_time(self, db: sqlite3.Connection) -> None:
        """Handle another process's commit, which may have set the file's time."""
        now = time.monotonic()
        if self.host_clock is None or now < self._read_clock_at:
            return
        self._read_clock_at = now + READ_CLOCK_SECONDS
        anchor = host.read(db)
        if (
            anchor is not None
            and anchor != self.host_clock.anchor
            and anchor.boot == self.host_clock.anchor.boot
        ):
            self.host_clock.use(anchor)
            if self.watch is not None:
                self.watch.followed()

    def _notify_commit(self, transaction: Transaction) -> None:
        self._ready |= transaction.ready
        if transaction.has_new_tokens:
            self.absent_tokens = set()
        self.listeners.notify(transaction.change)

    def _notify_disturbance(self) -> None:
        self.absent_tokens = set()
        self.listeners.notify_disturbance()

    def has_become_ready(self, namespace: str) -> bool:
        """Whether a commit of this process may have made a run claimable since the last call."""
        if namespace not in self._ready:
            return False
        self._ready.discard(namespace)
        return True

    async def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Read on a reader's thread."""
        self.writer.check_readable()
        return await self._readers.call(lambda: self._read_here(read))

    async def read_soon(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Do a small read at once if the writer is idle, otherwise on a reader's thread, with others of this turn."""
        try:
            found = self.writer.read_here(read)
        except UnicodeEncodeError as error:
            raise _no_text(error) from None
        return await self._small_reads.do(SmallRead(read)) if found is None else found[0]

    def _begin_at_once(self, read: SmallRead[Any]) -> bool:
        read.wait()
        self._read_together([read])
        return True

    def _read_together(self, reads: list[SmallRead[Any]]) -> None:
        for first in range(0, len(reads), READS_AT_ONCE):
            some = reads[first : first + READS_AT_ONCE]
            try:
                self._readers.start(partial(self._do_all, some))
            except StoreUnavailable as error:
                for read in some:
                    read.fail(error)
                resolve_here(some)

    def _do_all(self, reads: list[SmallRead[Any]]) -> None:
        for read in reads:
            try:
                read.result = self._read_here(read.work)
            except Exception as error:
                read.fail(error)
        resolve(reads)

    def _read_here(self, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._gate:
                return read(self._readers.connection())
        except sqlite3.Error as error:
            writer = self._writer
            raise (translate(error, self.location) if writer is None else writer.explain(error)) from error
        except UnicodeEncodeError as error:
            raise _no_text(error) from None


def _no_text(error: UnicodeEncodeError) -> InvalidValue:
    return InvalidValue("id", f"{error.object!a:.100} has a lone surrogate, which is not valid Unicode")
