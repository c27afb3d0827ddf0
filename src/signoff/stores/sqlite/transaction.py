"""Runs batches of operations in one SQLite transaction; all that succeed are committed together."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from signoff.errors import StoreError, StoreMoved
from signoff.observability import events
from signoff.observability.events import StoreCommitted
from signoff.runtime.clock import Clock
from signoff.runtime.loggers import own_logger
from signoff.stores.shared.group_commit import Operation
from signoff.stores.shared.touched_runs import TouchedRuns
from signoff.stores.sqlite.open_files import OpenFiles
from signoff.stores.sqlite.schema import (
    connect,
    is_busy,
    is_busy_or_interrupted,
    is_fault_of_one,
    own_error,
    reserve_log,
    translate,
)
from signoff.stores.sqlite.write_ahead_log import LogLimit

P = ParamSpec("P")
T = TypeVar("T")

log = own_logger("signoff.store")

AVERAGE_OVER: Final = 20  # commits
CHECK_SECONDS: Final = 2.0  # limit for the check of a file that has shrunk


class Refused:
    """Result of an operation that raises ``error`` for its caller, but whose writes are kept."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class Transaction(TouchedRuns):
    """A running write transaction, and what it has touched so far.

    Args:
        db: The connection.
        clock: Business time.
        lease_clock: The clock that leases are measured by.

    Attributes:
        has_new_tokens: Whether it creates tokens, or makes them valid again.
    """

    __slots__ = ("_clock", "_lease_clock", "_lease_now", "_now", "db", "has_new_tokens")

    def __init__(self, db: sqlite3.Connection, clock: Clock, lease_clock: Clock) -> None:
        super().__init__()
        self.db = db
        self._clock = clock
        self._lease_clock = lease_clock
        self._now: float | None = None
        self._lease_now: float | None = None
        self.has_new_tokens = False

    def __bool__(self) -> bool:
        return self.has_new_tokens or super().__bool__()

    # The clocks are read on first use: most transactions are appends, which need neither.

    @property
    def now(self) -> float:
        """Business time, in unix seconds. It stands still during a transaction."""
        if self._now is None:
            self._now = self._clock.now()
        return self._now

    @property
    def lease_now(self) -> float:
        """Time of the lease clock, in unix seconds. It stands still during a transaction."""
        if self._lease_now is None:
            self._lease_now = self._lease_clock.now()
        return self._lease_now

    def attempt(self, do: Callable[[], object]) -> Exception | None:
        """Call ``do`` atomically. Returns its error, if it failed. Errors of the database itself are raised."""
        self.db.execute("SAVEPOINT attempt")
        try:
            do()
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not is_fault_of_one(error):
                raise
            self.db.execute("ROLLBACK TO attempt")
            self.db.execute("RELEASE attempt")
            return own_error(error)
        self.db.execute("RELEASE attempt")
        return None


