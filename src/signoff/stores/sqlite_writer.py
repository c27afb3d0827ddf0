"""The one writer of an SQLite store: it commits everything that waits in one transaction.

Operations asked for in one turn of an event loop are gathered. At the end of the turn they are committed
on the spot if that is quick (the writer idle, no other process writing, commits fast of late); otherwise a
thread commits them, together with whatever else has come by then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from signoff.clock import Clock
from signoff.errors import StoreUnavailable
from signoff.stores.sqlite_schema import is_busy, translate

T = TypeVar("T")

log = logging.getLogger("signoff.store")

INLINE_AT_MOST: Final = 128  # operations; a longer batch would hold up the loop it is committed on
LOOK_ABROAD_SOON: Final = 0.002  # seconds between looks for other processes' commits, while they make some
LOOK_ABROAD_LATER: Final = 0.025
RETRY_SOON: Final = 0.001  # seconds before asking again for a lock that another process holds
RETRY_LATER: Final = 0.025
AVERAGE_OVER: Final = 20  # commits
OWN_FAULTS: Final = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
)  # an operation's own


class Refused:
    """Returned by an operation that raises ``error`` for its caller, but whose writes stand."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class Transaction:
    """One write transaction under way, and what it has touched so far.

    Attributes:
        db: The connection.
        now: Business time, in unix seconds.
        lease_now: The time leases are measured by, in unix seconds.
        runs: Ids of the runs touched, by namespace.
        ready: Namespaces in which a run may have become claimable.
        due: Whether an earlier deadline may exist.
    """

    __slots__ = ("db", "due", "lease_now", "now", "ready", "runs")

    def __init__(self, db: sqlite3.Connection, now: float, lease_now: float) -> None:
        self.db = db
        self.now = now
        self.lease_now = lease_now
        self.runs: dict[str, set[str]] = {}
        self.ready: set[str] = set()
        self.due = False

    def touch(self, namespace: str, run_id: str, *, ready: bool = False, due: bool = False) -> None:
        """Note that a run has changed."""
        self.runs.setdefault(namespace, set()).add(run_id)
        if ready:
            self.ready.add(namespace)
        if due:
            self.due = True


