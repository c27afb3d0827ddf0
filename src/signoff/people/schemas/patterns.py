"""Patterns that forms add to pydantic's schemas, and their descriptions for people."""

from __future__ import annotations

import re
from typing import Final

AWARE: Final = r"([Zz]|[+-]\d\d(:?\d\d)?)(\[.*)?$"
"""A time with a zone: an offset, optionally followed by the zone's name in brackets."""

_DECIMAL: Final = re.compile(
    r"\^\\s\*\[\+-\]\?0\*\\d(?:\{0,(\d+)\}|\*)\(\\\.\\d\{0,(\d+)\}0\*\)\?\\s\*\$\|\[eE\]"
)


def decimal_pattern(places: int, before: int | None) -> str:
    """Return the pattern of a decimal number's text. Numbers with an exponent are left to the type.

    Args:
        places: Maximum number of digits after the point, without trailing zeros.
        before: Maximum number of digits before it; None: any number.
    """
    digits = r"\d*" if before is None else rf"\d{{0,{before}}}"
    return rf"^\s*[+-]?0*{digits}(\.\d{{0,{places}}}0*)?\s*$|[eE]"


def in_words(pattern: str) -> str | None:
    """Describe a pattern of this module; None for any other pattern."""
    if pattern == AWARE:
        return "it needs a zone, such as 2026-11-30T16:00+01:00 or 2026-11-30T15:00Z"
    if (found := _DECIMAL.fullmatch(pattern)) is None:
        return None
    before, places = found.groups()
    ahead = "" if before is None else f" and {before} before it"
    return f"it may have at most {places} digits after the point{ahead}"