class Work(Operation[T]):
    """An operation within a transaction. It may be repeated after a rollback.

    Args:
        work: The function. If it raises, its writes are undone.
        args: Its arguments after the transaction.
        kwargs: Its keyword arguments.
    """

    __slots__ = ("_args", "_kwargs", "_work")

    def __init__(
        self, work: Callable[Concatenate[Transaction, P], T | Refused], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        super().__init__()
        self._work = work
        self._args = args
        self._kwargs = kwargs

    def do(self, transaction: Transaction) -> None:
        """Run the function and store its result or refusal."""
        result = self._work(transaction, *self._args, **self._kwargs)
        if isinstance(result, Refused):
            self.error = result.error
        else:
            self.result = result


class Committer:
    """The writing connection, for one caller at a time.

    Args:
        connection: An open connection in autocommit mode.
        path: The file.
        location: The store's address, for messages.
        clock: Business time.
        lease_clock: The clock that leases are measured by.

    Attributes:
        lost: Why the open files are no longer those at the path, as of the last check; None if they are.
        is_refused: Whether SQLite refused the last commit as a whole, because the disk is full or the file read-only.
    """

    lost: str | None = None
    is_refused = False

    def __init__(
        self, connection: sqlite3.Connection, path: Path, location: str, clock: Clock, lease_clock: Clock
    ) -> None:
        self._path = path
        self.use(connection)
        self.commits = 0
        self.average_seconds = 0.0  # moving average of commit times
        self._location = location
        self._clock = clock
        self._lease_clock = lease_clock

    def commit(self, batch: Sequence[Work[Any]]) -> Transaction | None:
        """Run a batch in one transaction. Each operation then has its result or error.

        Returns:
            The transaction, with the runs it touched; None, with nothing done, if another process is writing.
        """
        try:
            self.is_refused = False
            return self._try(batch)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and is_busy(error):
                return None
            self.is_refused = isinstance(error, sqlite3.Error) and not is_fault_of_one(error)
            for operation in batch:
                operation.error = self.explain(error) if isinstance(error, sqlite3.Error) else error
            return Transaction(self.db, self._clock, self._lease_clock)
        finally:
            if self.db.in_transaction:
                self._roll_back()

    def use(self, connection: sqlite3.Connection) -> None:
        """Commit through a newly opened connection.

        Raises:
            sqlite3.Error: The file cannot be read.
            OSError: It no longer exists.
        """
        self.db = connection
        self.first_data_version = self.data_version()
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()  # also opens the log
        self.files = OpenFiles(self._path)
        connection.execute("PRAGMA busy_timeout = 0")  # from now on the caller decides how to wait

    def is_whole(self, size: int, log_size: int) -> bool:
        """Whether the database has all its pages. Takes at most 2 s, and no time if SQLite itself has freed space.

        Args:
            size: Size of the file in bytes.
            log_size: Size of the log in bytes.
        """
        if self._fits(size, log_size):
            return True
        try:
            with closing(connect(self._path, busy_seconds=1.0)) as connection:
                connection.set_progress_handler(self._give_up_after(CHECK_SECONDS), 10_000)
                return connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
        except sqlite3.Error as error:
            return is_busy_or_interrupted(error)

    def _fits(self, size: int, log_size: int) -> bool:
        """Whether the files are as long as SQLite's shared memory says."""
        try:
            (pages,) = self.db.execute("PRAGMA page_count").fetchone()
            (bytes_each,) = self.db.execute("PRAGMA page_size").fetchone()
            (_, frames, _) = self.db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:
            return False
        return pages * bytes_each <= size and (frames == 0 or 32 + frames * (24 + bytes_each) <= log_size)

    def explain(self, error: sqlite3.Error) -> StoreError:
        """Return the store error for an SQLite error; StoreMoved if the file was moved or deleted."""
        self.lost = self.files.look(self.is_whole)
        return (
            translate(error, self._location) if self.lost is None else StoreMoved(self._location, self.lost)
        )

    @staticmethod
    def _give_up_after(seconds: float) -> Callable[[], bool]:
        give_up_at = time.monotonic() + seconds
        return lambda: time.monotonic() > give_up_at

    def data_version(self) -> int:
        """Return a number that changes when another process has committed."""
        return int(self.db.execute("PRAGMA data_version").fetchone()[0])

    def reserve_log(self) -> bool:
        """Make later commits faster. Returns False, with nothing done, if another connection is writing.

        Other methods may be called meanwhile, but commits find the database locked.
        """
        try:
            if reserve_log(self._path):
                self.average_seconds = 0.0
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and is_busy(error):
                return False
            log.info(
                "store %s: its write-ahead log cannot be preallocated and grows in use: %s",
                self._location,
                error,
            )
        return True

    def empty_log(self, limit: LogLimit) -> bool:
        """Empty the write-ahead log by force, or leave it for a later attempt. Returns whether it is empty."""
        began = time.monotonic()
        length = self.files.log_bytes
        try:
            is_empty = limit.empty(self.db, length)
        except sqlite3.Error as error:
            if not is_busy(error):
                log.warning("store %s: its write-ahead log cannot be emptied: %s", self._location, error)
            is_empty = False
        if is_empty:
            self.files.log_was_emptied()
        now = time.monotonic()
        limit.note(is_empty=is_empty, length=length, took=now - began, now=now)
        return is_empty

    def _try(self, batch: Sequence[Work[Any]]) -> Transaction:
        self.db.execute("BEGIN IMMEDIATE")
        transaction = Transaction(self.db, self._clock, self._lease_clock)
        spoiler = self._do(batch, transaction)
        if spoiler is not None:
            # It failed half-way, for a reason of its own: repeat the others without it.
            self.db.execute("ROLLBACK")
            return self._try([operation for operation in batch if operation is not spoiler])
        began = time.perf_counter()
        self.db.execute("COMMIT")
        if (trouble := self.files.trouble(self.is_whole, began)) is not None:
            self.lost = trouble
            raise StoreMoved(self._location, trouble)
        self.commits += 1
        seconds = time.perf_counter() - began
        self.average_seconds += (seconds - self.average_seconds) / AVERAGE_OVER
        if events.subscribers:
            events.announce(StoreCommitted("sqlite", len(batch), seconds))
        return transaction

    def _do(self, batch: Sequence[Work[Any]], transaction: Transaction) -> Work[Any] | None:
        """Run the operations. Returns the first one that failed after writing something, if any."""
        for operation in batch:
            changes = self.db.total_changes
            operation.error = None
            try:
                operation.do(transaction)
            except Exception as error:
                if isinstance(error, sqlite3.DatabaseError) and not is_fault_of_one(error):
                    raise  # the database failed, not the operation
                is_refused = isinstance(error, sqlite3.OperationalError | sqlite3.IntegrityError)
                own = self.explain(error) if is_refused else error
                operation.fail(own)
                if self.db.total_changes != changes:
                    return operation
        return None

    def _roll_back(self) -> None:
        try:
            self.db.execute("ROLLBACK")
        except sqlite3.Error as error:  # the next batch fails to start, and tries to roll back again
            log.warning("store %s: cannot roll back: %s", self._location, error)
