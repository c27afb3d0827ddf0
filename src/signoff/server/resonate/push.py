"""Posts messages to the HTTP URLs of their receivers. Which URLs these may be, the configuration says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from pydantic_core import to_json

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.silenced_logging import silenced
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.server")

MOST_AT_ONCE: Final = 64
"""Requests at once for one namespace. Further messages stay in the store."""

MOST_OF_ALL: Final = 512
"""Requests at once for all namespaces together."""

ANSWER_SECONDS: Final = 15.0
CONNECT_SECONDS: Final = 5.0


class Push:
    """Posts messages.

    Args:
        allowed: The beginnings of the URLs that messages may be posted to, such as ``https://functions.example.com``:
            scheme, host and port must be the same, and the path must be below its path.
        transport: Sends the requests. A simulation has its own.

    Raises:
        InvalidValue: One is not an HTTP URL.
    """

    def __init__(self, allowed: Iterable[str], transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._allowed = [_parts(url) for url in allowed]
        self._posts: dict[asyncio.Task[None], str] = {}  # with their namespaces
        self._unreachable: set[str] = set()
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=MOST_OF_ALL, max_keepalive_connections=MOST_AT_ONCE)
        self._client = None
        if self._allowed:
            self._client = httpx.AsyncClient(
                timeout=timeout, limits=limits, follow_redirects=False, transport=transport
            )

    @property
    def is_on(self) -> bool:
        """Whether any URL is allowed."""
        return self._client is not None

    def room(self, namespace: str) -> int:
        """Return how many further messages of a namespace it takes."""
        if not self.is_on:
            return 0
        own = sum(each == namespace for each in self._posts.values())
        return max(0, min(MOST_AT_ONCE - own, MOST_OF_ALL - len(self._posts)))

    def allows(self, url: str) -> bool:
        """Whether messages may be posted to a URL."""
        try:
            origin, path = _parts(url)
        except InvalidValue:
            return False
        if "/.." in path or "%2e" in path.lower() or "\\" in path:
            return False
        return any(origin == each and _is_below(path, below) for each, below in self._allowed)

    def post(self, namespace: str, url: str, message: Any, posted: Callable[[], None]) -> None:
        """Post a message. A failure is logged: the store has the message sent again later.

        Args:
            namespace: The namespace that sends it.
            url: The URL.
            message: Plain JSON data.
            posted: Called after a successful response.
        """
        task = asyncio.create_task(self._post(url, to_json(message), posted))
        self._posts[task] = namespace
        task.add_done_callback(self._posts.pop)

    async def close(self) -> None:
        """End open requests."""
        posts = tuple(self._posts)
        for task in posts:
            task.cancel()
        await asyncio.gather(*posts, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def _post(self, url: str, body: bytes, posted: Callable[[], None]) -> None:
        assert self._client is not None
        if not self.allows(url):  # it was allowed when its promise was created
            return self._note_failure(url, "the server's options no longer allow it")
        try:
            with silenced():
                headers = {"content-type": "application/json", "user-agent": "signoff"}
                async with self._client.stream("POST", url, content=body, headers=headers) as response:
                    status = response.status_code
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return self._note_failure(url, f"no answer: {type(error).__name__}")
        if not 200 <= status < 300:
            return self._note_failure(url, f"HTTP {status}")
        self._unreachable.discard(url)
        return posted()

    def _note_failure(self, url: str, reason: str) -> None:
        if url not in self._unreachable and len(self._unreachable) < 1000:
            self._unreachable.add(url)
            log.warning(
                "a message could not be posted to %s: %s; it is sent again", _without_secrets(url), reason
            )


def check_allowed(urls: Iterable[str]) -> tuple[str, ...]:
    """Return the beginnings of URLs that messages may be posted to, as ``Push`` takes them.

    Raises:
        InvalidValue: One is not an HTTP URL. Its path is the argument of ``Server``.
    """
    checked = tuple(urls)
    for url in checked:
        try:
            _parts(url)
        except InvalidValue as error:
            raise InvalidValue("resonate_push", error.reason) from None
    return checked


def _parts(url: str) -> tuple[tuple[str, str, int], str]:
    """Return the origin and the path of a URL. Raises InvalidValue."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidValue("url", f"{url!r} is not a valid URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InvalidValue("url", f"{url!r} is not a URL such as https://functions.example.com")
    return (parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)), parts.path or "/"


def _is_below(path: str, below: str) -> bool:
    """Whether a path is another one, or below it: ``/hooks`` does not allow ``/hooks-of-others``."""
    return path == below or path.startswith(below if below.endswith("/") else f"{below}/")


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
