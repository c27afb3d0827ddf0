"""The messages for a process, as server-sent events. Both protocols have them, each in its own format."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import StreamingResponse

from signoff.errors import SignoffError
from signoff.records.tasks import TaskMessage
from signoff.server.auth.authenticators import RECHECK_SECONDS
from signoff.server.feeds.commit_feed import PING_SECONDS, UNBUFFERED
from signoff.server.resonate.access import Sender, check_no_page
from signoff.server.resonate.addresses import check_poller
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.delivery import Delivery
from signoff.server.services import Services

POLL: Final = "poll"

HEADERS: Final = {**UNBUFFERED, "cache-control": "no-cache"}
LAST_SECONDS: Final = 240.0
"""How long a stream lasts. Processes connect again at once. Without it, resonate-sdk 0.8.1 hears nothing after 300
seconds: its HTTP client then ends the request with an error that its listener does not expect.
"""

_PING: Final = b": ping\n\n"


async def respond(
    http: Request, read_sender: Callable[[], Awaitable[Sender]], event_of: Callable[[TaskMessage], bytes]
) -> StreamingResponse:
    """Stream the messages for the process that a request names.

    Args:
        http: The request; its path has ``group`` and ``pid``, its app's state ``services`` and ``deliveries``.
        read_sender: Authenticates the request and checks its role. It is called again while the stream lasts.
        event_of: Returns a message as an event.

    Raises:
        SignoffError: The sender may not poll for this process, or has too many streams.
    """
    services: Services = http.app.state.services
    deliveries: Deliveries = http.app.state.deliveries
    group, pid = http.path_params["group"], http.path_params["pid"]
    sender = await read_sender()
    check_no_page(http.scope)
    check_poller(group, pid)
    sender.check_group(f"group {group!r}", group)
    caller = sender.caller(services.address_of(http.scope))
    services.streams.check(POLL, caller)
    delivery = deliveries.of(services.within(sender.namespace).store)

    async def is_still() -> bool:
        try:
            return await read_sender() == sender
        except SignoffError:
            return False

    stream = services.streams.counted(
        POLL, caller, events(services, delivery, (group, pid), event_of, is_still)
    )
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


async def events(
    services: Services,
    delivery: Delivery,
    process: tuple[str, str],
    event_of: Callable[[TaskMessage], bytes],
    is_still: Callable[[], Awaitable[bool]],
) -> AsyncGenerator[bytes, None]:
    """Yield the messages for a process, for ``LAST_SECONDS`` at most.

    It ends sooner if the server stops, or if the process connects again or may no longer poll.

    Args:
        services: The services of the server.
        delivery: Sends the messages of the namespace.
        process: The group of the process, and its id.
        event_of: Returns a message as an event.
        is_still: Returns whether its sender is still authenticated.
    """
    clock, time = services.store.clock, asyncio.get_running_loop().time
    checked_at, ends_at = clock.now(), time() + LAST_SECONDS
    connection = delivery.connect(*process)
    try:
        yield _PING  # the headers are sent, so the process knows that it is connected
        while (left := ends_at - time()) > 0:
            await services.wait_for(connection.added.wait(), seconds=min(PING_SECONDS, left))
            if services.stopping.is_set() or connection.is_replaced:
                break
            if clock.now() - checked_at >= RECHECK_SECONDS:
                checked_at = clock.now()
                if not await is_still():
                    break
            yield b"".join(map(event_of, connection.take())) or _PING
            delivery.sent(connection)
    finally:
        delivery.disconnect(connection)
