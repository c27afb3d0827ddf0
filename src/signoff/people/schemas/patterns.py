"""Patterns that forms add to what pydantic says of a type, and their words: a person cannot read a pattern."""

from __future__ import annotations

import re
from typing import Final

AWARE: Final = r"([Zz]|[+-]\d\d(:?\d\d)?)(\[.*)?$"
"""A moment that says its zone: an offset, and maybe the zone's name in brackets."""

_DECIMAL: Final = re.compile(
    r"\^\\s\*\[\+-\]\?0\*\\d(?:\{0,(\d+)\}|\*)\(\\\.\\d\{0,(\d+)\}0\*\)\?\\s\*\$\|\[eE\]"
)


def decimal_pattern(places: int, before: int | None) -> str:
    """Return the pattern of a decimal number's text. Numbers with an exponent are left to its type.

    Args:
        places: How many digits there may be after the point, zeros at the end aside.
        before: How many there may be before it; None for any number.
    """
    digits = r"\d*" if before is None else rf"\d{{0,{before}}}"
    return rf"^\s*[+-]?0*{digits}(\.\d{{0,{places}}}0*)?\s*$|[eE]"


def in_words(pattern: str) -> str | None:
    """Say what a pattern of this module asks for; None for any other."""
    if pattern == AWARE:
        return "it needs a zone, such as 2026-11-30T16:00+01:00 or 2026-11-30T15:00Z"
    if (found := _DECIMAL.fullmatch(pattern)) is None:
        return None
    before, places = found.groups()
    ahead = "" if before is None else f" and {before} before it"
    return f"it may have at most {places} digits after the point{ahead}"
