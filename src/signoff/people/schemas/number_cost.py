"""The cost of comparing and dividing numbers while a value is validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
"""Keywords that compare a number with theirs."""

_MULTIPLE, LARGE_MULTIPLE = 100, 3_000
"""Cost of ``multipleOf``, for numbers of ordinary size and for others."""

_FRACTION, _LARGE, _SMALL, _TINY = 64, 110, 250, 1_200
"""The costs of floating-point numbers, by their size."""


def number_cost(number: float) -> int:
    """Return the cost of comparing a number with another one, in plain comparisons of about 15 nanoseconds.

    Integers of up to 64 bits cost nothing. The validator compares others as fractions: the more digits numerator and
    denominator have, the longer it takes.
    """
    if isinstance(number, int):
        if -(2**63) <= number < 2**63:
            return 0
        digits = number.bit_length() * 3 // 10
        return 40 + digits // 3 + digits * digits // 450
    size = abs(number)
    if size == 0 or 1e-3 <= size < 1e15:
        return _FRACTION
    if size >= 1e15:
        return _LARGE
    return _SMALL if size >= 1e-12 else _TINY


def multiple_cost(number: float, step: object) -> int:
    """Return the cost of ``multipleOf`` for a number."""
    if is_ordinary(number) and is_ordinary(step):
        return _MULTIPLE
    return max(LARGE_MULTIPLE, 2 * number_cost(number))


def is_ordinary(number: object) -> bool:
    """Whether a number is of a size that is divided fast."""
    if isinstance(number, int | float):
        return number == 0 or 1e-12 < abs(number) < 1e15
    return True


def compared_numbers(part: Mapping[str, Any]) -> list[int | float]:
    """Return the numbers that a part compares with numbers of the value: its bounds, and those in its options."""
    found: list[int | float] = []
    rest = [part[name] for name in ("enum", "const", *_BOUNDS) if name in part]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            rest.extend(cast("dict[str, object]", each).values())
        elif isinstance(each, list):
            rest.extend(cast("list[object]", each))
        elif isinstance(each, int | float):
            found.append(each)
    return found


def has_long_integer(value: object) -> bool:
    """Whether there is an integer of more than 64 bits in a value. All of them have one hash."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            rest.extend(cast("dict[str, object]", each).values())
        elif isinstance(each, list):
            rest.extend(cast("list[object]", each))
        elif isinstance(each, int) and number_cost(each):
            return True
    return False
