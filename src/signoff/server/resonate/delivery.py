"""Sends the messages of a namespace: tasks to execute, and settled promises, to processes and URLs.

Messages are rows of the store until they are taken, so any number of servers send them. A message that no process
reacts to is taken again after ``RESEND_SECONDS``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic_core import to_json

from signoff.errors import SignoffError
from signoff.records.tasks import PUSH_QUEUE, TaskMessage, TaskState
from signoff.runtime.loggers import own_logger
from signoff.server.resonate.addresses import PollAddress, PushAddress, queues_of, read_address
from signoff.server.resonate.durable_promises import to_record
from signoff.server.resonate.push import Push
from signoff.stores.contract.store import Change, Store
from signoff.stores.shared.listed_payloads import PAGE_BYTES, bytes_of

log = own_logger("signoff.server")

LOOK_SECONDS: Final = 1.0
"""The longest wait between two looks: a message may become due without a commit."""

AFTER_ERROR_SECONDS: Final = 2.0

MOST_AT_ONCE: Final = 500
"""Messages that are taken at once."""

MOST_UNSENT: Final = 1000
"""Messages that wait for one connection. Its queues are then left alone, for others to take from."""


class Connection:
    """A process that polls.

    Args:
        group: Its group.
        pid: Its id.

    Attributes:
        added: Set when there are messages to send, or the connection is to end.
        is_replaced: Whether the process has connected again, so that this connection is to end.
    """

    def __init__(self, group: str, pid: str) -> None:
        self.group = group
        self.pid = pid
        self.added = asyncio.Event()
        self.is_replaced = False
        self._unsent: deque[TaskMessage] = deque()
        self._unsent_bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether it takes further messages."""
        return len(self._unsent) < MOST_UNSENT and self._unsent_bytes < PAGE_BYTES

    def add(self, message: TaskMessage) -> None:
        """Send a message."""
        self._unsent.append(message)
        if message.promise is not None:
            self._unsent_bytes += bytes_of(message.promise)
        self.added.set()

    def take(self) -> Sequence[TaskMessage]:
        """Return the messages to send now."""
        self.added.clear()
        messages = tuple(self._unsent)
        self._unsent.clear()
        self._unsent_bytes = 0
        return messages


class Delivery:
    """Takes due messages of one namespace for the processes that poll this server, and for URLs.

    Args:
        store: An open store, bound to the namespace.
        server_url: The URL of this server, for the receivers of tasks.
        push: Posts messages to URLs.
    """

    def __init__(self, store: Store, server_url: str, push: Push) -> None:
        self._store = store
        self._server_url = server_url
        self._push = push
        self._loop = asyncio.get_running_loop()
        self._connections: list[Connection] = []
        self._next = 0
        self._due = asyncio.Event()
        self._stop_listening = store.listen(self._noticed)
        self._finishing: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._run(), name=f"signoff resonate messages {store.namespace}")

    @property
    def groups(self) -> set[str]:
        """The groups of the processes that poll."""
        return {connection.group for connection in self._connections}

    def connect(self, group: str, pid: str, *, replaces: bool = False) -> Connection:
        """Add a process that polls.

        Args:
            group: Its group.
            pid: Its id.
            replaces: Whether its earlier connections end.
        """
        connection = Connection(group, pid)
        if replaces:
            for earlier in [each for each in self._connections if (each.group, each.pid) == (group, pid)]:
                earlier.is_replaced = True
                earlier.added.set()
                self._connections.remove(earlier)
        self._connections.append(connection)
        self._due.set()
        return connection

    def disconnect(self, connection: Connection, unconfirmed: Sequence[TaskMessage] = ()) -> None:
        """Remove a process that polls no longer.

        Args:
            connection: Its connection.
            unconfirmed: Messages that it may not have received. They are sent to the others of its group.
        """
        if not connection.is_replaced:
            self._connections.remove(connection)
        if unconfirmed:
            self._begin(self._send_again(unconfirmed))

    def written(self, messages: Sequence[TaskMessage]) -> bytes:
        """Return messages as server-sent events."""
        return b"".join(b"data: %b\n\n" % to_json(self.to_wire(message)) for message in messages)

    def to_wire(self, message: TaskMessage) -> dict[str, Any]:
        """Return a message as plain JSON data."""
        if message.task is not None:
            task = {"id": message.task.id, "version": message.task.version}
            return {"kind": "execute", "head": {"serverUrl": self._server_url}, "data": {"task": task}}
        assert message.promise is not None
        return {"kind": "unblock", "head": {}, "data": {"promise": to_record(message.promise)}}

    def sent(self, messages: Sequence[TaskMessage]) -> None:
        """Note that messages have been sent: settled promises are not sent again."""
        for message in messages:
            if message.promise is not None:
                self._begin(self._finish(message.promise.id, message.address))

    async def close(self) -> None:
        """Stop."""
        self._stop_listening()
        tasks = {self._task, *self._finishing}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    def _noticed(self, change: Change) -> None:
        if change.due or change.runs is None:
            with suppress(RuntimeError):  # the server's loop is closed
                self._loop.call_soon_threadsafe(self._due.set)

    async def _run(self) -> None:
        while True:
            try:
                taken = await self._take()
            except SignoffError as error:
                log.warning("messages of tasks could not be read: %s", error)
                await asyncio.sleep(AFTER_ERROR_SECONDS)
                continue
            except Exception:
                log.exception("messages of tasks could not be sent")
                await asyncio.sleep(AFTER_ERROR_SECONDS)
                continue
            if taken == 0:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._due.wait(), LOOK_SECONDS)

    async def _take(self) -> int:
        self._due.clear()
        queues = dict.fromkeys(
            queue for each in self._connections if each.has_room for queue in queues_of(each.group, each.pid)
        )
        if self._push.has_room:
            queues[PUSH_QUEUE] = None
        if not queues:
            return 0
        messages = await self._store.take_task_messages(list(queues), MOST_AT_ONCE)
        for message in messages:
            self._send(message)
        return len(messages)

    def _send(self, message: TaskMessage) -> None:
        address = read_address(message.address)
        if isinstance(address, PollAddress):
            receiver = self._receiver(address)
            if receiver is not None:  # else it disconnected meanwhile: the message is due again later
                receiver.add(message)
        elif isinstance(address, PushAddress):
            self._push.post(address.url, self.to_wire(message), lambda: self.sent([message]))

    def _receiver(self, address: PollAddress) -> Connection | None:
        """Return the connection of the address's process; else, if any will do, each of the group in turn."""
        group = [each for each in self._connections if each.group == address.group]
        own = [each for each in group if each.pid == address.pid]
        if own:
            return own[-1]  # an earlier connection of the process may be dead
        if not address.is_any or not group:
            return None
        self._next += 1
        free = [each for each in group if each.has_room] or group
        return free[self._next % len(free)]

    async def _send_again(self, messages: Sequence[TaskMessage]) -> None:
        """Send messages that may be lost, but no task that a process has acquired."""
        try:
            for message in messages:
                if message.task is not None:
                    task = await self._store.get_task(message.task.id)
                    if task.state is not TaskState.PENDING or task.version != message.task.version:
                        continue
                self._send(message)
        except SignoffError as error:  # they are due again later
            log.warning("messages of a lost connection could not be sent again: %s", error)

    async def _finish(self, promise_id: str, address: str) -> None:
        try:
            await self._store.finish_task_message(promise_id, address)
        except SignoffError as error:  # it is sent again
            log.warning("a message about promise %s could not be finished: %s", promise_id, error)
