"""``GET /{group}/{pid}`` of the messages' port: the messages for a process, as lines ``data: {...}``."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from signoff.records.tasks import TaskMessage
from signoff.server.resonate.delivery import Delivery
from signoff.server.resonate.legacy.records import counter_of, to_legacy_record
from signoff.server.services import Services

CONFIRM_SECONDS: Final = 5.0
"""A message counts as received once its connection has lasted for this time after it: the protocol has no
acknowledgement. Others are sent again when the connection ends.
"""

_PING: Final = b": ping\n\n"


async def events(services: Services, delivery: Delivery, group: str, pid: str) -> AsyncGenerator[bytes, None]:
    """Yield the messages for a process, until the server stops or the process connects again.

    Args:
        services: The services of the namespace.
        delivery: Sends the messages of the namespace.
        group: The group of the process.
        pid: The process.
    """
    now = services.store.clock.now
    connection = delivery.connect(group, pid, replaces=True)
    unconfirmed: deque[tuple[float, Sequence[TaskMessage]]] = deque()
    try:
        yield _PING  # the headers are sent, so the process knows that it is connected
        while await services.wait_for_event(connection.added) and not connection.is_replaced:
            messages = connection.take()
            yield b"".join(map(written, messages)) or _PING
            while unconfirmed and now() - unconfirmed[0][0] >= CONFIRM_SECONDS:
                delivery.sent(unconfirmed.popleft()[1])
            unconfirmed.append((now(), messages))
    finally:
        unread = connection.take()
        lost = [message for _, messages in unconfirmed for message in messages]
        delivery.disconnect(connection, [*lost, *unread])


def written(message: TaskMessage) -> bytes:
    """Return a message as an event. It is ASCII: the SDK's reader also ends lines at other Unicode line ends."""
    return f"data: {json.dumps(to_wire(message))}\n\n".encode()


def to_wire(message: TaskMessage) -> dict[str, Any]:
    """Return a message as plain JSON data."""
    task = message.task
    if task is not None:
        kind = "resume" if task.resumes else "invoke"
        return {"type": kind, "task": {"id": task.id, "counter": counter_of(task)}}
    assert message.promise is not None
    return {"type": "notify", "promise": to_legacy_record(message.promise)}
