"""How often an address may come with a wrong key."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

from signoff.clock import Clock
from signoff.errors import TooManyRequests

AT_ONCE: Final = 20
SECONDS_EACH: Final = 3.0
"""After so many wrong keys at once, one is forgiven in so many seconds."""
_PEERS: Final = 10_000


class Attempts:
    """The wrong keys of each address, in this process. Of many addresses the ones that came last are remembered.

    Args:
        clock: By which they are forgiven.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()  # when all of an address are forgiven

    def check(self, peer: str) -> None:
        """Raise TooManyRequests if too many came from an address."""
        over = self._free_at.get(peer, 0.0) - self._clock.now() - (AT_ONCE - 1) * SECONDS_EACH
        if over > 0:
            raise TooManyRequests(math.ceil(over))

    def count(self, peer: str) -> None:
        """Note that a wrong key came from an address."""
        self._free_at[peer] = max(self._free_at.get(peer, 0.0), self._clock.now()) + SECONDS_EACH
        self._free_at.move_to_end(peer)
        if len(self._free_at) > _PEERS:
            self._free_at.popitem(last=False)
