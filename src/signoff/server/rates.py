"""How often somebody may ask, or come with a wrong key: buckets that fill up again, in this process alone."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from signoff.errors import TooManyRequests
from signoff.records import Rate
from signoff.tokens import hash_of

MOST_BUCKETS: Final = 10_000
"""How many are kept. Whoever has asked least recently is forgotten first, so memory is bounded."""

OF_PEERS: Final = Rate(300, 60)
OF_LINKS: Final = Rate(100, 100)
OF_WRONG_KEYS: Final = Rate(20, 60)
FAILURE_COST: Final = 20
"""How many requests a look-up counts for that finds nothing."""


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Buckets:
    """One bucket for each who asks: it holds what a rate allows at once, and fills again evenly.

    Args:
        rate: How much each may ask in how long.
        now: Tells time in seconds.
    """

    def __init__(self, rate: Rate, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._now = now
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def check(self, who: str) -> None:
        """Take nothing. Raises TooManyRequests if somebody's bucket is empty."""
        if who not in self._buckets:
            return  # whoever only looks is not remembered instead of somebody else
        left = self._filled(who).left
        if left < 1:
            raise TooManyRequests(max(1, math.ceil((1 - left) * self._rate.seconds / self._rate.count)))

    def take(self, who: str) -> None:
        """Take one from somebody's bucket. Raises TooManyRequests if it is empty."""
        self.check(who)
        self.charge(who, 1)

    def charge(self, who: str, cost: float) -> None:
        """Take more from somebody's bucket, after the fact: it may have to fill up from below empty."""
        bucket = self._filled(who)
        bucket.left = max(bucket.left - cost, -float(self._rate.count))

    def _filled(self, who: str) -> _Bucket:
        now, size = self._now(), float(self._rate.count)
        bucket = self._buckets.setdefault(who, _Bucket(size, now))
        self._buckets.move_to_end(who)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        passed = max(0.0, now - bucket.at)  # a clock may be set back
        bucket.left = min(size, bucket.left + passed * size / self._rate.seconds)
        bucket.at = now
        return bucket


class LinkLimits:
    """How often an address may ask for links, and how often each link may be asked for, at this server."""

    def __init__(self) -> None:
        self._peers = Buckets(OF_PEERS)
        self._links = Buckets(OF_LINKS)

    def admit(self, peer: str | None, secret: str) -> None:
        """Count a request. Raises TooManyRequests."""
        if peer is not None:
            self._peers.take(peer)
        self._links.take(hash_of(secret))

    def note_failure(self, peer: str | None) -> None:
        """Count that a link was asked for that there is not."""
        if peer is not None:
            self._peers.charge(peer, FAILURE_COST)


class CallbackLimits(LinkLimits):
    """The same for callbacks. A provider calls back from few addresses for many runs: only its failures count."""

    def admit(self, peer: str | None, secret: str) -> None:
        if peer is not None:
            self._peers.check(peer)
        self._links.take(hash_of(secret))
