"""Serves the API, alone or inside another asyncio program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TypedDict, Unpack

from signoff.app import Signoff
from signoff.people.notifications.channels.channel import Channel
from signoff.server.app import create_server_app
from signoff.server.auth.client_address import Forwarding
from signoff.server.auth.key_file import WorkerKeys
from signoff.server.auth.oidc_settings import OpenIdConnect
from signoff.server.auth.trusted_proxy import TrustedProxy
from signoff.server.mcp.settings import McpSettings
from signoff.server.process.uvicorn_server import Serving, bind, url_of
from signoff.server.resonate.debug import check_debugged
from signoff.server.resonate.function_groups import FunctionGroups
from signoff.server.resonate.legacy.listener import LegacyListener, LegacyPorts
from signoff.server.resonate.listener import ResonateListener
from signoff.server.resonate.push import check_allowed
from signoff.server.resonate.schedules import ScheduledPromises
from signoff.server.resonate.signoff_groups import SignoffGroups
from signoff.server.services import Services
from signoff.stores.contract.store import Store


class ServerOptions(TypedDict, total=False):
    """Further options of a server, see ``create_server_app``."""

    worker_keys: WorkerKeys | None
    proxy: TrustedProxy | None
    openid: OpenIdConnect | None
    forwarding: Forwarding | None
    require_auth: bool
    allowed_origins: Iterable[str]
    public_url: str | None
    worker_lease_seconds: float | None
    retention_days: float | None
    channels: Sequence[Channel]
    redact: Iterable[str]
    root_path: str | None
    mcp_settings: McpSettings | None


class Server:
    """A server on the running event loop, as an async context manager.

    It listens inside the block. Leaving the block lets requests finish and stops the server; the store stays open. The
    server handles no signals.

    Args:
        app_or_store: What to serve, see ``create_server_app``.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        allowed_hosts: Names that clients reach the server by, besides the local ones and ``host``.
        resonate_port: The port for the durable promise protocol of Resonate; 0 takes a free one. None: it is off.
        resonate_push: The beginnings of the URLs that its messages may be posted to.
        resonate_legacy: The ports for the protocol of resonate-sdk 0.6.7. None: it is off.
        options: Further arguments of ``create_server_app``.

    Raises:
        InvalidValue: One of ``resonate_push`` is not an HTTP URL, or an argument of ``create_server_app`` is not valid.

    Example:
        async with Server(store, port=0) as server:
            async with AsyncClient(server.url) as client:
                ...
    """

    def __init__(
        self,
        app_or_store: Signoff | Store,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        allowed_hosts: Iterable[str] = (),
        resonate_port: int | None = None,
        resonate_push: Iterable[str] = (),
        resonate_legacy: LegacyPorts | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        self.host = host
        self.port = port
        self._allowed_hosts = tuple(allowed_hosts)
        self._resonate_port = resonate_port
        self._resonate_push = check_allowed(resonate_push)
        self._resonate: ResonateListener | None = None
        self._legacy_ports = resonate_legacy
        self._legacy: LegacyListener | None = None
        self._app = create_server_app(app_or_store, allowed_hosts=(host, *self._allowed_hosts), **options)
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """The URL that reaches it from this machine."""
        return url_of(self.host, self.port)

    @property
    def resonate_url(self) -> str | None:
        """The URL of the durable promise protocol; None if it is off. Valid while the server listens."""
        return None if self._resonate is None else self._resonate.url

    @property
    def resonate_legacy(self) -> LegacyListener | None:
        """The listener of the protocol of resonate-sdk 0.6.7; None if it is off. Valid while the server listens."""
        return self._legacy

    @property
    def asks(self) -> bool:
        """Whether requests must be authenticated, as far as the server knows. Valid while it listens."""
        return self._app.state.services.authenticators.required

    async def __aenter__(self) -> Server:
        listener = bind(self.host, self.port)
        self.port = listener.getsockname()[1]
        self._stack.callback(listener.close)
        try:
            await self._stack.enter_async_context(self._app.router.lifespan_context(self._app))
            self._serving = Serving(self._app, listener, self._app.state.services.stopping)
            self._stack.push_async_callback(self._serving.stop)
            await self._serving.listening.wait()
            if self._resonate_port is not None or self._legacy_ports is not None:
                await self._speak_resonate(self._app.state.services)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def _speak_resonate(self, services: Services) -> None:
        """Listen for the protocols of Resonate, and do their work in the background.

        That is to run workflows for their tasks, to call their functions for runs, and to create scheduled promises.
        """
        store = services.store
        functions = FunctionGroups(store, self._polled_groups)
        for job in (SignoffGroups(store).serve(), functions.serve(), ScheduledPromises(store).serve()):
            self._stack.push_async_callback(_end, asyncio.create_task(job))
        if self._resonate_port is not None:
            await check_debugged(services, self.host)
            listener = ResonateListener(
                services, self.host, self._resonate_port, self._allowed_hosts, self._resonate_push
            )
            self._resonate = await self._stack.enter_async_context(listener)
        if self._legacy_ports is not None:
            legacy = LegacyListener(services, self.host, self._legacy_ports, self._allowed_hosts)
            self._legacy = await self._stack.enter_async_context(legacy)

    def _polled_groups(self) -> dict[str, set[str]]:
        """Return the groups for which processes poll this server, by namespace."""
        found: dict[str, set[str]] = {}
        for listener in (self._resonate, self._legacy):
            if listener is not None:
                for namespace, groups in listener.deliveries.groups.items():
                    found.setdefault(namespace, set()).update(groups)
        return found

    async def drain(self, until: Awaitable[object]) -> None:
        """Report at /ready that the server is about to stop, and keep serving until ``until`` is done.

        Load balancers stop sending requests meanwhile.
        """
        self._app.state.services.readiness.drain()
        await until

    async def wait_closed(self) -> None:
        """Wait until the server has stopped. Only leaving the context manager stops it."""
        await asyncio.shield(self._serving.task)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def serve(
    app_or_store: Signoff | Store,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_hosts: Iterable[str] = (),
    resonate_port: int | None = None,
    resonate_legacy: LegacyPorts | None = None,
    listening: Callable[[Server], None] | None = None,
    **options: Unpack[ServerOptions],
) -> None:
    """Serve until cancelled.

    Args:
        app_or_store: What to serve, see ``create_server_app``.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        allowed_hosts: Names that clients reach the server by, besides the local ones and ``host``.
        resonate_port: The port for the durable promise protocol of Resonate; None: it is off.
        resonate_legacy: The ports for the protocol of resonate-sdk 0.6.7; None: it is off.
        listening: Called with the server once it listens, so its ``url`` and ``port`` are known.
        options: Further arguments of ``create_server_app``.

    Raises:
        OSError: The address cannot be listened on.
        StoreUnavailable: The store cannot be opened.
    """
    serving = Server(
        app_or_store,
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        resonate_port=resonate_port,
        resonate_legacy=resonate_legacy,
        **options,
    )
    async with serving as server:
        if listening is not None:
            listening(server)
        await server.wait_closed()
