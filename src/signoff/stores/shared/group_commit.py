"""Group commit: operations of one turn of an event loop are gathered and committed together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from signoff.errors import SignoffError
from signoff.runtime.loggers import own_logger

T = TypeVar("T")

log = own_logger("signoff.store")

FEW: Final = 4  # times as many operations in the last group: this one waits for another turn, once


class Operation(Generic[T]):
    """An operation of a store, and its outcome.

    Attributes:
        future: The future that its caller awaits; None if the operation was done at once.
        error: The error to raise for its caller.
        result: The result otherwise.
    """

    __slots__ = ("error", "future", "result")

    def __init__(self) -> None:
        self.future: asyncio.Future[T] | None = None
        self.error: BaseException | None = None
        self.result: Any = None

    def fail(self, error: BaseException) -> None:
        """Set the error to raise for the caller.

        Signoff's own errors lose their traceback: its frames hold the rows that were read, and through their callers
        the replies to the whole batch.
        """
        self.error = error.with_traceback(None) if isinstance(error, SignoffError) else error

    def wait(self) -> asyncio.Future[T]:
        """Return a future of this event loop, resolved by ``resolve``."""
        self.future = future = asyncio.get_running_loop().create_future()
        return future

    def outcome(self) -> T:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result

    def resolve(self) -> None:
        """Resolve the future, on its event loop."""
        if self.future is None or self.future.done():  # done: its caller was cancelled
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


Op = TypeVar("Op", bound=Operation[Any])


class _Group(Generic[Op]):
    """The operations of one turn of an event loop.

    Attributes:
        is_open: Whether operations are gathered for the end of this turn.
        crowded: Whether several tasks wrote in the turn before.
        writer: The id of the task that wrote first in this turn, or last before it.
        others: Whether other tasks write in this turn.
        last_size: The number of operations in the last group that was not empty.
        has_waited: Whether this group has waited for another turn.
    """

    __slots__ = ("batch", "crowded", "has_waited", "is_open", "last_size", "loop", "others", "writer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_open = False
        self.crowded = False
        self.writer = 0
        self.others = False
        self.last_size = 0
        self.has_waited = False
        self.batch: list[Op] = []

    @property
    def should_wait(self) -> bool:
        """Whether most writers of the last group are between two writes, and are expected in the next turn."""
        return not self.has_waited and 0 < FEW * len(self.batch) < self.last_size

    def open(self, writer: int) -> None:
        self.is_open = True
        self.has_waited = False
        self.writer = writer
        self.others = False

    def close(self) -> list[Op]:
        self.is_open = False
        self.crowded = self.others
        batch, self.batch = self.batch, []
        self.last_size = len(batch) or self.last_size
        return batch


class GroupCommit(Generic[Op]):
    """Gathers operations by turns of event loops, on any number of event loops.

    If only one task writes, its operation does not wait for the end of the turn. If that task was also the last to
    write before, the loop does not even schedule a check for other writers.

    If far fewer operations are gathered than the time before, they wait for one more turn. Otherwise tasks that run in
    step would stay in two groups, with a commit each.

    Args:
        commit_at_once: Commits a single operation immediately, if that is quick. Returns whether it did, or has started
            to and resolves the operation later.
        commit: Receives the operations of a turn at its end, and resolves them sooner or later.
    """

    def __init__(self, commit_at_once: Callable[[Op], bool], commit: Callable[[list[Op]], None]) -> None:
        self._commit_at_once = commit_at_once
        self._commit = commit
        self._groups = threading.local()

    async def do(self, operation: Op) -> Any:
        """Do an operation, and return its result once it is durable.

        It is done as a whole or not at all, even if the caller is cancelled.
        """
        loop = asyncio.get_running_loop()
        writer = id(asyncio.current_task(loop))
        group = self._group_of(loop)
        if not group.is_open:
            if group.crowded or writer != group.writer:
                self._begin(group, writer)
            if not group.crowded and self._commit_at_once(operation):
                return operation.outcome() if operation.future is None else await operation.future
            if not group.is_open:
                self._begin(group, writer)
        elif writer != group.writer:
            group.others = True
        group.batch.append(operation)
        return await operation.wait()

    def _group_of(self, loop: asyncio.AbstractEventLoop) -> _Group[Op]:
        group: _Group[Op] | None = getattr(self._groups, "group", None)
        if group is None or group.loop is not loop:
            group = self._groups.group = _Group[Op](loop)
        return group

    def _begin(self, group: _Group[Op], writer: int) -> None:
        group.open(writer)
        group.loop.call_soon(self._end, group)

    def _end(self, group: _Group[Op]) -> None:
        if group.should_wait:
            group.has_waited = True
            group.loop.call_soon(self._end, group)
            return
        batch = group.close()
        if batch:
            self._commit(batch)


def resolve(operations: Sequence[Operation[Any]]) -> None:
    """Resolve operations from another thread, with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Operation[Any]]] = {}
    for operation in operations:
        if operation.future is not None:
            by_loop.setdefault(operation.future.get_loop(), []).append(operation)
    for loop, theirs in by_loop.items():
        try:
            loop.call_soon_threadsafe(resolve_here, theirs)
        except RuntimeError:  # the loop is closed: nothing awaits them
            log.debug("the event loop of %d operations was closed before they were committed", len(theirs))


def resolve_here(operations: Sequence[Operation[Any]]) -> None:
    """Resolve operations of this event loop."""
    for operation in operations:
        operation.resolve()
