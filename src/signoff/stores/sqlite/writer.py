"""The only writer of an SQLite store. It decides when and on which thread operations are committed.

Operations of one turn of an event loop are gathered. At the end of the turn they are committed immediately if that is
quick (the writer is idle, no other process is writing, recent commits were fast). Otherwise a thread commits them,
together with all operations that have arrived by then. If only one task writes, its operation does not even wait for
the end of the turn.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from signoff.errors import StoreError, StoreMoved, StoreReadOnly, StoreUnavailable
from signoff.runtime.loggers import own_logger
from signoff.stores.shared.group_commit import GroupCommit, resolve, resolve_here
from signoff.stores.shared.outages import OUTAGE_SECONDS, Outages
from signoff.stores.shared.thread_wakeup import WakeUp
from signoff.stores.sqlite.schema import is_busy
from signoff.stores.sqlite.transaction import Committer, Refused, Transaction, Work
from signoff.stores.sqlite.write_ahead_log import LogLimit

P = ParamSpec("P")
T = TypeVar("T")

log = own_logger("signoff.store")

INLINE_AT_MOST: Final = 128  # operations; a longer batch would block its event loop
POLL_SOON: Final = 0.002  # seconds between checks for other processes' commits, while there are some
POLL_LATER: Final = 0.005
RESERVE_AFTER: Final = 20  # commits; with fewer, a preallocated log does not pay
CHECK_FILES: Final = 0.05  # seconds between checks that the path still leads to the open files
RETRY_SOON: Final = 0.001  # seconds before retrying a lock that another process holds
RETRY_LATER: Final = 0.025
LOCKED: Final = "another process keeps it locked"


class Writer:
    """Accepts operations from any number of event loops and threads.

    Args:
        committer: The writing connection, for exclusive use.
        location: The store's address, for messages.
        busy_seconds: How long to retry a lock that another process holds.
        inline_below_seconds: Commit on the event loop while commits take less than this; 0 disables this.
        committed: Called after each commit that changed something.
        disturbed: Called when another process has committed.
        refresh: Called just before ``disturbed``, with the connection, which is idle meanwhile.
        outages: Notified when writes wait for another process's lock, and when they continue.
    """

    def __init__(
        self,
        committer: Committer,
        *,
        location: str,
        busy_seconds: float,
        inline_below_seconds: float,
        committed: Callable[[Transaction], None],
        disturbed: Callable[[], None],
        refresh: Callable[[sqlite3.Connection], None],
        outages: Outages,
    ) -> None:
        self._committer = committer
        self._location = location
        self._busy_seconds = busy_seconds
        self._inline_below = inline_below_seconds
        self._committed = committed
        self._disturbed = disturbed
        self._refresh = refresh
        self._outages = outages
        self._lock = threading.Lock()  # held while using the committer's connection
        self._reserving = threading.Lock()  # held while the committer has another connection open
        self._group_commit = GroupCommit(self._commit_one, self._commit_group)
        self._waiting: deque[Work[Any]] = deque()
        self._wakeup = WakeUp()
        self._closing = False
        self._moved: str | None = None  # why the open files are no longer those at the path
        self._is_read_only = False
        self._locked_since: float | None = None  # start of another process's lock, on the monotonic clock
        self._is_lock_logged = False
        self._reporting = threading.Lock()
        self._files_checked_at = 0.0
        self._has_reserved = False
        self._log_limit = LogLimit(location)
        self._data_version = committer.first_data_version
        self._polled_at = time.monotonic()
        self._disturbed_at = self._polled_at - 60.0
        self._thread = threading.Thread(target=self._serve, name="signoff-sqlite-writer", daemon=True)
        self._thread.start()

    # Called on event loops

    def write(
        self, work: Callable[Concatenate[Transaction, P], T | Refused], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Run ``work`` with these arguments in a transaction, and return its result once it is durable.

        ``work`` may run a second time after a rollback. If it raises, its writes are undone. It is done as a whole or
        not at all, even if the caller is cancelled.
        """
        if self._closing or self._moved is not None:
            self.check_readable()
        if self._is_read_only:
            self._outages.waiting()
            raise StoreReadOnly(self._location)
        return self._group_commit.do(Work(work, *args, **kwargs))

    def read_here(self, read: Callable[[sqlite3.Connection], T]) -> tuple[T] | None:
        """Do a small read on this thread if the writer is idle; None if it is not."""
        self.check_readable()
        if self._inline_below <= 0 or not self._lock.acquire(blocking=False):
            return None
        try:
            return None if self._closing else (read(self._committer.db),)
        except sqlite3.Error as error:
            if is_busy(error):
                return None
            raise self.explain(error) from error
        finally:
            self._lock.release()

    @property
    def locked_seconds(self) -> float:
        """For how many seconds another process has blocked writes; 0 if none does."""
        since = self._locked_since
        return 0.0 if since is None else time.monotonic() - since

    def explain(self, error: sqlite3.Error) -> StoreError:
        """Return the store error for a reader's SQLite error. If the file is lost, refuse all operations."""
        explained = self._committer.explain(error)
        self._report_loss()
        return explained

    def check_readable(self) -> None:
        """Raise StoreUnavailable if the writer is closed, or the path no longer leads to the open files."""
        if self._closing:
            raise StoreUnavailable(self._location, "it is closed")
        if self._moved is not None:
            raise StoreMoved(self._location, self._moved)

    def close(self) -> None:
        """Finish waiting operations, end the thread and close the connection. Blocks."""
        self._closing = True
        self._wakeup.wake()
        self._thread.join()
        self._abandon()
        with self._lock:
            self._committer.db.close()

    def disconnect(self, seconds: float) -> bool:
        """Close the connection until ``reconnect``. Returns False, with nothing done, if it stays in use."""
        if not self._reserving.acquire(timeout=seconds):
            return False
        if not self._lock.acquire(timeout=seconds):
            self._reserving.release()
            return False
        self._committer.db.close()
        return True

    def reconnect(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Continue after ``disconnect``."""
        try:
            self._committer.use(connect())
            self._data_version = self._committer.first_data_version
        except (sqlite3.Error, OSError) as error:
            self._report(f"its file could not be opened again after a fork: {error}", is_read_only=False)
        finally:
            self._lock.release()
            self._reserving.release()
        self._disturbed()

    def _commit_one(self, operation: Work[Any]) -> bool:
        transaction = self._commit_here([operation])
        if transaction is None:
            return False
        self._announce(transaction)
        return True

    def _commit_group(self, batch: list[Work[Any]]) -> None:
        transaction = self._commit_here(batch)
        if transaction is not None:
            resolve_here(batch)
            self._announce(transaction)
            return
        self._waiting.extend(batch)
        self._wakeup.wake()
        if not self._thread.is_alive():
            self._abandon()

    def _commit_here(self, batch: list[Work[Any]]) -> Transaction | None:
        """Commit on this thread, if that is quick. Returns None if it was not done."""
        committer = self._committer
        if committer.average_seconds >= self._inline_below or len(batch) > INLINE_AT_MOST:
            return None
        if not self._lock.acquire(blocking=False):
            return None
        try:
            # Earlier operations go first; and after a close the connection is gone.
            transaction = None if self._waiting or self._closing else committer.commit(batch)
            if committer.lost is not None:
                self._report_loss()
        finally:
            self._lock.release()
        if transaction is not None:
            self._locked_since = None
            self._note_outage()
        return transaction

    def _announce(self, transaction: Transaction) -> None:
        if transaction:
            self._committed(transaction)

    def _abandon(self) -> None:
        left = _take_all(self._waiting)
        for operation in left:
            operation.error = StoreUnavailable(self._location, "it is closed")
        resolve(left)

    # On the thread

    def _serve(self) -> None:
        while True:
            self._wakeup.wait(self._seconds_to_next_poll())
            if self._waiting:
                self._commit_waiting()
            elif self._closing:
                return
            if not self._has_reserved and self._committer.commits >= RESERVE_AFTER:
                with self._reserving:
                    self._has_reserved = self._committer.reserve_log()
            if self._seconds_to_next_poll() <= 0:
                self._poll_commits()
            if self._polled_at - self._files_checked_at >= CHECK_FILES:
                self._check_files()
            if self._log_limit.is_due(self._committer.files.log_bytes, time.monotonic()):
                self._empty_log()

    def _empty_log(self) -> None:
        with self._lock:
            if not self._closing and self._moved is None:
                self._has_reserved &= not self._committer.empty_log(self._log_limit)

    def _commit_waiting(self) -> None:
        batch: list[Work[Any]] = []
        give_up_at = time.monotonic() + self._busy_seconds
        retry_after = RETRY_SOON
        with self._lock:
            while True:
                batch += _take_all(self._waiting)
                transaction = self._committer.commit(batch)
                if transaction is not None:
                    break
                self._note_lock()
                if time.monotonic() > give_up_at:
                    for operation in batch:
                        operation.error = StoreUnavailable(self._location, LOCKED)
                    self._locked_since = None  # nothing waits any more; the next write checks again
                    break
                time.sleep(retry_after)
                retry_after = min(retry_after * 1.5, RETRY_LATER)
            self._report_loss()
            if transaction is not None:
                if self._is_lock_logged:
                    self._is_lock_logged = False
                    log.warning("store %s: it is no longer locked, writes continue", self._location)
                self._locked_since = None
                self._note_outage()
        if transaction is not None:
            self._announce(transaction)  # first: the next operation of a caller must find what it changed
        resolve(batch)

    def _note_outage(self) -> None:
        """Record whether the last commit was accepted."""
        if self._committer.is_refused:
            self._outages.waiting()
        else:
            self._outages.reached()

    def _note_lock(self) -> None:
        """Record that another process holds the lock, and log it once if that lasts long."""
        self._outages.waiting()
        if self._locked_since is None:
            self._locked_since = time.monotonic()
        elif not self._is_lock_logged and self.locked_seconds > OUTAGE_SECONDS:
            self._is_lock_logged = True
            log.warning("store %s: %s, so writes are waiting", self._location, LOCKED)

    def _check_files(self) -> None:
        self._files_checked_at = self._polled_at
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._closing:
                return
            files = self._committer.files
            reason = self._committer.lost = files.look(self._committer.is_whole)
            self._report(reason, is_read_only=reason is None and files.is_read_only)
        finally:
            self._lock.release()

    def _report_loss(self) -> None:
        """Refuse all operations if a commit has detected that the files are lost."""
        if self._committer.lost is not None:
            self._report(self._committer.lost, is_read_only=False)

    def _report(self, moved: str | None, *, is_read_only: bool) -> None:
        with self._reporting:
            if (moved, is_read_only) == (self._moved, self._is_read_only):
                return
            self._moved, self._is_read_only = moved, is_read_only
        if moved is not None:
            log.error("%s", StoreMoved(self._location, moved))
        elif is_read_only:
            log.error("%s", StoreReadOnly(self._location))
        else:
            log.warning("store %s: its files are back in place, work continues", self._location)

    def _seconds_to_next_poll(self) -> float:
        lively = self._polled_at - self._disturbed_at < 1.0
        return self._polled_at + (POLL_SOON if lively else POLL_LATER) - time.monotonic()

    def _poll_commits(self) -> None:
        self._polled_at = time.monotonic()
        if not self._lock.acquire(blocking=False):
            return  # a commit is running: check again after the next wait
        try:
            version = self._committer.data_version()
            if version != self._data_version:
                self._refresh(self._committer.db)
        except sqlite3.Error as error:
            if not is_busy(error):
                log.warning("store %s: cannot check for other processes' commits: %s", self._location, error)
            return
        finally:
            self._lock.release()
        if version != self._data_version:
            self._data_version = version
            self._disturbed_at = self._polled_at
            self._disturbed()


def _take_all(waiting: deque[Work[Any]]) -> list[Work[Any]]:
    taken: list[Work[Any]] = []
    while waiting:
        taken.append(waiting.popleft())
    return taken