class _Operation(Generic[T]):
    """Something to do in a transaction, and who waits for it. Doing it again after a rollback is safe."""

    __slots__ = ("error", "future", "loop", "result", "work")

    def __init__(self, work: Callable[[Transaction], T | Refused], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[T] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    def tell(self) -> None:
        if self.future.done():  # its caller was cancelled
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Writer:
    """Owns the writing connection and the thread beside it.

    Args:
        connection: Open, in autocommit mode, with a busy timeout of 0.
        location: The store's address, for messages.
        clock: Business time.
        lease_clock: The time leases are measured by.
        busy_seconds: How long to go on asking for a lock that another process holds.
        inline_below_seconds: Commit on the event loop while commits take less than this; 0 never does.
        committed: Called after each commit that changed something.
        disturbed: Called when another process has committed.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        location: str,
        clock: Clock,
        lease_clock: Clock,
        busy_seconds: float,
        inline_below_seconds: float,
        committed: Callable[[Transaction], None],
        disturbed: Callable[[], None],
    ) -> None:
        self._db = connection
        self._location = location
        self._clock = clock
        self._lease_clock = lease_clock
        self._busy_seconds = busy_seconds
        self._inline_below = inline_below_seconds
        self._committed = committed
        self._disturbed = disturbed
        self._pid = os.getpid()
        self._lock = threading.Lock()  # held by whoever uses the connection
        self._waiting: deque[_Operation[Any]] = deque()
        self._bell = threading.Event()
        self._gathered = threading.local()
        self._commit_seconds = 0.0
        self._data_version = self._read_data_version()
        self._looked_at = time.monotonic()
        self._disturbed_at = self._looked_at - 60.0
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="signoff-sqlite-writer", daemon=True)
        self._thread.start()

    # For callers, on their event loops

    def submit(self, work: Callable[[Transaction], T | Refused]) -> asyncio.Future[T]:
        """Have ``work`` done in the next transaction; the future is done when it is durable.

        ``work`` may be done a second time after a rollback. If it raises, nothing of it remains.
        """
        self.check_usable()
        loop = asyncio.get_running_loop()
        operation = _Operation(work, loop)
        gathered: tuple[asyncio.AbstractEventLoop, list[_Operation[Any]]] | None
        gathered = getattr(self._gathered, "turn", None)
        if gathered is not None and gathered[0] is loop:
            gathered[1].append(operation)
        else:
            batch: list[_Operation[Any]] = [operation]
            self._gathered.turn = (loop, batch)
            loop.call_soon(self._end_of_turn, batch)
        return operation.future

    def read_here(self, read: Callable[[sqlite3.Connection], T]) -> tuple[T] | None:
        """Do a small read on this thread, if the writer is idle; None if it is not."""
        self.check_usable()
        if self._inline_below <= 0 or not self._lock.acquire(blocking=False):
            return None
        try:
            return (read(self._db),)
        except sqlite3.Error as error:
            if is_busy(error):
                return None
            raise translate(error, self._location) from error
        finally:
            self._lock.release()

    def check_usable(self) -> None:
        """Raise StoreUnavailable if the writer is closed, or was inherited through a fork."""
        if self._closing:
            raise StoreUnavailable(self._location, "it is closed")
        if os.getpid() != self._pid:
            raise StoreUnavailable(
                self._location, "it was opened before this process was forked; open it again in the child"
            )

    def close(self) -> None:
        """Finish what waits, end the thread and close the connection. Blocks."""
        self._closing = True
        if os.getpid() != self._pid:
            return  # the connection is the parent's
        self._bell.set()
        self._thread.join()
        self._abandon()
        with self._lock:
            self._db.close()

    def _end_of_turn(self, batch: list[_Operation[Any]]) -> None:
        self._gathered.turn = None
        if self._commit_here(batch):
            return
        self._waiting.extend(batch)
        self._bell.set()
        if not self._thread.is_alive():
            self._abandon()

    def _commit_here(self, batch: list[_Operation[Any]]) -> bool:
        if self._commit_seconds >= self._inline_below or len(batch) > INLINE_AT_MOST:
            return False
        if not self._lock.acquire(blocking=False):
            return False
        try:
            # What came earlier goes first; and after a close the connection is gone.
            transaction = None if self._waiting or self._closing else self._commit(batch)
        finally:
            self._lock.release()
        if transaction is None:
            return False
        _tell_here(batch)
        self._announce(transaction)
        return True

    def _abandon(self) -> None:
        left = _take_all(self._waiting)
        _fail(left, lambda: StoreUnavailable(self._location, "it is closed"))
        _tell(left)

    def _announce(self, transaction: Transaction) -> None:
        if transaction.runs or transaction.due:
            self._committed(transaction)

    # The thread

    def _serve(self) -> None:
        while True:
            if self._bell.wait(self._time_to_look_abroad()):
                self._bell.clear()
            if self._waiting:
                self._commit_waiting()
            elif self._closing:
                return
            if self._time_to_look_abroad() <= 0:
                self._look_abroad()

    def _commit_waiting(self) -> None:
        batch: list[_Operation[Any]] = []
        give_up_at = time.monotonic() + self._busy_seconds
        retry_after = RETRY_SOON
        with self._lock:
            while True:
                batch += _take_all(self._waiting)
                transaction = self._commit(batch)
                if transaction is not None:
                    break
                if time.monotonic() > give_up_at:
                    _fail(batch, lambda: StoreUnavailable(self._location, "another process keeps it locked"))
                    break
                time.sleep(retry_after)
                retry_after = min(retry_after * 1.5, RETRY_LATER)
        _tell(batch)
        if transaction is not None:
            self._announce(transaction)

    def _time_to_look_abroad(self) -> float:
        lively = self._looked_at - self._disturbed_at < 1.0
        return self._looked_at + (LOOK_ABROAD_SOON if lively else LOOK_ABROAD_LATER) - time.monotonic()

    def _look_abroad(self) -> None:
        self._looked_at = time.monotonic()
        if not self._lock.acquire(blocking=False):
            return  # somebody commits here just now: look again after the next wait
        try:
            version = self._read_data_version()
        except sqlite3.Error as error:
            if not is_busy(error):
                log.warning("store %s: cannot look for other processes' commits: %s", self._location, error)
            return
        finally:
            self._lock.release()
        if version != self._data_version:
            self._data_version = version
            self._disturbed_at = self._looked_at
            self._disturbed()

    def _read_data_version(self) -> int:
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    # The transaction; the lock is held

    def _commit(self, batch: Sequence[_Operation[Any]]) -> Transaction | None:
        """Do the batch in one transaction. Returns None, with nothing done, if another process is writing."""
        try:
            return self._try(batch)
        except sqlite3.Error as error:
            if is_busy(error):
                return None
            cause = error
            _fail(batch, lambda: translate(cause, self._location))
            return Transaction(self._db, 0.0, 0.0)
        finally:
            if self._db.in_transaction:
                self._roll_back()

    def _try(self, batch: Sequence[_Operation[Any]]) -> Transaction:
        db = self._db
        todo = batch
        for operation in batch:
            operation.error = None
        while True:
            db.execute("BEGIN IMMEDIATE")
            transaction = Transaction(db, self._clock.now(), self._lease_clock.now())
            spoiler = _do(todo, transaction)
            if spoiler is None:
                break
            # It failed half-way, for a reason of its own: do the others again without it.
            self._roll_back()
            todo = [operation for operation in todo if operation is not spoiler]
        began = time.perf_counter()
        db.execute("COMMIT")
        self._commit_seconds += (time.perf_counter() - began - self._commit_seconds) / AVERAGE_OVER
        return transaction

    def _roll_back(self) -> None:
        self._db.execute("ROLLBACK")


def _do(operations: Sequence[_Operation[Any]], transaction: Transaction) -> _Operation[Any] | None:
    """Do the operations. Returns the first that failed after it had written something, if one did."""
    db = transaction.db
    for operation in operations:
        changes = db.total_changes
        try:
            result = operation.work(transaction)
        except Exception as error:
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, OWN_FAULTS):
                raise  # the database failed, not the operation
            operation.error = error
            if db.total_changes != changes:
                return operation
            continue
        if isinstance(result, Refused):
            operation.error = result.error
        else:
            operation.result = result
    return None


def _take_all(waiting: deque[_Operation[Any]]) -> list[_Operation[Any]]:
    taken: list[_Operation[Any]] = []
    while waiting:
        taken.append(waiting.popleft())
    return taken


def _fail(operations: Sequence[_Operation[Any]], reason: Callable[[], Exception]) -> None:
    for operation in operations:
        operation.error = reason()


def _tell(operations: Sequence[_Operation[Any]]) -> None:
    """Resolve the futures, with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Operation[Any]]] = {}
    for operation in operations:
        by_loop.setdefault(operation.loop, []).append(operation)
    for loop, theirs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_tell_here, theirs)
        except RuntimeError:  # the loop is closed: nobody waits
            log.debug("the event loop of %d operations was closed before they were committed", len(theirs))


def _tell_here(operations: Sequence[_Operation[Any]]) -> None:
    for operation in operations:
        operation.tell()
