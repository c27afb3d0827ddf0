"""Connections whose requests never begin: a client that sends a head bit by bit, or nothing, is closed after a time.

uvicorn has a limit for connections that are idle between requests alone, and each byte that arrives ends it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS: Final = 10.0
"""How long a request's head may take, from the connection or from its first byte on."""

_Protocol: Any = AutoHTTPProtocol
"""That of httptools where it is installed, else that of h11."""


class BoundedHeads(_Protocol):
    """uvicorn's protocol, which waits for a head for ``HEAD_SECONDS`` at most. Answers may take longer."""

    head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # pyright: ignore[reportUnknownMemberType]
        self._look()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # pyright: ignore[reportUnknownMemberType]
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)  # pyright: ignore[reportUnknownMemberType]

    def _look(self) -> None:
        """Begin to wait for a head, or have waited for one."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self.head_timer is None:
            self.head_timer = self.loop.call_later(HEAD_SECONDS, self._end)

    def _stop(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _end(self) -> None:
        self.head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
