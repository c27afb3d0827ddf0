"""Findings about a database beyond the store contract, for ``signoff doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COUNTED_AT_MOST: Final = 1_000
NAMESPACES_AT_MOST: Final = 50


@dataclass(frozen=True, slots=True)
class Late:
    """Overdue items of one kind.

    Attributes:
        what: The kind, in words.
        count: Their number, counted up to ``COUNTED_AT_MOST``.
        seconds: How late the first of them is.
    """

    what: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Indexes:
    """Indexes of the schema that are missing or not usable."""

    missing: tuple[str, ...]
    invalid: tuple[str, ...] = ()
