"""What can be seen of a database besides the contract, for ``signoff doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COUNTED_AT_MOST: Final = 1_000
NAMESPACES_AT_MOST: Final = 50


@dataclass(frozen=True, slots=True)
class Late:
    """Things of one kind whose time came long enough ago, and that nobody did.

    Attributes:
        what: The kind, in words.
        count: How many, counted up to ``COUNTED_AT_MOST``.
        seconds: How late the first of them is.
    """

    what: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Indexes:
    """Indexes that a schema should have and that are not there, or not usable."""

    missing: tuple[str, ...]
    invalid: tuple[str, ...] = ()
