"""Learns of commits from a server, over one event stream for each namespace that has listeners."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final

import httpx

from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Change
from signoff.stores.contract.wire import CHANGE, CHANGES_PATH
from signoff.stores.remote.batches import pause_seconds
from signoff.stores.remote.loop_thread import LoopThread
from signoff.wire.http import CONNECT_SECONDS
from signoff.wire.sse import read_events

log = own_logger("signoff.store")

SILENT_SECONDS: Final = 40.0  # a stream sends at least a comment every 15 s
ANYTHING: Final = Change(runs=None)


class CommitStream:
    """Notifies listeners of commits. After a gap they are notified that anything may have changed.

    Args:
        thread: The thread that it runs on, and calls the listeners on.
    """

    def __init__(self, thread: LoopThread, client: httpx.AsyncClient) -> None:
        self._thread = thread
        self._client = client
        self._lock = threading.Lock()
        self._listeners: dict[str, dict[object, Callable[[Change], None]]] = {}
        self._streams: dict[str, asyncio.Task[None]] = {}  # belongs to the thread

    def listen(self, namespace: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``callback`` for every commit from now on; returns a function that stops it."""
        entry = object()
        with self._lock:
            self._listeners[namespace] = {**self._listeners.get(namespace, {}), entry: callback}
        self._thread.call(self._follow_or_leave, namespace)

        def end() -> None:
            with self._lock:
                known = self._listeners.get(namespace, {})
                self._listeners[namespace] = {key: known[key] for key in known if key is not entry}
            self._thread.call(self._follow_or_leave, namespace)

        return end

    async def close(self) -> None:
        """Disconnect."""
        streams = list(self._streams.values())
        self._listeners.clear()
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    def _follow_or_leave(self, namespace: str) -> None:
        """Keep a stream open as long as there are listeners."""
        stream = self._streams.get(namespace)
        if self._listeners.get(namespace):
            if stream is None or stream.done():
                following = self._thread.loop.create_task(self._follow(namespace), name="signoff changes")
                self._streams[namespace] = following
        elif stream is not None:
            stream.cancel()
            del self._streams[namespace]

    async def _follow(self, namespace: str) -> None:
        """Follow a namespace's stream, and resume it where it broke off."""
        last_id = ""
        failures = 0
        while True:
            try:
                timeout = httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS, pool=None)
                async with self._client.stream(
                    "GET",
                    CHANGES_PATH,
                    params={"namespace": namespace},
                    headers={"last-event-id": last_id} if last_id else {},
                    timeout=timeout,
                ) as response:
                    response.raise_for_status()
                    async for event in read_events(response.aiter_bytes()):
                        failures = 0
                        last_id = event.id or last_id
                        change = ANYTHING if event.name == "gap" else CHANGE.validate_json(event.data)
                        self._notify(namespace, change)
            except (httpx.HTTPError, ValueError) as error:
                log.debug("the stream of commits from %s broke: %s", self._client.base_url, error)
            failures += 1
            await asyncio.sleep(pause_seconds(failures))

    def _notify(self, namespace: str, change: Change) -> None:
        for callback in self._listeners.get(namespace, {}).values():
            try:
                callback(change)
            except Exception:
                log.exception("a listener of the store failed; the commit stands")
