"""The size of a JSON value: number of values, characters and bytes, and the cost of comparing its numbers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, cast

from signoff.people.schemas.number_cost import number_cost


@dataclass(frozen=True)
class Weight:
    """The size of a value, itself included.

    Attributes:
        size: Number of values.
        chars: Characters of its texts and keys.
        held: Bytes in memory.
        nested: The sum of ``held`` over all values in it: the size of one copy of each.
        path: Maximum total length of the keys on the path to a value in it.
        dearest: The highest ``number_cost`` of a number in it.
    """

    size: int
    chars: int
    held: int
    nested: int
    path: int
    dearest: int

    @classmethod
    def of(cls, value: object) -> Weight:
        """Measure a value."""
        size = chars = held = nested = path = depth = dearest = 0
        level = [value]
        while level:
            depth += 1
            below: list[object] = []
            here = longest = 0
            for each in level:
                here += sys.getsizeof(each)
                if isinstance(each, str):
                    chars += len(each)
                elif isinstance(each, dict):
                    members = cast("dict[str, Any]", each)
                    chars += sum(map(len, members))
                    longest = max(longest, max(map(len, members), default=0))
                    here += sum(map(sys.getsizeof, members))
                    below.extend(members.values())
                elif isinstance(each, list):
                    below.extend(cast("list[object]", each))
                elif isinstance(each, int | float):
                    dearest = max(dearest, number_cost(each))
            size += len(level)
            held += here
            nested += depth * here
            path += longest
            level = below
        return cls(size, chars, held, nested, path, dearest)
