"""The deletion of settled promises, in any database."""

from __future__ import annotations

from typing import Final

from signoff.errors import InvalidValue

JOB: Final = "settled promise"
"""The name under which promises are set aside that could not be deleted."""

FIRST: Final = (0.0, 0)
"""The place before all promises."""

Place = tuple[float, int]
"""When a promise was settled, and its number: the order of deletion."""


def place_of(after: str | None) -> Place:
    """Return the place after which to continue. Raises InvalidValue."""
    if after is None:
        return FIRST
    settled_at, _, number = after.partition(" ")
    try:
        place = float(settled_at), int(number)
    except ValueError:
        place = (-1.0, 0)
    if not (0.0 <= place[0] < 1e15 and 0 <= place[1] < 2**63):
        raise InvalidValue("after", "it is not from a previous call")
    return place


def after(place: Place) -> str:
    """Return a place as text."""
    settled_at, number = place
    return f"{settled_at!r} {number}"


def callers_of(promise_id: str) -> list[str]:
    """Return the ids of the promises that may have created a promise, by its id: SDKs name calls ``CALLER.N``."""
    return [promise_id[:place] for place, letter in enumerate(promise_id) if letter == "." and place]
