"""Trusted addresses and networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from signoff.errors import InvalidValue

LOOPBACK: Final = ("127.0.0.0/8", "::1")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Networks:
    """A set of networks.

    Args:
        written: Addresses, and networks such as ``10.0.0.0/8``.

    Raises:
        InvalidValue: An address is not valid, or there is none.
    """

    def __init__(self, written: Sequence[str]) -> None:
        if not written or isinstance(written, str):
            raise InvalidValue("addresses", "list the addresses that the proxy connects from")
        try:
            self._networks = tuple(map(ipaddress.ip_network, written))
        except ValueError as error:
            raise InvalidValue("addresses", f"{error}; write 10.0.0.7 or 10.0.0.0/8") from None

    def __contains__(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def address(text: str) -> Address | None:
    """Parse an address; None if it is not valid. An IPv4-mapped IPv6 address becomes the IPv4 address."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
