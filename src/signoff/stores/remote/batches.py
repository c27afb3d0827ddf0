"""Operations on their way to a server: gathered, sent in batches, and sent again until there is a reply.

The operations of one iteration of an event loop travel in one request. Each has a number, so the server
recognizes a repetition and returns its first reply; after a restart of the server, the contract's own rules for
repetitions do that (``stores/contract/store.py``). Operations of one run are sent one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

import httpx
from pydantic_core import from_json, to_json

from signoff.errors import InvalidValue, PayloadTooLarge, SignoffError, StoreError, StoreUnavailable
from signoff.records import EntryKind
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.wire import NOW_HEADER, PATH
from signoff.stores.remote.clock import RemoteClock
from signoff.stores.remote.loop_thread import LoopThread
from signoff.wire.records import from_problem
from signoff.wire.sse import read_lines

log = own_logger("signoff.store")

Key = tuple[str, str, str]

REQUESTS_AT_ONCE: Final = 8
OPERATIONS_AT_ONCE: Final = 500  # in one request
BYTES_AT_ONCE: Final = 2 * 1024 * 1024
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 2.0
GRACE_SECONDS: Final = 5.0  # for operations in flight when the store is closed
TROUBLE_AFTER: Final = 3  # consecutive failures before a warning is logged

_RETRIED = frozenset({408, 425, 429, *range(500, 600)})


class _PendingOperation:
    """An operation that a caller waits for.

    Attributes:
        operation: The operation.
        body: It as JSON, without its number.
        key: Its queue; one operation of a queue is in flight at a time.
        patience_seconds: How long to try.
        future: Gets the outcome.
        id: Its number.
        was_sent: Whether it may have been done.
        is_done: Whether it has an outcome.
        expiry: Fires when the time to try is over.
    """

    __slots__ = (
        "body",
        "expiry",
        "future",
        "id",
        "is_done",
        "key",
        "operation",
        "patience_seconds",
        "was_sent",
    )

    def __init__(
        self,
        operation: Operation,
        body: bytes,
        key: Key | None,
        patience_seconds: float,
        future: asyncio.Future[Any],
    ) -> None:
        self.operation = operation
        self.body = body
        self.key = key
        self.patience_seconds = patience_seconds
        self.future = future
        self.id = -1
        self.was_sent = False
        self.is_done = False
        self.expiry: asyncio.TimerHandle | None = None


_Turn = tuple[asyncio.AbstractEventLoop, list[_PendingOperation]]


class Batches:
    """Sends operations for any number of event loops and threads.

    Args:
        thread: The thread that it runs on.
        client: Connections to the server; belongs to the caller.
        url: The server, for messages.
        clock: Learns the server's time from replies.
    """

    def __init__(self, thread: LoopThread, client: httpx.AsyncClient, url: str, clock: RemoteClock) -> None:
        self._thread = thread
        self._client = client
        self._url = url
        self._clock = clock
        self._name = uuid.uuid4().hex
        self._turns = threading.local()
        self._closing = False
        # The attributes below are only used on the thread.
        self._next_id = 0
        self._unfinished: dict[int, _PendingOperation] = {}  # in the order of their numbers
        self._lines: dict[Key, deque[_PendingOperation]] = {}  # those that wait behind the first one
        self._ready: deque[_PendingOperation] = deque()
        self._requests: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._resting = False
        self._trouble = "no reply"
        self._outcomes: dict[
            asyncio.AbstractEventLoop, list[tuple[_PendingOperation, Any, Exception | None]]
        ] = {}
        self._idle = asyncio.Event()

    # For callers, on their event loops

    async def ask(
        self,
        operation: Operation,
        namespace: str,
        arguments: Mapping[str, Any],
        *,
        key: Key | None,
        patience_seconds: float,
    ) -> Any:
        """Send an operation and return its result.

        Raises:
            StoreUnavailable: There was no reply for ``patience_seconds``; the operation may or may not have been done.
            SignoffError: What the operation raises.
        """
        if self._closing:
            raise StoreUnavailable(self._url, "it is closed")
        loop = asyncio.get_running_loop()
        head = b'"namespace":%b,"do":"%b","arguments":' % (to_json(namespace), operation.name.encode())
        body = head + operation.write_arguments(arguments)
        pending = _PendingOperation(operation, body, key, patience_seconds, loop.create_future())
        self._gather(loop, pending)
        try:
            return await pending.future
        except asyncio.CancelledError:
            self._thread.call(self._abandon, pending)
            raise
        except (InvalidValue, PayloadTooLarge) as error:
            raise (_too_large(error, arguments) if error.path == "body" else error) from None

    def _gather(self, loop: asyncio.AbstractEventLoop, pending: _PendingOperation) -> None:
        turn: _Turn | None = getattr(self._turns, "turn", None)
        if turn is None or turn[0] is not loop:
            gathered: list[_PendingOperation] = []
            turn = self._turns.turn = (loop, gathered)
            loop.call_soon(self._hand_over, gathered)
        turn[1].append(pending)

    def _hand_over(self, gathered: list[_PendingOperation]) -> None:
        self._turns.turn = None
        self._thread.call(self._take, gathered)

    # On the thread

    async def close(self) -> None:
        """Finish what was sent, and give up the rest."""
        self._closing = True
        if self._unfinished:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await self._idle.wait()
        for task in self._requests:
            task.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        for pending in list(self._unfinished.values()):
            self._finish(pending, error=StoreUnavailable(self._url, "it is closed"))
        self._deliver()

    def _take(self, gathered: Iterable[_PendingOperation]) -> None:
        for pending in gathered:
            if pending.future.cancelled():
                continue
            if self._closing:
                self._finish(pending, error=StoreUnavailable(self._url, "it is closed"))
                continue
            pending.id = self._next_id
            self._next_id += 1
            self._unfinished[pending.id] = pending
            pending.expiry = self._thread.loop.call_later(pending.patience_seconds, self._expire, pending)
            if pending.key is None:
                self._ready.append(pending)
            elif pending.key in self._lines:
                self._lines[pending.key].append(pending)
            else:
                self._lines[pending.key] = deque()
                self._ready.append(pending)
        self._send()

    def _send(self) -> None:
        """Send what is ready, as connections allow."""
        while self._ready and not self._resting:
            # While the server does not reply, a single request probes it.
            if len(self._requests) >= (1 if self._failures else REQUESTS_AT_ONCE):
                return
            batch = self._next_batch()
            if batch:
                task = self._thread.loop.create_task(self._send_batch(batch), name="signoff request")
                self._requests.add(task)
                task.add_done_callback(self._batch_ended)

    def _next_batch(self) -> list[_PendingOperation]:
        batch: list[_PendingOperation] = []
        size = 0
        while self._ready and len(batch) < OPERATIONS_AT_ONCE:
            pending = self._ready[0]
            if pending.is_done:
                self._ready.popleft()
                self._release_next(pending)
                continue
            size += len(pending.body)
            if batch and size > BYTES_AT_ONCE:
                break
            self._ready.popleft()
            pending.was_sent = True
            batch.append(pending)
        return batch

    def _batch_ended(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request to %s failed because of a bug in Signoff", self._url, exc_info=error)
        self._send()

    async def _send_batch(self, batch: list[_PendingOperation]) -> None:
        """Send a batch and deliver the replies. Operations without a reply are put back."""
        waiting = {pending.id: pending for pending in batch}
        trouble: str | None = None
        try:
            trouble = await self._exchange(waiting)
        except httpx.TransportError as error:
            trouble = str(error) or type(error).__name__
        except Exception as error:
            for pending in waiting.values():
                self._finish(pending, error=error)
            raise
        finally:
            self._put_back(waiting.values())
            if trouble is None:
                self._succeeded()
            else:
                self._failed(trouble)

    async def _exchange(self, waiting: dict[int, _PendingOperation]) -> str | None:
        """Send one request, and remove those with a reply from ``waiting``. Returns what went wrong, if anything."""
        content = self._envelope(waiting.values())
        headers = {"content-type": "application/json"}
        sent_at = time.monotonic()
        async with self._client.stream("POST", PATH, content=content, headers=headers) as response:
            if response.status_code in _RETRIED:
                await response.aread()
                return f"it responded with {response.status_code} {response.reason_phrase}"
            if not response.is_success or NOW_HEADER not in response.headers:
                error = refusal(self._url, response.status_code, await response.aread())
                for pending in waiting.values():
                    self._finish(pending, error=error)
                return None
            self._clock.learn(float(response.headers[NOW_HEADER]), sent_at, time.monotonic())
            trouble: str | None = None
            async for line in read_lines(response.aiter_bytes()):
                trouble = self._take_reply(line, waiting) or trouble
        return trouble or ("the connection broke" if waiting else None)

    def _envelope(self, batch: Iterable[_PendingOperation]) -> bytes:
        floor = next(iter(self._unfinished), self._next_id)
        operations = b",".join(b'{"id":%d,%b}' % (pending.id, pending.body) for pending in batch)
        return b'{"client":"%b","floor":%d,"operations":[%b]}' % (self._name.encode(), floor, operations)

    def _take_reply(self, line: bytes, waiting: dict[int, _PendingOperation]) -> str | None:
        """Finish the operation that a reply is for. If its store was unavailable, leave it and return the reason."""
        try:
            reply = from_json(line)
            pending = waiting[reply["id"]]
            if "problem" not in reply:
                self._finish(pending, pending.operation.read_result(reply["result"]))
            else:
                error = from_problem(reply["problem"])
                if type(error) is StoreUnavailable:
                    return error.reason
                self._finish(pending, error=error or _failure(self._url, pending.operation, reply["problem"]))
            del waiting[pending.id]
            self._release_next(pending)
        except (ValueError, KeyError, TypeError) as error:
            return f"its response is invalid ({error})"
        return None

    def _put_back(self, unanswered: Iterable[_PendingOperation]) -> None:
        for pending in reversed(list(unanswered)):
            if pending.is_done:
                self._release_next(pending)
            else:
                self._ready.appendleft(pending)

    def _succeeded(self) -> None:
        if self._failures >= TROUBLE_AFTER:
            log.info("server %s is available again", self._url)
        self._failures = 0

    def _failed(self, trouble: str) -> None:
        self._failures += 1
        self._trouble = trouble
        if self._failures == TROUBLE_AFTER:
            log.warning("server %s is unavailable, still retrying: %s", self._url, trouble)
        if self._failures > 1 and not self._resting:  # the first may be a kept-alive connection that broke
            self._resting = True
            self._thread.loop.call_later(pause_seconds(self._failures - 1), self._rest_is_over)

    def _rest_is_over(self) -> None:
        self._resting = False
        self._send()

    # Outcomes

    def _expire(self, pending: _PendingOperation) -> None:
        reason = f"no reply for {pending.patience_seconds:g} s ({self._trouble})"
        self._finish(pending, error=StoreUnavailable(self._url, reason))

    def _abandon(self, pending: _PendingOperation) -> None:
        """Give up an operation whose caller is gone. One that may have been done is still sent, to keep the order."""
        if not pending.was_sent:
            self._finish(pending)

    def _finish(
        self, pending: _PendingOperation, result: Any = None, *, error: Exception | None = None
    ) -> None:
        if pending.is_done:
            return
        pending.is_done = True
        if pending.expiry is not None:
            pending.expiry.cancel()
        self._unfinished.pop(pending.id, None)
        if not self._unfinished:
            self._idle.set()
        if not self._outcomes:
            self._thread.loop.call_soon(self._deliver)
        self._outcomes.setdefault(pending.future.get_loop(), []).append((pending, result, error))

    def _release_next(self, pending: _PendingOperation) -> None:
        """Release the next operation with the same key."""
        if pending.key is None:
            return
        line = self._lines[pending.key]
        while line:
            following = line.popleft()
            if not following.is_done:
                self._ready.append(following)
                self._thread.loop.call_soon(self._send)
                return
        del self._lines[pending.key]

    def _deliver(self) -> None:
        outcomes_by_loop, self._outcomes = self._outcomes, {}
        for loop, outcomes in outcomes_by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits
                loop.call_soon_threadsafe(_resolve, outcomes)


def _resolve(outcomes: list[tuple[_PendingOperation, Any, Exception | None]]) -> None:
    for pending, result, error in outcomes:
        if pending.future.done():
            continue
        if error is None:
            pending.future.set_result(result)
        else:
            pending.future.set_exception(error)


def pause_seconds(failures: int) -> float:
    """Return how long to wait before the next attempt, after so many consecutive failures."""
    return min(FIRST_PAUSE_SECONDS * 2 ** (failures - 1), LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)


def refusal(url: str, status: int, content: bytes) -> SignoffError:
    """Return the error for a response to a whole request."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        error = from_problem(from_json(content))
        if error is not None:
            return error
    return StoreUnavailable(url, f"it responded with {status}, unlike a signoff server for workers")


