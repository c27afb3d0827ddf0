"""From which address a request comes, also through a proxy that says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from signoff.errors import InvalidValue
from signoff.server.auth.trusted_networks import LOOPBACK, Address, Networks, address

_HEADER: Final = re.compile("[A-Za-z0-9][A-Za-z0-9-]*")
_WITH_PORT: Final = re.compile(r"\[(?P<six>[^\]]+)\](:\d+)?|(?P<four>[0-9.]+):\d+")


@dataclass(frozen=True)
class Forwarding:
    """Proxies that pass requests on, and say in a header from where these come.

    They must set the header, or add to it, on every request: what one of them only passes on anybody can have written.

    Attributes:
        header: The header, such as ``X-Forwarded-For``. Of several addresses in it the last one that is none of the
            proxies' counts.
        addresses: Where the proxies connect from: addresses, and networks such as ``10.0.0.0/8``.

    Raises:
        InvalidValue: The header or an address is none.

    Example:
        Server(store, forwarding=Forwarding("X-Forwarded-For", addresses=["10.0.0.7"]))
    """

    header: str
    addresses: Sequence[str] = LOOPBACK
    _proxies: Networks = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if _HEADER.fullmatch(self.header) is None:
            raise InvalidValue("header", f"{self.header!r} is no header: letters, digits and hyphens")
        object.__setattr__(self, "_proxies", Networks(self.addresses))

    def client_of(self, peer: Address, headers: Headers) -> Address:
        """Return from where a request comes that ``peer`` has sent; its own address, if nothing else is known."""
        client = peer
        said = [part for line in headers.getlist(self.header) for part in line.split(",")]
        while said and client in self._proxies:
            before = _read(said.pop())
            if before is None:
                break
            client = before
        return client


def address_of(scope: Scope, forwarding: Forwarding | None) -> str | None:
    """Return from which address a request comes; None if nobody can know.

    Args:
        scope: The request.
        forwarding: The proxies that are believed.
    """
    host, port = scope.get("client") or ("", None)
    peer = _read(host)
    if peer is None or port == 0:  # an ASGI server that has believed a header, whoever has written it
        return None
    if forwarding is not None:
        peer = forwarding.client_of(peer, Headers(scope=scope))
    return str(peer)


def _read(text: str) -> Address | None:
    text = text.strip()
    match = _WITH_PORT.fullmatch(text)
    if match is not None:
        text = match["six"] or match["four"]
    return address(text)
