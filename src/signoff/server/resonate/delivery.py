"""Sends the messages of a namespace: tasks to execute, and settled promises, to processes and URLs.

Messages are rows of the store until they are received, so any number of servers send them. A message is sent again
after ``RESEND_SECONDS`` unless a process reacts to it, and at once if its connection ends within ``CONFIRM_SECONDS``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from signoff.errors import NotFound, SignoffError
from signoff.records.tasks import PUSH_QUEUE, RESEND_SECONDS, Listener, TaskMessage, TaskRef, TaskState
from signoff.runtime.event_waits import wait_at_most
from signoff.runtime.loggers import own_logger
from signoff.server.resonate.addresses import PollAddress, PushAddress, queues_of, read_address
from signoff.server.resonate.connection import CONFIRM_SECONDS, Connection, Sent
from signoff.server.resonate.push import Push
from signoff.stores.contract.store import Change, Store

log = own_logger("signoff.server")

LOOK_SECONDS: Final = 1.0
"""The longest wait between two looks: a message may become due without a commit."""

AFTER_ERROR_SECONDS: Final = 2.0

MOST_RECENT: Final = 10_000
"""Messages that are remembered for ``RESEND_SECONDS``, for the case that the clock is set back."""

MOST_AT_ONCE: Final = 500
"""Messages that are taken at once."""

QUEUES_AT_ONCE: Final = 200
"""Queues that are looked at in one operation. One key may poll 4,000, which takes a transaction of 0.1 s."""

REST: Final = 4.0
"""After each of several such operations, others have this many times as long for theirs."""

MUCH_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Settled promises that wait for processes to read. Only processes that have read all are then sent more."""

MOST_KEPT_BYTES: Final = 96 * 1024 * 1024
"""Settled promises that wait at most. Then no process is sent more until one has read, or is disconnected: after 2
seconds while unread replies hold ``UNREAD_BYTES``, which is less, else after ``UNREAD_SECONDS``.
"""

CLOSE_SECONDS: Final = 2.0
"""How long the writes under way may take when the server stops."""

Format = Callable[[TaskMessage], Any]
"""Returns a message as plain JSON data."""


