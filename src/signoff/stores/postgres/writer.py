"""The writer of a Postgres store: decides when and on which thread to send operations, and retries them.

Operations of one event loop iteration are collected, and a thread sends all waiting operations in one statement: one
round trip and one commit. While replies are fast, a single operation is sent from the event loop itself, which saves
two thread switches; if its reply is slow, the thread takes over the wait. If replies take only as long as a few core
wake-ups, as from a server on the same host, the loop busy-waits for them.

When the server becomes unavailable, operations in flight may or may not have been committed. They are sent again: every
operation is idempotent.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import psycopg

from signoff.errors import StoreUnavailable
from signoff.observability import events
from signoff.observability.events import StoreCommitted
from signoff.runtime.clock import Clock
from signoff.runtime.loggers import own_logger
from signoff.stores.postgres.batch import Batch
from signoff.stores.postgres.pipelined_connection import Link
from signoff.stores.postgres.schema import is_conflict, is_gone, is_shared, translate
from signoff.stores.postgres.write_requests import Request
from signoff.stores.shared.group_commit import GroupCommit, resolve
from signoff.stores.shared.thread_wakeup import WakeUp
from signoff.stores.shared.touched_runs import TouchedRuns

T = TypeVar("T")

log = own_logger("signoff.store")

AVERAGE_OVER: Final = 20  # replies
AT_ONCE: Final = 500  # operations in one statement
BYTES_AT_ONCE: Final = 4 * 1024 * 1024  # in one statement; a larger operation is sent alone
LOOP_WAITS: Final = 0.003  # seconds that an event loop waits for a reply before the thread takes over
AWAKE_BELOW = 0.0005  # seconds: the event loop busy-waits while the average reply takes less
CORES = os.cpu_count() or 1
RETRY_SOON: Final = 0.02
RETRY_LATER: Final = 1.0


class Writer:
    """Takes operations from any number of event loops and threads.

    Args:
        link: The writing connection, for exclusive use.
        location: The store's address, for messages.
        clock: Business time; None uses the database's clock.
        lease_clock: Lease time; None uses the database's clock.
        patience_seconds: How long to retry while the server is unavailable.
        inline_below_seconds: Send from the event loop while replies take less than this; 0 disables this.
        committed: Called after each commit with the runs it touched, even if there are none.
        reply_lost: Called when a commit's reply was lost, so that listeners may have missed it.
    """

    def __init__(
        self,
        link: Link,
        *,
        location: str,
        clock: Clock | None,
        lease_clock: Clock | None,
        patience_seconds: float,
        inline_below_seconds: float,
        committed: Callable[[TouchedRuns], None],
        reply_lost: Callable[[], None],
    ) -> None:
        self._link = link
        self._location = location
        self._clock = clock
        self._lease_clock = lease_clock
        self._patience_seconds = patience_seconds
        self._inline_below = inline_below_seconds
        self._committed = committed
        self._reply_lost = reply_lost
        self._average_seconds = 0.0
        self._lock = threading.Lock()  # held while the link is in use
        self._group_commit = GroupCommit[Request[Any]](self._send_one, self._hand_over)
        self._waiting: deque[Request[Any]] = deque()
        self._under_way: tuple[Batch, float] | None = None  # sent by a loop; the thread receives the reply
        self._wakeup = WakeUp()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="signoff-postgres-writer", daemon=True)
        self._thread.start()

    # For callers, on their event loops

    def write(self, request: Request[T]) -> Awaitable[T]:
        """Perform an operation, and return its result once it is durable.

        It is atomic, even if the caller is cancelled.
        """
        self.check_usable()
        return self._group_commit.do(request)

    def check_usable(self) -> None:
        """Raise StoreUnavailable if the writer is closed."""
        if self._closing:
            raise StoreUnavailable(self._location, "it is closed")

    def close(self) -> None:
        """Finish waiting operations, end the thread and disconnect. Blocks."""
        self._closing = True
        self._wakeup.wake()
        self._thread.join()
        self._abandon()
        with self._lock:
            self._link.close()

    def _send_one(self, request: Request[Any]) -> bool:
        if self._average_seconds >= self._inline_below or not self._lock.acquire(blocking=False):
            return False
        if self._waiting or self._closing or not self._link.is_open:
            self._lock.release()
            return False
        began = time.perf_counter()
        batch = Batch([request])
        try:
            self._send(batch)
            self._link.stay_awake(self._awake_seconds())
            reply = self._link.receive(LOOP_WAITS)
        except psycopg.Error:
            self._lock.release()
            return False  # the thread retries it and handles the error
        except BaseException:
            self._link.close()  # the reply of the statement in flight would have no receiver
            self._lock.release()
            raise
        if reply is None:
            request.wait()
            self._under_way = (batch, began)
            self._wakeup.wake()
            return True  # with the lock held, for the thread
        self._lock.release()
        self._note_duration(began, 1)
        touched = TouchedRuns()
        batch.take(reply, touched)
        self._committed(touched)
        return True

    def _awake_seconds(self) -> float:
        """Return how long to busy-wait for a reply. On a single core it is 0: the server needs the core."""
        if CORES == 1 or self._average_seconds > AWAKE_BELOW:
            return 0.0
        return 2 * self._average_seconds

    def _hand_over(self, batch: list[Request[Any]]) -> None:
        self._waiting.extend(batch)
        self._wakeup.wake()
        if not self._thread.is_alive():
            self._abandon()

    def _abandon(self) -> None:
        left = list(self._waiting)
        self._waiting.clear()
        for request in left:
            request.error = StoreUnavailable(self._location, "it is closed")
        resolve(left)

    # The thread

    def _serve(self) -> None:
        while True:
            self._wakeup.wait(1.0)
            self._send_waiting()
            if self._closing and self._lock.acquire(timeout=LOOP_WAITS):
                self._lock.release()
                if not self._waiting:
                    return

    def _send_waiting(self) -> None:
        """Send waiting operations. A loop that holds the lock releases it, or hands it over with a batch in flight."""
        while True:
            if self._under_way is not None:
                (batch, began), self._under_way = self._under_way, None
                try:
                    self._finish(batch, began)
                finally:
                    self._lock.release()
            elif not self._waiting:
                return
            elif self._lock.acquire(timeout=LOOP_WAITS):
                try:
                    self._finish(self._next_batch(), None)
                finally:
                    self._lock.release()

    def _next_batch(self) -> Batch:
        some: list[Request[Any]] = []
        size = 0
        while self._waiting and len(some) < AT_ONCE:
            size += self._waiting[0].size
            if some and size > BYTES_AT_ONCE:
                break
            some.append(self._waiting.popleft())
        return Batch(some)

    def _finish(self, batch: Batch, sent_at: float | None) -> None:
        """Commit a batch, which a loop may have sent already, and resolve its operations with results or errors."""
        touched = TouchedRuns()
        self._commit(batch, sent_at, touched)
        resolve(batch.requests)
        self._committed(touched)

    def _commit(self, batch: Batch, sent_at: float | None, touched: TouchedRuns) -> None:
        give_up_at = time.monotonic() + self._patience_seconds
        pause = RETRY_SOON
        while True:
            try:
                began = sent_at
                if began is None:
                    began = time.perf_counter()
                    if not self._link.is_open:
                        self._link.open()
                    self._send(batch)
                reply = self._link.receive(max(0.0, give_up_at - time.monotonic()))
                if reply is None:
                    raise psycopg.OperationalError(f"no reply for {self._patience_seconds:g} seconds")
                self._note_duration(began, len(batch.requests))
                batch.take(reply, touched)
                return
            except psycopg.Error as error:
                sent_at = None
                if is_gone(error):
                    self._link.close()
                    self._reply_lost()
                elif is_shared(error) and self._link.prepare_no_more():
                    continue
                elif not is_conflict(error):
                    if len(batch.requests) == 1:
                        batch.requests[0].error = translate(error, self._location)
                        return
                    # One operation is at fault: send each alone, so that the others succeed.
                    for request in batch.requests:
                        self._commit(Batch([request]), None, touched)
                    return
                if self._closing or time.monotonic() > give_up_at:
                    for request in batch.requests:
                        request.error = translate(error, self._location)
                    return
                log.log(
                    logging.WARNING if is_gone(error) else logging.DEBUG,
                    "store %s: %s; retrying",
                    self._location,
                    " ".join(str(error).split()),
                )
                time.sleep(pause * (0.5 + random.random()))
                pause = min(pause * 2, RETRY_LATER)

    def _send(self, batch: Batch) -> None:
        now = None if self._clock is None else self._clock.now()
        lease_now = None if self._lease_clock is None else self._lease_clock.now()
        self._link.send(*batch.statement(now, lease_now))

    def _note_duration(self, began: float, operations: int) -> None:
        seconds = time.perf_counter() - began
        self._average_seconds += (seconds - self._average_seconds) / AVERAGE_OVER
        if events.subscribers:
            events.announce(StoreCommitted("postgres", operations, seconds))
