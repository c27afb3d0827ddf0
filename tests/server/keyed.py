"""A server that authenticates requests, and programs with keys for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from signoff import Signoff
from signoff.records import Token
from signoff.server import Role, Server
from signoff.server.auth.stored_keys import StoredKeys
from signoff.testing import VirtualClock
from tests.server.conftest import app_in, serving


class Keyed:
    """A server, its store and its clock."""

    def __init__(self, server: Server, app: Signoff, clock: VirtualClock) -> None:
        self.server = server
        self.app = app
        self.clock = clock

    def key(
        self, name: str = "bot", *roles: Role, namespace: str = "default", **more: Any
    ) -> tuple[str, Token]:
        """Make a key of a service, as on the machine with the database."""
        keys = StoredKeys(self.app.store.within(namespace))
        return asyncio.run(keys.create_for_service(name, roles or (Role.OPERATOR,), **more))

    def worker_key(self, name: str = "gpu", namespace: str = "default", **more: Any) -> tuple[str, Token]:
        """Make a key of a worker, likewise."""
        return asyncio.run(StoredKeys(self.app.store.within(namespace)).create_for_worker(name, **more))

    def revoke(self, token: Token) -> None:
        asyncio.run(self.app.store.within(token.namespace).revoke_token(token.id))

    def forget_ended_keys(self) -> None:
        """Delete them, as retention does after a while."""
        store = self.app.store
        assert asyncio.run(store.delete_tokens(store.clock.now() + 1, 10)) == 1

    def http(self, secret: str | None = None, **more: Any) -> httpx.Client:
        """A program that sends a key with each request."""
        return client_of(self.server, secret, **more)

    def service(self, name: str, roles: Collection[Role] = (), **more: Any) -> httpx.Client:
        """A program with a key of its own."""
        return self.http(self.key(name, *roles, **more)[0])


def client_of(server: Server, secret: str | None, **more: Any) -> httpx.Client:
    headers = {"authorization": f"Bearer {secret}"} if secret else {}
    return httpx.Client(
        base_url=server.url, trust_env=False, verify=False, timeout=60, headers=headers, **more
    )


@asynccontextmanager
async def keyed(folder: Path, **options: Any) -> AsyncIterator[Keyed]:
    """A server on a clock that the test moves."""
    clock = VirtualClock()
    app = app_in(folder, clock=clock)
    async with serving(app, **{"require_auth": True, **options}) as server:
        yield Keyed(server, app, clock)
