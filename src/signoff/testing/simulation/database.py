"""The store of a simulated world over an unreliable network: calls fail, stall and lose replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from signoff.errors import StoreUnavailable
from signoff.runtime.clock import Clock
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Change, Store

if TYPE_CHECKING:
    from signoff.testing.simulation.process import Process
    from signoff.testing.simulation.world import World

WIRE_SECONDS = 0.002  # the longest delay of a request or a reply
HARM = 0.03  # fraction of operations that crash or freeze their process, if all processes do so
NOTICE_SECONDS = 3.0  # the longest delay of a late notification


class Database:
    """One store for all processes. An operation in progress completes even if its caller has died.

    Args:
        world: The world.
        store: The store; its methods must not wait.

    Attributes:
        is_down: Whether the store is currently down.
    """

    def __init__(self, world: World, store: Store) -> None:
        self.store = store
        self.is_down = False
        self._world = world
        self._committing: Process | None = None

    def send(
        self, process: Process, operation: Operation, arguments: dict[str, Any], reply: asyncio.Future[Any]
    ) -> None:
        """Receive an operation from a process."""
        world, faults, source = self._world, self._world.faults, self._world.random
        wire = source.random() * WIRE_SECONDS
        if faults.unavailable and source.random() < faults.unavailable:
            process.loop.call_later(wire, self._fail, process, operation, "it refuses connections", reply)
            return
        if faults.stalls and source.random() < faults.stalls:
            wire += source.random() * faults.stall_seconds
        world.call_later(wire, self._do, process, process.loop, operation, arguments, reply)

    def _do(
        self,
        process: Process,
        loop: asyncio.AbstractEventLoop,
        operation: Operation,
        arguments: dict[str, Any],
        reply: asyncio.Future[Any],
    ) -> None:
        world, faults, source = self._world, self._world.faults, self._world.random
        wire = source.random() * WIRE_SECONDS
        if self.is_down:
            loop.call_later(wire, self._fail, process, operation, "it is down", reply)
            return
        self._committing = process
        given = tuple(arguments.values())
        world.observer.before(operation.name, given)
        try:
            outcome, error = _at_once(operation.call(self.store, arguments)), None
        except Exception as raised:
            outcome, error = None, raised
        self._committing = None
        world.observer.after(process.name, operation.name, given, outcome, error)
        if not process.is_spared:
            self._harm(process)
        if faults.lost_replies and source.random() < faults.lost_replies:
            world.note(process.name, operation.name, "its reply is lost")
            wire += source.random() * 2
            loop.call_later(wire, self._fail, process, operation, "the connection was lost", reply)
            return
        if faults.stalls and source.random() < faults.stalls:
            wire += source.random() * faults.stall_seconds
        loop.call_later(wire, _reply, reply, outcome, error)

    def _harm(self, process: Process) -> None:
        """Crash or freeze a process after its operation, before the reply arrives."""
        faults, source = self._world.faults, self._world.random
        if faults.crashes and source.random() < faults.crashes * HARM:
            process.crash()
        elif faults.freezes and source.random() < faults.freezes * HARM:
            process.freeze(source.random() * faults.freeze_seconds)

    def _fail(self, process: Process, operation: Operation, reason: str, reply: asyncio.Future[Any]) -> None:
        self._world.note(process.name, operation.name, reason)
        _reply(reply, None, StoreUnavailable(self.store.location, reason))

    def listen(self, process: Process, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Notify a process of commits: its own at once, others' after a delay."""
        world, loop = self._world, process.loop

        def noticed(change: Change) -> None:
            faults, source = world.faults, world.random
            if faults.lost_notices and source.random() < faults.lost_notices:
                return
            known = change if self._committing is process or source.random() < 0.5 else Change(runs=None)
            wire = source.random() * WIRE_SECONDS
            if faults.late_notices and source.random() < faults.late_notices:
                wire += source.random() * NOTICE_SECONDS
            loop.call_later(wire, callback, known)
            if faults.repeated_notices and source.random() < faults.repeated_notices:
                loop.call_later(wire + source.random() * NOTICE_SECONDS, callback, known)

        return self.store.listen(noticed)


class RemoteStore(Store):
    """The store as one process sees it: the contract of ``signoff.stores.contract.store.Store``, with delays.

    Args:
        database: Performs the operations.
        process: The calling process.
        clock: The process's view of the store's time.
    """

    namespace = "default"

    def __init__(self, database: Database, process: Process, clock: Clock) -> None:
        self.clock = clock
        self.lease_seconds = database.store.lease_seconds
        self._database = database
        self._process = process

    @property
    def location(self) -> str:
        return "simulated"

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def within(self, namespace: str) -> RemoteStore:
        assert namespace == self.namespace, "a simulated world has one namespace"
        return self

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        end = self._database.listen(self._process, callback)
        self._process.on_end(end)
        return end

    def hold_leases(self) -> None:
        """Do nothing: whether a simulated process loses its leases is up to the database."""

    async def check_writable(self) -> None:
        """Do nothing: whether the database takes writes is known when it is asked."""

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        reply = self._process.loop.create_future()
        self._database.send(self._process, operation, arguments, reply)
        return await reply


def _at_once(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise AssertionError("the store of a simulation may not wait")


def _reply(reply: asyncio.Future[Any], outcome: Any, error: Exception | None) -> None:
    if reply.done():
        return  # the caller was cancelled
    if error is None:
        reply.set_result(outcome)
    else:
        reply.set_exception(error)
        reply.exception()  # mark as retrieved: the caller may be cancelled before it reads the error
