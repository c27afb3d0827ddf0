"""A worker's endpoints for orchestrators and Prometheus, on a separate port."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from signoff.engine.worker.worker import Worker
from signoff.errors import StoreUnavailable
from signoff.observability.metrics import collecting
from signoff.server.http.host_check import HostCheck
from signoff.server.http.responses import reply
from signoff.server.process.prometheus import Scrape
from signoff.server.process.readiness import Readiness
from signoff.server.process.uvicorn_server import Serving, bind, url_of
from signoff.wire.http import is_loopback


class Probes:
    """``/health``, ``/ready`` and ``/metrics`` of a worker, as an async context manager on the worker's loop.

    They are read-only. Unless they listen on a loopback address, they accept any ``Host``: orchestrators use addresses
    that are not known beforehand.

    Args:
        worker: The worker.
        host: The address to listen on.
        port: The port; 0 takes a free one.
    """

    def __init__(self, worker: Worker, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._worker = worker
        self._scrape = Scrape()
        self._readiness = Readiness(worker.store, None, asyncio.Event())
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """The URL that reaches it from this machine."""
        return url_of(self.host, self.port)

    async def __aenter__(self) -> Probes:
        """Raises OSError if the address cannot be listened on."""
        listener = bind(self.host, self.port)
        self.port = listener.getsockname()[1]
        self._stack.callback(listener.close)
        self._stack.enter_context(collecting())
        self._stack.push_async_callback(self._readiness.close)
        serving = Serving(self._app(), listener)
        self._stack.push_async_callback(serving.stop)
        await serving.listening.wait()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def _app(self) -> Starlette:
        routes = [
            Route("/health", self._health),
            Route("/ready", self._ready),
            Route("/metrics", self._metrics),
        ]
        local = [Middleware(HostCheck, allowed_hosts=(self.host,))] if is_loopback(self.host) else []
        return Starlette(routes=routes, middleware=local)

    async def _health(self, _: Request) -> Response:
        return reply({"status": "ok"})

    async def _ready(self, _: Request) -> Response:
        if not self._worker.is_ready:
            return reply({"status": "draining" if self._worker.draining else "not ready"}, 503)
        try:
            await self._readiness.check()
        except StoreUnavailable as trouble:
            return reply({"status": "not ready", "detail": trouble.reason}, 503)
        return reply({"status": "ok"})

    async def _metrics(self, request: Request) -> Response:
        return await self._scrape.answer(request.headers.get("accept", ""))
