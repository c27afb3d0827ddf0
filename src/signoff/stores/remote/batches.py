"""Operations on their way to a server: gathered, sent in batches, and sent again until there is a reply.

What one turn of an event loop asks for travels in one request. Each operation has a number, under which the server
gives a repeated one the reply it gave before; once the server was restarted, the contract's own rules for
repetitions do that (see ``stores.base``). Operations of one run are sent one after the other.
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
GRACE_SECONDS: Final = 5.0  # for what is under way when the store is closed
TROUBLE_AFTER: Final = 3  # failures in a row before anybody is told

_RETRIED = frozenset({408, 425, 429, *range(500, 600)})


class _Asked:
    """One operation that somebody waits for.

    Attributes:
        operation: Which.
        body: It, as JSON without its number.
        key: What it stands in line for; one of a line is under way at a time.
        patience_seconds: How long to try.
        future: Who waits.
        id: Its number.
        was_sent: Whether it may have been done.
        is_done: Whether it has an outcome.
        expiry: When patience ends.
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


_Turn = tuple[asyncio.AbstractEventLoop, list[_Asked]]


class Batches:
    """Takes operations from any number of event loops and threads.

    Args:
        thread: Where it works.
        client: Connections to the server; belongs to the caller.
        url: The server, for messages.
        clock: Told what replies say of the server's time.
    """

    def __init__(self, thread: LoopThread, client: httpx.AsyncClient, url: str, clock: RemoteClock) -> None:
        self._thread = thread
        self._client = client
        self._url = url
        self._clock = clock
        self._name = uuid.uuid4().hex
        self._turns = threading.local()
        self._closing = False
        # All below belongs to the thread.
        self._next_id = 0
        self._unfinished: dict[int, _Asked] = {}  # in the order of their numbers
        self._lines: dict[Key, deque[_Asked]] = {}  # who waits behind the one that goes first
        self._ready: deque[_Asked] = deque()
        self._requests: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._resting = False
        self._trouble = "no reply"
        self._told: dict[asyncio.AbstractEventLoop, list[tuple[_Asked, Any, Exception | None]]] = {}
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
        """Have an operation done and return its result.

        Raises:
            StoreUnavailable: There was no reply for ``patience_seconds``; it may have been done or not.
            SignoffError: What the operation raises.
        """
        if self._closing:
            raise StoreUnavailable(self._url, "it is closed")
        loop = asyncio.get_running_loop()
        head = b'"namespace":%b,"do":"%b","arguments":' % (to_json(namespace), operation.name.encode())
        body = head + operation.write_arguments(arguments)
        asked = _Asked(operation, body, key, patience_seconds, loop.create_future())
        self._gather(loop, asked)
        try:
            return await asked.future
        except asyncio.CancelledError:
            self._thread.call(self._abandon, asked)
            raise
        except (InvalidValue, PayloadTooLarge) as error:
            raise (_too_large(error, arguments) if error.path == "body" else error) from None

    def _gather(self, loop: asyncio.AbstractEventLoop, asked: _Asked) -> None:
        turn: _Turn | None = getattr(self._turns, "turn", None)
        if turn is None or turn[0] is not loop:
            gathered: list[_Asked] = []
            turn = self._turns.turn = (loop, gathered)
            loop.call_soon(self._hand_over, gathered)
        turn[1].append(asked)

    def _hand_over(self, gathered: list[_Asked]) -> None:
        self._turns.turn = None
        self._thread.call(self._take, gathered)

    # On the thread

    async def close(self) -> None:
        """Finish what was begun, and give up the rest."""
        self._closing = True
        if self._unfinished:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await self._idle.wait()
        for task in self._requests:
            task.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        for asked in list(self._unfinished.values()):
            self._finish(asked, error=StoreUnavailable(self._url, "it is closed"))
        self._tell()

    def _take(self, gathered: Iterable[_Asked]) -> None:
        for asked in gathered:
            if asked.future.cancelled():
                continue
            if self._closing:
                self._finish(asked, error=StoreUnavailable(self._url, "it is closed"))
                continue
            asked.id = self._next_id
            self._next_id += 1
            self._unfinished[asked.id] = asked
            asked.expiry = self._thread.loop.call_later(asked.patience_seconds, self._expire, asked)
            if asked.key is None:
                self._ready.append(asked)
            elif asked.key in self._lines:
                self._lines[asked.key].append(asked)
            else:
                self._lines[asked.key] = deque()
                self._ready.append(asked)
        self._send()

    def _send(self) -> None:
        """Send what is ready, as far as there are connections."""
        while self._ready and not self._resting:
            # As long as the server does not reply, one request tries whether it does again.
            if len(self._requests) >= (1 if self._failures else REQUESTS_AT_ONCE):
                return
            batch = self._next_batch()
            if batch:
                task = self._thread.loop.create_task(self._carry(batch), name="signoff request")
                self._requests.add(task)
                task.add_done_callback(self._carried)

    def _next_batch(self) -> list[_Asked]:
        batch: list[_Asked] = []
        size = 0
        while self._ready and len(batch) < OPERATIONS_AT_ONCE:
            asked = self._ready[0]
            if asked.is_done:
                self._ready.popleft()
                self._leave_line(asked)
                continue
            size += len(asked.body)
            if batch and size > BYTES_AT_ONCE:
                break
            self._ready.popleft()
            asked.was_sent = True
            batch.append(asked)
        return batch

    def _carried(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request to %s failed by an error of ours", self._url, exc_info=error)
        self._send()

    async def _carry(self, batch: list[_Asked]) -> None:
        """Send a batch and hand out the replies. What gets none is put back."""
        waiting = {asked.id: asked for asked in batch}
        trouble: str | None = None
        try:
            trouble = await self._exchange(waiting)
        except httpx.TransportError as error:
            trouble = str(error) or type(error).__name__
        except Exception as error:
            for asked in waiting.values():
                self._finish(asked, error=error)
            raise
        finally:
            self._put_back(waiting.values())
            if trouble is None:
                self._succeeded()
            else:
                self._failed(trouble)

    async def _exchange(self, waiting: dict[int, _Asked]) -> str | None:
        """Send one request, and take those out of ``waiting`` that were answered. Returns what went wrong."""
        content = self._envelope(waiting.values())
        headers = {"content-type": "application/json"}
        sent_at = time.monotonic()
        async with self._client.stream("POST", PATH, content=content, headers=headers) as response:
            if response.status_code in _RETRIED:
                await response.aread()
                return f"it answered {response.status_code} {response.reason_phrase}"
            if not response.is_success or NOW_HEADER not in response.headers:
                error = refusal(self._url, response.status_code, await response.aread())
                for asked in waiting.values():
                    self._finish(asked, error=error)
                return None
            self._clock.learn(float(response.headers[NOW_HEADER]), sent_at, time.monotonic())
            trouble: str | None = None
            async for line in read_lines(response.aiter_bytes()):
                trouble = self._take_reply(line, waiting) or trouble
        return trouble or ("the connection broke" if waiting else None)

    def _envelope(self, batch: Iterable[_Asked]) -> bytes:
        floor = next(iter(self._unfinished), self._next_id)
        operations = b",".join(b'{"id":%d,%b}' % (asked.id, asked.body) for asked in batch)
        return b'{"client":"%b","floor":%d,"operations":[%b]}' % (self._name.encode(), floor, operations)

    def _take_reply(self, line: bytes, waiting: dict[int, _Asked]) -> str | None:
        """Finish the operation that a reply is about, unless its store was not available: say that."""
        try:
            reply = from_json(line)
            asked = waiting[reply["id"]]
            if "problem" not in reply:
                self._finish(asked, asked.operation.read_result(reply["result"]))
            else:
                error = from_problem(reply["problem"])
                if type(error) is StoreUnavailable:
                    return error.reason
                self._finish(asked, error=error or _failure(self._url, asked.operation, reply["problem"]))
            del waiting[asked.id]
            self._leave_line(asked)
        except (ValueError, KeyError, TypeError) as error:
            return f"what it answers is not understood ({error})"
        return None

    def _put_back(self, unanswered: Iterable[_Asked]) -> None:
        for asked in reversed(list(unanswered)):
            if asked.is_done:
                self._leave_line(asked)
            else:
                self._ready.appendleft(asked)

    def _succeeded(self) -> None:
        if self._failures >= TROUBLE_AFTER:
            log.info("server %s serves again", self._url)
        self._failures = 0

    def _failed(self, trouble: str) -> None:
        self._failures += 1
        self._trouble = trouble
        if self._failures == TROUBLE_AFTER:
            log.warning("server %s does not serve, still trying: %s", self._url, trouble)
        if self._failures > 1 and not self._resting:  # a kept connection may break; the second failure counts
            self._resting = True
            self._thread.loop.call_later(pause_seconds(self._failures - 1), self._rest_is_over)

    def _rest_is_over(self) -> None:
        self._resting = False
        self._send()

    # Outcomes

    def _expire(self, asked: _Asked) -> None:
        reason = f"no reply for {asked.patience_seconds:g} s ({self._trouble})"
        self._finish(asked, error=StoreUnavailable(self._url, reason))

    def _abandon(self, asked: _Asked) -> None:
        """Nobody waits any more. What may have been done is still sent until it was, so that nothing overtakes it."""
        if not asked.was_sent:
            self._finish(asked)

    def _finish(self, asked: _Asked, result: Any = None, *, error: Exception | None = None) -> None:
        if asked.is_done:
            return
        asked.is_done = True
        if asked.expiry is not None:
            asked.expiry.cancel()
        self._unfinished.pop(asked.id, None)
        if not self._unfinished:
            self._idle.set()
        if not self._told:
            self._thread.loop.call_soon(self._tell)
        self._told.setdefault(asked.future.get_loop(), []).append((asked, result, error))

    def _leave_line(self, asked: _Asked) -> None:
        """Let the next one of the same key go."""
        if asked.key is None:
            return
        line = self._lines[asked.key]
        while line:
            following = line.popleft()
            if not following.is_done:
                self._ready.append(following)
                self._thread.loop.call_soon(self._send)
                return
        del self._lines[asked.key]

    def _tell(self) -> None:
        told, self._told = self._told, {}
        for loop, outcomes in told.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(_resolve, outcomes)


def _resolve(outcomes: list[tuple[_Asked, Any, Exception | None]]) -> None:
    for asked, result, error in outcomes:
        if asked.future.done():
            continue
        if error is None:
            asked.future.set_result(result)
        else:
            asked.future.set_exception(error)


def pause_seconds(failures: int) -> float:
    """How long to wait before the next attempt, after so many failures in a row."""
    return min(FIRST_PAUSE_SECONDS * 2 ** (failures - 1), LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)


def refusal(url: str, status: int, content: bytes) -> SignoffError:
    """Return the error that a whole response stands for."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        error = from_problem(from_json(content))
        if error is not None:
            return error
    return StoreUnavailable(url, f"it answered {status}, not as a signoff server for workers does")


def _failure(url: str, operation: Operation, problem: Mapping[str, Any]) -> StoreError:
    return StoreError(f"server {url} failed at {operation.name}: {problem.get('detail')}")


def _too_large(error: InvalidValue | PayloadTooLarge, arguments: Mapping[str, Any]) -> SignoffError:
    """Return the refusal of a request that is too large as one of the largest value that its run writes."""
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
        f"{size:,} bytes as JSON are too many for the server: {error.reason}. Store large parts elsewhere and keep "
        "references to them, or run the worker with the database itself",
    )
