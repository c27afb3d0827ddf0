"""``GET /poll/{group}/{pid}``: the messages for a process, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from signoff.server.feeds.commit_feed import UNBUFFERED
from signoff.server.resonate.delivery import Connection, Delivery
from signoff.server.services import Services

HEADERS: Final = {**UNBUFFERED, "cache-control": "no-cache"}
_PING: Final = b": ping\n\n"


async def events(services: Services, delivery: Delivery, group: str, pid: str) -> AsyncGenerator[bytes, None]:
    """Yield the messages for a process, until the server stops.

    Args:
        services: The services of the server.
        delivery: Sends the messages of the namespace.
        group: The group of the process.
        pid: The process.
    """
    connection: Connection = delivery.connect(group, pid)
    try:
        yield _PING  # the headers are sent, so the process knows that it is connected
        while await services.wait_for_event(connection.added):
            messages = connection.take()
            yield delivery.written(messages) or _PING
            delivery.sent(messages)
    finally:
        delivery.disconnect(connection)
