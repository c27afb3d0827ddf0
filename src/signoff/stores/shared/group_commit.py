"""Operations asked for in one turn of an event loop, gathered so that they are committed together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from signoff.errors import SignoffError
from signoff.runtime.loggers import own_logger

T = TypeVar("T")

log = own_logger("signoff.store")


class Operation(Generic[T]):
    """Something that a store was asked to do, and what came of it.

    Attributes:
        future: Who waits for it, if somebody does: what is done at once is waited for by nobody.
        error: What it raises for its caller.
        result: What it returns otherwise.
    """

    __slots__ = ("error", "future", "result")

    def __init__(self) -> None:
        self.future: asyncio.Future[T] | None = None
        self.error: BaseException | None = None
        self.result: Any = None

    def fail(self, error: BaseException) -> None:
        """Keep what the operation raises for its caller.

        One of Signoff's own errors leaves its frames behind: they hold the rows that were read, and through their
        callers the replies to the whole batch.
        """
        self.error = error.with_traceback(None) if isinstance(error, SignoffError) else error

    def wait(self) -> asyncio.Future[T]:
        """Return a future of this event loop, which ``tell`` resolves."""
        self.future = future = asyncio.get_running_loop().create_future()
        return future

    def outcome(self) -> T:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result

    def tell(self) -> None:
        """Resolve the future, on its event loop."""
        if self.future is None or self.future.done():  # done: its caller was cancelled
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


Op = TypeVar("Op", bound=Operation[Any])


class _Group(Generic[Op]):
    """What one turn of an event loop asks for, and whether the turn before had several tasks asking.

    Attributes:
        asker: The id of the task that asked first in this turn, or last before it.
    """

    __slots__ = ("asker", "batch", "crowded", "is_open", "loop", "others")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_open = False
        self.crowded = False
        self.asker = 0
        self.others = False
        self.batch: list[Op] = []

    def open(self, asker: int) -> None:
        self.is_open = True
        self.asker = asker
        self.others = False

    def close(self) -> list[Op]:
        self.is_open = False
        self.crowded = self.others
        batch, self.batch = self.batch, []
        return batch


class GroupCommit(Generic[Op]):
    """Gathers operations by turns, on any number of event loops.

    When only one task writes, its operation does not wait for the end of the turn; and if it was the last to write
    before that, nobody looks whether others write in this turn.

    Args:
        commit_at_once: Commits a single operation on the spot, if that is quick. Returns whether it did, or began to
            and has somebody tell of the rest.
        commit: Given the operations of a turn at its end; tells them what came of them sooner or later.
    """

    def __init__(self, commit_at_once: Callable[[Op], bool], commit: Callable[[list[Op]], None]) -> None:
        self._commit_at_once = commit_at_once
        self._commit = commit
        self._turns = threading.local()

    async def do(self, operation: Op) -> Any:
        """Have an operation done, and return its result when that is durable.

        It is done or not done as a whole, even if the caller is cancelled.
        """
        loop = asyncio.get_running_loop()
        asker = id(asyncio.current_task(loop))
        turn = self._turn_of(loop)
        if not turn.is_open:
            if turn.crowded or asker != turn.asker:
                self._begin_turn(turn, asker)
            if not turn.crowded and self._commit_at_once(operation):
                return operation.outcome() if operation.future is None else await operation.future
            if not turn.is_open:
                self._begin_turn(turn, asker)
        elif asker != turn.asker:
            turn.others = True
        turn.batch.append(operation)
        return await operation.wait()

    def _turn_of(self, loop: asyncio.AbstractEventLoop) -> _Group[Op]:
        turn: _Group[Op] | None = getattr(self._turns, "turn", None)
        if turn is None or turn.loop is not loop:
            turn = self._turns.turn = _Group[Op](loop)
        return turn

    def _begin_turn(self, turn: _Group[Op], asker: int) -> None:
        turn.open(asker)
        turn.loop.call_soon(self._end_turn, turn)

    def _end_turn(self, turn: _Group[Op]) -> None:
        batch = turn.close()
        if batch:
            self._commit(batch)


def tell(operations: Sequence[Operation[Any]]) -> None:
    """Resolve the futures from another thread, with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Operation[Any]]] = {}
    for operation in operations:
        if operation.future is not None:
            by_loop.setdefault(operation.future.get_loop(), []).append(operation)
    for loop, theirs in by_loop.items():
        try:
            loop.call_soon_threadsafe(tell_here, theirs)
        except RuntimeError:  # the loop is closed: nobody waits
            log.debug("the event loop of %d operations was closed before they were committed", len(theirs))


def tell_here(operations: Sequence[Operation[Any]]) -> None:
    """Resolve the futures of operations of this event loop."""
    for operation in operations:
        operation.tell()
