"""Lists and their pages: what is listed, and where a page begins."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from signoff.errors import InvalidValue
from signoff.records import PromiseKind, PromiseState, RunState

T = TypeVar("T")

LAST_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; None means any."""

    states: frozenset[RunState] | None = None
    workflow: str | None = None
    group: str | None = None
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class PromiseFilter:
    """Which promises to list; None means any."""

    kind: PromiseKind | None = None
    state: PromiseState | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list, and where the next part begins (None at the end)."""

    items: tuple[T, ...] = field(default_factory=tuple)
    next: str | None = None


def page_number(after: str | None, otherwise: int) -> int:
    """Return where a page begins: the number of the last row of the page before it."""
    if after is None:
        return otherwise
    if re.fullmatch("[0-9]{1,18}", after) is None:
        raise InvalidValue("after", f"{after!r} is no page of this list; pass a page's `next`")
    return int(after)