class Delivery:
    """Takes due messages of one namespace for the processes that poll this server, and for URLs.

    Args:
        store: An open store, bound to the namespace.
        to_wire: Returns a message in the protocol's format.
        push: Posts messages to URLs.
        passes_on: Whether a task goes to another process of its group if the first one does not acquire it within
            ``CONFIRM_SECONDS``.

    Attributes:
        idle_seconds: The longest wait between two looks while no process polls.
    """

    def __init__(self, store: Store, to_wire: Format, push: Push, *, passes_on: bool) -> None:
        self._store = store
        self._to_wire = to_wire
        self._push = push
        self._passes_on = passes_on
        self.idle_seconds = LOOK_SECONDS
        self._loop = asyncio.get_running_loop()
        self._connections: list[Connection] = []
        self._unacquired: set[str] = set()  # tasks that were sent in the last seconds
        self._silent: dict[Connection, float] = {}  # until when
        self._recent: deque[Sent] = deque(maxlen=MOST_RECENT)
        self._ahead = float("-inf")  # of the store's clock, before the loop's
        self._set_back_at = float("-inf")
        self._next = 0
        self._due = asyncio.Event()
        self._stop_listening = store.listen(self._noticed)
        self._writes: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._run(), name=f"signoff resonate messages {store.namespace}")

    @property
    def groups(self) -> set[str]:
        """The groups of the processes that poll."""
        return {connection.group for connection in self._connections}

    @property
    def kept_bytes(self) -> int:
        """The bytes of the settled promises that wait for processes to read."""
        return sum(each.kept_bytes for each in self._connections)

    @property
    def now(self) -> float:
        """The time on the loop's clock. A host's clock may be set; then no message may count as received."""
        return self._loop.time()

    def connect(self, group: str, pid: str) -> Connection:
        """Add a process that polls. Its earlier connection ends."""
        for earlier in [each for each in self._connections if (each.group, each.pid) == (group, pid)]:
            earlier.is_replaced = True
            earlier.added.set()
            self._remove(earlier)
        connection = Connection(group, pid)
        self._connections.append(connection)
        self._due.set()
        return connection

    def disconnect(self, connection: Connection) -> None:
        """Remove a process that polls no longer. Messages that it may not have received are sent again."""
        if not connection.is_replaced:
            self._remove(connection)

    def sent(self, connection: Connection) -> None:
        """Note that the messages that a connection took last have been sent."""
        connection.sent(self.now)

    def acquired(self, task_id: str, pid: str) -> None:
        """Note that a process has acquired a task."""
        self._unacquired.discard(task_id)
        for connection in [each for each in self._silent if each.pid == pid]:
            del self._silent[connection]

    async def close(self) -> None:
        """Stop, after the writes under way."""
        self._stop_listening()
        self._task.cancel()
        if self._writes:
            await asyncio.wait(self._writes, timeout=CLOSE_SECONDS)
        tasks = {self._task, *self._writes}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def _remove(self, connection: Connection) -> None:
        self._connections.remove(connection)
        self._silent.pop(connection, None)
        self._begin(self._resend(connection.lost()))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    def _noticed(self, change: Change) -> None:
        if change.due or change.runs is None:
            with suppress(RuntimeError):  # the server's loop is closed
                self._loop.call_soon_threadsafe(self._due.set)

    async def _run(self) -> None:
        while True:
            try:
                await self._check_clock()
                await self._confirm()
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
                await wait_at_most(LOOK_SECONDS if self._connections else self.idle_seconds, self._due)

    async def _check_clock(self) -> None:
        """Send messages again in time although the store's clock was set back: they would be due that much later."""
        now = self.now
        ahead = self._store.clock.now() - now
        if ahead < self._ahead - RESEND_SECONDS:
            self._set_back_at = now
        self._ahead = ahead
        late: list[Sent] = []
        while self._recent and self._recent[0].at <= now - RESEND_SECONDS:
            sent = self._recent.popleft()
            if sent.at <= self._set_back_at:
                late.append(sent)
        await self._resend(late)

    async def _confirm(self) -> None:
        """Finish the messages of connections that have lasted, and pass tasks on that nobody has acquired."""
        until = self.now - CONFIRM_SECONDS
        for connection in tuple(self._connections):
            sent = connection.confirmed(until)
            listeners = [each.listener for each in sent if each.listener is not None]
            await asyncio.gather(*map(self._finish, listeners))
            await self._pass_on(connection, [each for each in sent if each.task is not None])

    async def _pass_on(self, connection: Connection, sent: Sequence[Sent]) -> None:
        """Send tasks to others of the group that are still pending: the process may be stopped, or its host gone."""
        unacquired: list[Sent] = []
        for each in sent:
            assert each.task is not None
            if each.task.id in self._unacquired:
                self._unacquired.discard(each.task.id)
                if _is_any(each) and self._others(connection) and await self._is_pending(each.task):
                    unacquired.append(each)
        if unacquired:
            if connection in self._connections:  # it may have ended meanwhile
                self._silent[connection] = self.now + RESEND_SECONDS
            await self._resend(unacquired)

    def _others(self, connection: Connection) -> Sequence[Connection]:
        """Return the other processes of a group that react."""
        return [each for each in self._reacting(connection.group) if each is not connection]

    def _reacting(self, group: str) -> Sequence[Connection]:
        now = self.now
        return [
            each for each in self._connections if each.group == group and self._silent.get(each, 0.0) <= now
        ]

    async def _is_pending(self, ref: TaskRef) -> bool:
        """Whether a task has not been acquired since it was sent, through any server."""
        try:
            task = await self._store.get_task(ref.id)
        except NotFound:
            return False
        return task.state is TaskState.PENDING and task.version == ref.version

    async def _take(self) -> int:
        self._due.clear()
        queues = dict.fromkeys(queue for each in self._free() for queue in queues_of(each.group, each.pid))
        taken, listed = await self._take_posts(), list(queues)
        for start in range(0, len(listed), QUEUES_AT_ONCE):
            if self.kept_bytes >= MOST_KEPT_BYTES:
                break
            began_at = self._loop.time()
            part = listed[start : start + QUEUES_AT_ONCE]
            taken += await self._take_from(part, MOST_AT_ONCE)
            if len(listed) > QUEUES_AT_ONCE:
                await asyncio.sleep(REST * (self._loop.time() - began_at))
        return taken

    async def _take_posts(self) -> int:
        room = self._push.room(self._store.namespace)
        return await self._take_from([PUSH_QUEUE], min(room, MOST_AT_ONCE)) if room else 0

    async def _take_from(self, queues: Sequence[str], limit: int) -> int:
        """Take due messages of these queues, and send them."""
        messages = await self._store.take_task_messages(queues, limit)
        self._recent.extend(Sent.of(message, self.now) for message in messages)
        unreceived = [message for message in messages if not self._send(message)]
        await self._resend([Sent.of(message) for message in unreceived])
        return len(messages)

    def _free(self) -> Sequence[Connection]:
        """Return the connections that messages are taken for."""
        free = [each for each in self._connections if each.has_room]
        return free if self.kept_bytes < MUCH_KEPT_BYTES else [each for each in free if each.has_sent_all]

    def _send(self, message: TaskMessage) -> bool:
        """Send a message. Returns whether it has a receiver: it may have disconnected meanwhile, or have no room."""
        address = read_address(message.address)
        if isinstance(address, PollAddress):
            receiver = self._receiver(address)
            if receiver is None:
                return False
            if self._passes_on and message.task is not None:
                self._unacquired.add(message.task.id)
            receiver.add(message)
        elif isinstance(address, PushAddress):
            wire = self._to_wire(message)
            self._push.post(self._store.namespace, address.url, wire, lambda: self._posted(Sent.of(message)))
        return True

    def _receiver(self, address: PollAddress) -> Connection | None:
        """Return the connection of the address's process; else, if any will do, each of the group in turn.

        A queue is taken once one of its processes has room. The message of an ``any`` address whose processes have
        meanwhile none is left to other servers, or for later.
        """
        own = [each for each in self._connections if (each.group, each.pid) == (address.group, address.pid)]
        if not address.is_any:
            return own[0] if own else None
        free = [each for each in self._connections if each.group == address.group and each.has_room]
        reacting = [each for each in self._reacting(address.group) if each.has_room] or free
        if own and own[0] in reacting:
            return own[0]
        if not reacting:
            return None
        self._next += 1
        return reacting[self._next % len(reacting)]

    def _posted(self, sent: Sent) -> None:
        if sent.listener is not None:
            self._begin(self._finish(sent.listener))

    async def _resend(self, lost: Sequence[Sent]) -> None:
        """Have messages sent again at once, by any server."""
        tasks = [each.task for each in lost if each.task is not None]
        listeners = [each.listener for each in lost if each.listener is not None]
        if not lost:
            return
        self._unacquired.difference_update(task.id for task in tasks)
        try:
            await self._store.resend_task_messages(tasks, listeners)
        except SignoffError as error:  # they are due again later
            log.warning("messages of a lost connection could not be sent again: %s", error)

    async def _finish(self, listener: Listener) -> None:
        try:
            await self._store.finish_task_message(listener.promise_id, listener.address)
        except SignoffError as error:  # it is sent again
            log.warning("a message about promise %s could not be finished: %s", listener.promise_id, error)


def _is_any(sent: Sent) -> bool:
    address = read_address(sent.address)
    return isinstance(address, PollAddress) and address.is_any