def _failure(url: str, operation: Operation, problem: Mapping[str, Any]) -> StoreError:
    return StoreError(f"server {url} failed to perform {operation.name}: {problem.get('detail')}")


def _too_large(error: InvalidValue | PayloadTooLarge, arguments: Mapping[str, Any]) -> SignoffError:
    """Turn the refusal of a request that is too large into one of the largest value that its run writes."""
    write, outcome = arguments.get("write"), arguments.get("outcome")
    if not isinstance(write, Write):
        return error
    written = [(entry, text) for entry in write.entries if (text := entry.value or entry.error) is not None]
    values = {
        (
            "the arguments (a flow's state)"
            if entry.kind is EntryKind.CONTINUED
            else f"the value of call {entry.n}"
        ): text
        for entry, text in written
    }
    if isinstance(outcome, Outcome) and (result := outcome.result or outcome.error) is not None:
        values["the result (a flow's state)"] = result
    if not values:
        return error
    name = max(values, key=lambda each: len(values[each]))
    of_run, size = f"{name} of run {write.run_id!r}", len(values[name].encode())
    if isinstance(error, PayloadTooLarge):
        return PayloadTooLarge(of_run, size, error.limit)
    return InvalidValue(
        of_run,
        f"{size:,} bytes as JSON exceed what the server accepts: {error.reason}. Store large parts elsewhere and keep "
        "references to them, or connect the worker to the database itself",
    )
