"""The connection of a process that polls, with its unconfirmed messages."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from signoff.records.tasks import Listener, TaskMessage, TaskRef
from signoff.stores.shared.listed_payloads import PAGE_BYTES, bytes_of

CONFIRM_SECONDS: Final = 5.0
"""A message counts as received once its connection has lasted for this time after it: the protocols have no
acknowledgement.
"""

UNACKNOWLEDGED_SECONDS: Final = 4.0
"""How long a peer may acknowledge no data until the system ends the connection. Its last messages are then sent again,
so this must be shorter than ``CONFIRM_SECONDS``; the system notices it up to half a second late.
"""

MOST_UNSENT: Final = 1000
"""Messages that wait for one connection. Its queues are then left alone, for others to take from."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was sent, without its payload.

    Attributes:
        address: The address that it was sent to.
        task: The task, in the version that was sent; None for a settled promise.
        listener: The listener of the settled promise; None for a task.
        at: When it was sent, on the loop's clock.
    """

    address: str
    task: TaskRef | None
    listener: Listener | None
    at: float = 0.0

    @classmethod
    def of(cls, message: TaskMessage, at: float = 0.0) -> Sent:
        """Return a message without its payload."""
        task, promise = message.task, message.promise
        return cls(
            message.address,
            None if task is None else TaskRef(task.id, task.version),
            None if promise is None else Listener(promise.id, message.address),
            at,
        )


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
        self._sending: Sequence[TaskMessage] = ()
        self._sending_bytes = 0
        self._unconfirmed: deque[Sent] = deque()

    @property
    def has_room(self) -> bool:
        """Whether it takes further messages."""
        return len(self._unsent) < MOST_UNSENT and self._unsent_bytes < PAGE_BYTES

    @property
    def has_sent_all(self) -> bool:
        """Whether no message waits for its process to read."""
        return not self._unsent and not self._sending

    @property
    def kept_bytes(self) -> int:
        """The bytes of the settled promises that wait for its process to read."""
        return self._unsent_bytes + self._sending_bytes

    def add(self, message: TaskMessage) -> None:
        """Send a message."""
        self._unsent.append(message)
        if message.promise is not None:
            self._unsent_bytes += bytes_of(message.promise)
        self.added.set()

    def take(self) -> Sequence[TaskMessage]:
        """Return the messages to send now. ``sent`` is called once they are sent."""
        self.added.clear()
        self._sending = tuple(self._unsent)
        self._sending_bytes = self._unsent_bytes
        self._unsent.clear()
        self._unsent_bytes = 0
        return self._sending

    def sent(self, now: float) -> None:
        """Note that the messages of the last ``take`` have been sent, at a time of the loop's clock."""
        self._unconfirmed.extend(Sent.of(message, now) for message in self._sending)
        self._sending = ()
        self._sending_bytes = 0

    def confirmed(self, until: float) -> Sequence[Sent]:
        """Forget the messages that were sent up to a time, and return them."""
        found: list[Sent] = []
        while self._unconfirmed and self._unconfirmed[0].at <= until:
            found.append(self._unconfirmed.popleft())
        return found

    def lost(self) -> Sequence[Sent]:
        """Forget the messages that the process may not have received, and return them."""
        found = [*self._unconfirmed, *map(Sent.of, (*self._sending, *self._unsent))]
        self._unconfirmed.clear()
        self._unsent.clear()
        self._sending = ()
        self._unsent_bytes = self._sending_bytes = 0
        return found
