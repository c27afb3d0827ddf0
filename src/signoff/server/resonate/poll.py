"""``GET /poll/{group}/{pid}``: the messages for a process, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from signoff.records.tasks import TaskMessage
from signoff.server.auth.authenticators import RECHECK_SECONDS
from signoff.server.feeds.commit_feed import UNBUFFERED
from signoff.server.resonate.delivery import Connection, Delivery
from signoff.server.services import Services

HEADERS: Final = {**UNBUFFERED, "cache-control": "no-cache"}
_PING: Final = b": ping\n\n"


async def events(
    services: Services, delivery: Delivery, group: str, pid: str, is_still: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """Yield the messages for a process, until the server stops or the process may no longer poll.

    Args:
        services: The services of the server.
        delivery: Sends the messages of the namespace.
        group: The group of the process.
        pid: The process.
        is_still: Returns whether its sender is still authenticated.
    """
    clock = services.store.clock
    checked_at = clock.now()
    connection: Connection = delivery.connect(group, pid)
    messages: Sequence[TaskMessage] = ()
    try:
        yield _PING  # the headers are sent, so the process knows that it is connected
        while await services.wait_for_event(connection.added):
            if clock.now() - checked_at >= RECHECK_SECONDS:
                checked_at = clock.now()
                if not await is_still():
                    break
            messages = connection.take()
            yield delivery.written(messages) or _PING
            delivery.sent(messages)
            messages = ()
    finally:
        delivery.disconnect(connection, [*messages, *connection.take()])
