"""Listens for the protocol of 2024, beside the HTTP API in the same process."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from starlette.types import ASGIApp

from signoff.server.process.uvicorn_server import Serving, bind, url_of
from signoff.server.resonate.connection import UNACKNOWLEDGED_SECONDS
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.legacy import messages
from signoff.server.resonate.legacy.app import create_legacy_app, create_messages_app
from signoff.server.resonate.push import Push
from signoff.server.services import Services


@dataclass(frozen=True, slots=True)
class LegacyPorts:
    """The ports of the protocol of 2024; 0 takes a free one.

    Attributes:
        store: Promises, tasks and schedules.
        messages: The messages for processes.
    """

    store: int = 8001
    messages: int = 8002


class LegacyListener:
    """The protocol's two ports, as an async context manager.

    Args:
        services: The services of a running server.
        host: The address to listen on.
        ports: The ports.
        allowed_hosts: Names that clients reach it by, besides the local ones and ``host``.

    Attributes:
        deliveries: Its connections. Valid while it listens.
    """

    def __init__(
        self, services: Services, host: str, ports: LegacyPorts, allowed_hosts: Iterable[str] = ()
    ) -> None:
        self.host = host
        self.ports = ports
        self._services = services
        self._allowed_hosts = (host, *allowed_hosts)
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """The URL of promises, tasks and schedules from this machine."""
        return url_of(self.host, self.ports.store)

    @property
    def messages_url(self) -> str:
        """The URL of the messages from this machine."""
        return url_of(self.host, self.ports.messages)

    async def __aenter__(self) -> LegacyListener:
        try:
            self.deliveries = deliveries = Deliveries(messages.to_wire, Push(()), passes_on=False)
            self._stack.push_async_callback(deliveries.close)
            hosts = self._allowed_hosts
            store = await self._serve(self.ports.store, create_legacy_app(self._services, hosts))
            messages_app = create_messages_app(self._services, deliveries, hosts)
            self.ports = LegacyPorts(store, await self._serve(self.ports.messages, messages_app))
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def _serve(self, port: int, app: ASGIApp) -> int:
        """Serve an application, and return its port."""
        listener = bind(self.host, port, unacknowledged_seconds=UNACKNOWLEDGED_SECONDS)
        self._stack.callback(listener.close)
        serving = Serving(app, listener, self._services.stopping)
        self._stack.push_async_callback(serving.stop)
        await serving.listening.wait()
        return listener.getsockname()[1]
