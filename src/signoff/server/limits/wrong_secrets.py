"""Limits how many wrong secrets one client address may try: keys, answer links and callbacks.

A valid secret is never refused: it is looked up before anything is counted.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

from signoff.errors import TooManyRequests
from signoff.records import Rate
from signoff.server.auth.client_address import Forwarding, address_of

ALLOWED: Final = Rate(20, 60)
"""Wrong secrets that one client may try, and the seconds in which the allowance is renewed."""

MOST_CLIENTS: Final = 10_000
"""Clients that are remembered. The one idle longest is forgotten first, so memory is bounded."""

NETWORK_BITS: Final = 64
"""An IPv6 client usually has a whole network of this prefix to itself, so its addresses count together."""


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class WrongSecretLimit:
    """A token bucket for each client address, in this process alone.

    Args:
        now: Returns the time in seconds.
        forwarding: The proxies whose header names the client; None: the connection's address counts.
        allowed: How many wrong secrets one client may try, and in how many seconds.
    """

    def __init__(
        self, now: Callable[[], float], forwarding: Forwarding | None = None, allowed: Rate = ALLOWED
    ) -> None:
        self._now = now
        self._forwarding = forwarding
        self._allowed = allowed
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def note(self, scope: Scope) -> None:
        """Count a request that came with a wrong secret.

        Args:
            scope: The request. Requests whose address is unknown count together.

        Raises:
            TooManyRequests: Its client has tried too many.
        """
        rate, bucket = self._allowed, self._bucket_of(_client_of(scope, self._forwarding))
        if bucket.left < 1:
            raise TooManyRequests(max(1, math.ceil((1 - bucket.left) * rate.seconds / rate.count)))
        bucket.left -= 1

    def _bucket_of(self, client: str) -> _Bucket:
        now, rate = self._now(), self._allowed
        bucket = self._buckets.setdefault(client, _Bucket(rate.count, now))
        self._buckets.move_to_end(client)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        passed = max(0.0, now - bucket.at)  # a clock may be set back
        bucket.left = min(float(rate.count), bucket.left + passed * rate.count / rate.seconds)
        bucket.at = now
        return bucket


def _client_of(scope: Scope, forwarding: Forwarding | None) -> str:
    text = address_of(scope, forwarding)
    if text is None:
        return "unknown"
    address = ipaddress.ip_address(text)
    if address.version == 4:
        return text
    return str(ipaddress.ip_network((int(address), NETWORK_BITS), strict=False))
