"""Listens for the durable promise protocol, beside the HTTP API in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack

from signoff.server.process.uvicorn_server import Serving, bind, url_of
from signoff.server.resonate.app import create_resonate_app
from signoff.server.resonate.connection import UNACKNOWLEDGED_SECONDS
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.messages import Messages
from signoff.server.resonate.push import Push
from signoff.server.services import Services


class ResonateListener:
    """The protocol's port, as an async context manager.

    Args:
        services: The services of a running server.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        allowed_hosts: Names that clients reach it by, besides the local ones and ``host``.
        push_to: The beginnings of the URLs that messages may be posted to.

    Attributes:
        deliveries: Its connections. Valid while it listens.

    Raises:
        InvalidValue: One of these is not an HTTP URL.
    """

    def __init__(
        self,
        services: Services,
        host: str,
        port: int,
        allowed_hosts: Iterable[str] = (),
        push_to: Iterable[str] = (),
    ) -> None:
        self.host = host
        self.port = port
        self._services = services
        self._allowed_hosts = (host, *allowed_hosts)
        self._push = Push(push_to)
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """The URL that reaches it from this machine."""
        return url_of(self.host, self.port)

    async def __aenter__(self) -> ResonateListener:
        listener = bind(self.host, self.port, unacknowledged_seconds=UNACKNOWLEDGED_SECONDS)
        self.port = listener.getsockname()[1]
        self._stack.callback(listener.close)
        messages = Messages(self.url)
        self.deliveries = deliveries = Deliveries(messages.to_wire, self._push, passes_on=True)
        self._stack.push_async_callback(deliveries.close)
        if self._push.is_on:
            serving_all = asyncio.create_task(deliveries.serve_all(self._services))
            self._stack.callback(serving_all.cancel)
        app = create_resonate_app(self._services, deliveries, messages, self._allowed_hosts)
        serving = Serving(app, listener, self._services.stopping)
        self._stack.push_async_callback(serving.stop)
        await serving.listening.wait()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()
