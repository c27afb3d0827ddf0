"""The client address of a request, also behind a proxy that forwards it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from signoff.errors import InvalidValue
from signoff.server.auth.trusted_networks import LOOPBACK, Address, Networks, address

_HEADER: Final = re.compile("[A-Za-z0-9][A-Za-z0-9-]*")
_WITH_PORT: Final = re.compile(r"\[(?P<six>[^\]]+)\](:\d+)?|(?P<four>[0-9.]+):\d+")


@dataclass(frozen=True)
class Forwarding:
    """Proxies that forward requests and name the client's address in a header.

    They must set the header, or append to it, on every request: a client can forge a header that a proxy only passes
    through.

    Attributes:
        header: The header, such as ``X-Forwarded-For``. The last address in it that is not a proxy's counts.
        addresses: The addresses of the proxies, and networks such as ``10.0.0.0/8``.

    Raises:
        InvalidValue: The header or an address is not valid.

    Example:
        Server(store, forwarding=Forwarding("X-Forwarded-For", addresses=["10.0.0.7"]))
    """

    header: str
    addresses: Sequence[str] = LOOPBACK

    def __post_init__(self) -> None:
        if _HEADER.fullmatch(self.header) is None:
            raise InvalidValue(
                "header", f"{self.header!r} is not a valid header name: use letters, digits and hyphens"
            )
        _ = self._proxies  # raises InvalidValue now

    @cached_property
    def _proxies(self) -> Networks:
        return Networks(self.addresses)

    def client_of(self, peer: Address, headers: Headers) -> Address:
        """Return the client address of a request that ``peer`` sent; ``peer`` itself if it is not forwarded."""
        client = peer
        said = [part for line in headers.getlist(self.header) for part in line.split(",")]
        while said and client in self._proxies:
            before = _read(said.pop())
            if before is None:
                break
            client = before
        return client


def address_of(scope: Scope, forwarding: Forwarding | None) -> str | None:
    """Return the client address of a request; None if it cannot be known.

    Args:
        scope: The request.
        forwarding: The trusted proxies.
    """
    host, port = scope.get("client") or ("", None)
    peer = _read(host)
    if (
        peer is None or port == 0
    ):  # the ASGI server replaced the peer's address by that of an untrusted header
        return None
    if forwarding is not None:
        peer = forwarding.client_of(peer, Headers(scope=scope))
    return _text(peer)


@lru_cache(1024)  # the same clients send most requests
def _text(peer: Address) -> str:
    return str(peer)


@lru_cache(1024)  # the same clients send most requests
def _read(text: str) -> Address | None:
    text = text.strip()
    match = _WITH_PORT.fullmatch(text)
    if match is not None:
        text = match["six"] or match["four"]
    return address(text)
