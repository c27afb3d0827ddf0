"""The server of a remote store: connecting, disconnecting, and the server's settings."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Final

import httpx
from pydantic_core import from_json

from signoff.errors import StoreUnavailable
from signoff.runtime import forks
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.wire import PATH
from signoff.stores.remote.batches import TROUBLE_AFTER, Batches, pause_seconds, refusal
from signoff.stores.remote.clock import RemoteClock
from signoff.stores.remote.commit_stream import CommitStream
from signoff.stores.remote.loop_thread import LoopThread
from signoff.wire.http import key_headers, new_client, server_url, shown_url

log = own_logger("signoff.store")

REPLY_SECONDS: Final = 15.0  # without a reply, then a request is sent again


class Connection:
    """What a store has while it is open: a thread, HTTP connections, pending operations and change streams."""

    def __init__(self, url: str, base: httpx.URL, headers: Mapping[str, str], clock: RemoteClock) -> None:
        self.thread = LoopThread("signoff remote store")
        self.client = new_client(base, answer_seconds=REPLY_SECONDS, headers=headers)
        self.batches = Batches(self.thread, self.client, url, clock)
        self.changes = CommitStream(self.thread, self.client)

    def close(self) -> None:
        """Finish what was sent and disconnect. Blocks."""
        self.thread.stop(self._close())

    async def _close(self) -> None:
        await self.changes.close()
        await self.batches.close()
        await self.client.aclose()


class RemoteServer:
    """The server that views of several namespaces share."""

    def __init__(self, url: str, key: str | None, patience_seconds: float) -> None:
        self.url = shown_url(url)
        self.patience_seconds = patience_seconds
        self.clock = RemoteClock()
        self.lease_seconds = 0.0
        self._base = server_url(url)
        self._headers = key_headers(key)
        self._connection: Connection | None = None
        self._was_greeted = False
        self._opening = threading.Lock()
        self._was_forked = False
        forks.in_child(self)

    def forked(self) -> None:
        """Let the child process connect again."""
        forks.keep(self._connection)
        self._was_forked = self._connection is not None or self._was_forked
        self._connection = None
        self._opening = threading.Lock()

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            raise StoreUnavailable(self.url, forks.NOT_REOPENED if self._was_forked else "it is not open")
        return self._connection

    async def open(self, namespace: str) -> None:
        """Wait for the server and learn its time and lease length."""
        with self._opening:
            if self._connection is None:
                self._was_greeted = False
                self._connection = Connection(self.url, self._base, self._headers, self.clock)
            connection = self._connection
        if self._was_greeted:
            return
        try:
            await asyncio.wrap_future(connection.thread.begin(self._greet(connection.client, namespace)))
            self._was_greeted = True
        except BaseException:
            await asyncio.to_thread(self.close)
            raise

    def close(self) -> None:
        """Close, if it is open. Blocks."""
        with self._opening:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    async def _greet(self, client: httpx.AsyncClient, namespace: str) -> None:
        give_up_at = time.monotonic() + self.patience_seconds
        failures = 0
        while True:
            try:
                sent_at = time.monotonic()
                response = await client.get(PATH, params={"namespace": namespace})
                trouble = f"it responded with {response.status_code} {response.reason_phrase}"
                if not response.is_server_error:
                    break
            except httpx.TransportError as error:
                trouble = f"no server answers there ({str(error) or type(error).__name__})"
            failures += 1
            if time.monotonic() > give_up_at:
                raise StoreUnavailable(self.url, trouble)
            if failures == TROUBLE_AFTER:
                log.warning("server %s is unavailable, still retrying: %s", self.url, trouble)
            await asyncio.sleep(pause_seconds(failures))
        if not response.is_success:
            raise refusal(self.url, response.status_code, response.content)
        try:
            terms = from_json(response.content)
            self.clock.learn(float(terms["now"]), sent_at, time.monotonic())
            self.lease_seconds = float(terms["lease_seconds"])
        except (ValueError, KeyError, TypeError):
            raise StoreUnavailable(self.url, "the response is not from a signoff server") from None
