"""An identity provider, a server and a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from signoff.server import OpenIdConnect, Server
from signoff.testing import VirtualClock
from tests.server.conftest import app_in, serving
from tests.server.provider import CLIENT, PUBLIC, SECRET, Browser, LocalProvider


class World:
    """A server, and the provider that signs people in for it."""

    def __init__(self, server: Server, provider: LocalProvider, clock: VirtualClock, app: Any) -> None:
        self.server = server
        self.provider = provider
        self.clock = clock
        self.app = app

    def browser(self) -> Browser:
        return Browser(self.server)


@asynccontextmanager
async def world(folder: Path, **options: Any) -> AsyncIterator[World]:
    clock = VirtualClock()
    app = app_in(folder, clock=clock)
    async with LocalProvider(clock).serving() as provider:
        openid = replace(OpenIdConnect(provider.url, CLIENT, PUBLIC, SECRET), **options)
        async with serving(app, openid=openid) as server:
            yield World(server, provider, clock, app)
