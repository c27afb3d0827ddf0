"""Reader threads beside a database's writer, for work that needs no group commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from signoff.errors import StoreUnavailable


class Connection(Protocol):
    """The connection of a reader thread."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)
T = TypeVar("T")


class Gate:
    """Admits any number of threads until it is shut."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_shut = False

    def __enter__(self) -> None:
        with self._changed:
            while self._is_shut:
                self._changed.wait()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            if self._is_shut:
                self._changed.notify_all()

    def shut(self, seconds: float) -> bool:
        """Admit no more threads, and wait until all have left. Returns False if that takes longer."""
        with self._changed:
            self._is_shut = True
            return self._changed.wait_for(lambda: self._inside == 0, seconds)

    def open(self) -> None:
        """Admit threads again."""
        with self._changed:
            self._is_shut = False
            self._changed.notify_all()


class Readers(Generic[C]):
    """Threads that each open a connection when they first need one.

    Args:
        count: Number of threads.
        name: Name of the threads.
        location: The database's address without secrets, for messages.
        connect: Opens a connection.
    """

    def __init__(self, count: int, *, name: str, location: str, connect: Callable[[], C]) -> None:
        self._count = count
        self._name = name
        self._location = location
        self._connect = connect
        self._threads: ThreadPoolExecutor | None = None
        self._connections: set[C] = set()
        self._mine = threading.local()

    def open(self) -> None:
        """Start the threads, also after a close."""
        self._mine = threading.local()
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix=self._name)

    def close(self) -> None:
        """Finish the work that has begun, and disconnect. Safe to call twice."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()
        self.disconnect_all()

    def disconnect_all(self) -> None:
        """Close all connections, which no thread may be using. Each thread then opens a new one."""
        self._mine = threading.local()
        while self._connections:
            self._connections.pop().close()

    def inherited(self) -> list[object]:
        """Drop the threads and connections inherited from the process that forked this one, and return them."""
        left: list[object] = [self._threads, self._mine, self._connections]
        self._threads, self._mine, self._connections = None, threading.local(), set()
        return left

    async def call(self, work: Callable[[], T]) -> T:
        """Call a function on one of the threads, and return its result.

        Raises:
            StoreUnavailable: The threads are closed, or the system cannot start another thread.
        """
        return await asyncio.wrap_future(self.start(work))

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Start a function on one of the threads.

        Raises:
            StoreUnavailable: The threads are closed, or the system cannot start another thread.
        """
        threads = self._threads
        if threads is None:
            raise StoreUnavailable(self._location, "it is closed")
        try:
            return threads.submit(work)
        except RuntimeError as error:
            is_open = self._threads is threads
            raise StoreUnavailable(self._location, str(error) if is_open else "it is closed") from None

    # On the threads

    def connection(self) -> C:
        """Return this thread's connection."""
        connection: C | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = self._connect()
            self._connections.add(connection)
        return connection

    def disconnect(self) -> None:
        """Close this thread's connection; the next use opens a new one."""
        connection: C = self._mine.connection
        del self._mine.connection
        self._connections.discard(connection)
        connection.close()
