"""The one writer of an SQLite store: it decides when and on which thread operations are committed.

Operations asked for in one turn of an event loop are gathered. At the end of the turn they are committed
on the spot if that is quick (the writer idle, no other process writing, commits fast of late); otherwise a
thread commits them, together with whatever else has come by then. When only one task writes, its operation
does not even wait for the end of the turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from signoff.errors import StoreUnavailable
from signoff.stores.sqlite_schema import is_busy, translate
from signoff.stores.sqlite_transaction import Committer, Operation, Refused, Transaction

T = TypeVar("T")

log = logging.getLogger("signoff.store")

INLINE_AT_MOST: Final = 128  # operations; a longer batch would hold up the loop it is committed on
LOOK_ABROAD_SOON: Final = 0.002  # seconds between looks for other processes' commits, while they make some
LOOK_ABROAD_LATER: Final = 0.005
RESERVE_AFTER: Final = 20  # commits; who makes fewer has no use for a log of full size
RETRY_SOON: Final = 0.001  # seconds before asking again for a lock that another process holds
RETRY_LATER: Final = 0.025


class _Turn:
    """What one turn of an event loop asks for, and whether the turn before had several tasks asking."""

    __slots__ = ("asker", "batch", "crowded", "is_open", "loop", "others")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_open = False
        self.crowded = False
        self.asker: asyncio.Task[Any] | None = None
        self.others = False
        self.batch: list[Operation[Any]] = []

    def open(self, asker: asyncio.Task[Any] | None) -> None:
        self.is_open = True
        self.asker = asker
        self.others = False

    def close(self) -> list[Operation[Any]]:
        self.is_open = False
        self.asker = None
        self.crowded = self.others
        batch, self.batch = self.batch, []
        return batch


class _Bell:
    """Wakes the thread. Far cheaper to wait on, again and again, than a threading.Event."""

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # it rings already
            self._silent.release()

    def wait(self, seconds: float) -> None:
        self._silent.acquire(timeout=max(seconds, 0.0))


class Writer:
    """Takes operations from any number of event loops and threads.

    Args:
        committer: The writing connection; nobody else may use it.
        location: The store's address, for messages.
        busy_seconds: How long to go on asking for a lock that another process holds.
        inline_below_seconds: Commit on the event loop while commits take less than this; 0 never does.
        committed: Called after each commit that changed something.
        disturbed: Called when another process has committed.
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
    ) -> None:
        self._committer = committer
        self._location = location
        self._busy_seconds = busy_seconds
        self._inline_below = inline_below_seconds
        self._committed = committed
        self._disturbed = disturbed
        self._pid = os.getpid()
        self._lock = threading.Lock()  # held by whoever uses the committer
        self._turns = threading.local()
        self._waiting: deque[Operation[Any]] = deque()
        self._bell = _Bell()
        self._closing = False
        self._has_reserved = False
        self._data_version = committer.first_data_version
        self._looked_at = time.monotonic()
        self._disturbed_at = self._looked_at - 60.0
        self._thread = threading.Thread(target=self._serve, name="signoff-sqlite-writer", daemon=True)
        self._thread.start()

    # For callers, on their event loops

    async def write(self, work: Callable[[Transaction], T | Refused]) -> T:
        """Do ``work`` in a transaction, and return its result when that is durable.

        ``work`` may be done a second time after a rollback. If it raises, nothing of it remains. It is done
        or not done as a whole, even if the caller is cancelled.
        """
        self.check_usable()
        operation = Operation(work)
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        turn = self._turn_of(loop)
        if not turn.is_open:
            turn.open(task)
            loop.call_soon(self._end_turn, turn)
            if not turn.crowded and self._commit_here([operation]):
                return operation.outcome()
        elif task is not turn.asker:
            turn.others = True
        operation.future = loop.create_future()
        turn.batch.append(operation)
        return await operation.future

    def read_here(self, read: Callable[[sqlite3.Connection], T]) -> tuple[T] | None:
        """Do a small read on this thread, if the writer is idle; None if it is not."""
        self.check_usable()
        if self._inline_below <= 0 or not self._lock.acquire(blocking=False):
            return None
        try:
            return None if self._closing else (read(self._committer.db),)
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
        self._bell.ring()
        self._thread.join()
        self._abandon()
        with self._lock:
            self._committer.db.close()

    def _turn_of(self, loop: asyncio.AbstractEventLoop) -> _Turn:
        turn: _Turn | None = getattr(self._turns, "turn", None)
        if turn is None or turn.loop is not loop:
            turn = self._turns.turn = _Turn(loop)
        return turn

    def _end_turn(self, turn: _Turn) -> None:
        batch = turn.close()
        if not batch or self._commit_here(batch):
            return
        self._waiting.extend(batch)
        self._bell.ring()
        if not self._thread.is_alive():
            self._abandon()

    def _commit_here(self, batch: list[Operation[Any]]) -> bool:
        if self._committer.average_seconds >= self._inline_below or len(batch) > INLINE_AT_MOST:
            return False
        if not self._lock.acquire(blocking=False):
            return False
        try:
            # What came earlier goes first; and after a close the connection is gone.
            transaction = None if self._waiting or self._closing else self._committer.commit(batch)
        finally:
            self._lock.release()
        if transaction is None:
            return False
        _tell_here(batch)
        self._announce(transaction)
        return True

    def _announce(self, transaction: Transaction) -> None:
        if transaction.runs or transaction.due or transaction.ready:
            self._committed(transaction)

    def _abandon(self) -> None:
        left = _take_all(self._waiting)
        for operation in left:
            operation.error = StoreUnavailable(self._location, "it is closed")
        _tell(left)

    # The thread

    def _serve(self) -> None:
        while True:
            self._bell.wait(self._time_to_look_abroad())
            if self._waiting:
                self._commit_waiting()
            elif self._closing:
                return
            if not self._has_reserved and self._committer.commits >= RESERVE_AFTER:
                with self._lock:
                    self._has_reserved = self._committer.reserve_log()
            if self._time_to_look_abroad() <= 0:
                self._look_abroad()

    def _commit_waiting(self) -> None:
        batch: list[Operation[Any]] = []
        give_up_at = time.monotonic() + self._busy_seconds
        retry_after = RETRY_SOON
        with self._lock:
            while True:
                batch += _take_all(self._waiting)
                transaction = self._committer.commit(batch)
                if transaction is not None:
                    break
                if time.monotonic() > give_up_at:
                    for operation in batch:
                        operation.error = StoreUnavailable(self._location, "another process keeps it locked")
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
            version = self._committer.data_version()
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


def _take_all(waiting: deque[Operation[Any]]) -> list[Operation[Any]]:
    taken: list[Operation[Any]] = []
    while waiting:
        taken.append(waiting.popleft())
    return taken


def _tell(operations: Sequence[Operation[Any]]) -> None:
    """Resolve the futures, with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Operation[Any]]] = {}
    for operation in operations:
        if operation.future is not None:
            by_loop.setdefault(operation.future.get_loop(), []).append(operation)
    for loop, theirs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_tell_here, theirs)
        except RuntimeError:  # the loop is closed: nobody waits
            log.debug("the event loop of %d operations was closed before they were committed", len(theirs))


def _tell_here(operations: Sequence[Operation[Any]]) -> None:
    for operation in operations:
        operation.tell()
