"""Reads and checks workers' long JSON in little more memory than the result takes.

A Python string takes one, two or four bytes per character, depending on its widest one. A dictionary takes about two
hundred bytes, however short its JSON is. So both are counted before a body is parsed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, AnyStr, Final, NoReturn, cast

from pydantic_core import from_json

from signoff.errors import InvalidValue

MOST_MEMORY: Final = 46 * 1024 * 1024
"""Maximum bytes of memory to parse a body, as ``check_memory`` estimates it. The store needs more later."""

MOST_OF_LISTS: Final = 32 * 1024 * 1024
"""Maximum bytes of memory for the lists of one value while it is checked."""

_TIMES_THEIR_BYTES: Final = {1: 2.0, 2: 3.4, 4: 5.0}
"""Memory per byte of strings, by the bytes of their widest character."""

_LIST_BYTES: Final = 64
_OBJECT_BYTES: Final = 192
_MEMBER_BYTES: Final = 72
_TEXT_BYTES: Final = 60
_ITEM_BYTES: Final = 40

_DEEPEST: Final = 200
"""The deepest nesting that ``read_kept`` reads."""

_STEPS: Final = [1 if byte in b"[{" else -1 for byte in range(256)]
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")

_TEXT: Final = (
    r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r'|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*+"'
)
_SOME: Final = rf'(?:[^"]*+{_TEXT}){{1,1000}}+'
_OF_STR: Final[tuple[re.Pattern[str], re.Pattern[str], Callable[[re.Match[str]], str]]] = (
    re.compile(rf'("(?:[a-z]|\\u00[67][0-9a-fA-F]){{4,6}}")|{_TEXT}'),
    re.compile(_SOME),
    lambda found: found[1] or '""',  # keeps strings as short as "args" and "kwargs"
)
_OF_BYTES: Final = (re.compile(_TEXT.encode()), re.compile(_SOME.encode()), b'""')

_OBJECT: Final[dict[str, Any]] = {}
_WRONG_ARGS: Final[dict[str, Any]] = {"args": None}
_WRONG_KWARGS: Final[dict[str, Any]] = {"kwargs": None}

_FOUR_BYTES: Final = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
_TWO_BYTES: Final = re.compile(rb"[\xc4-\xef]|\\u(?!00)")


def read_long(body: bytearray) -> Any:
    """Parse a long body, and empty it.

    Raises:
        InvalidValue: It would take too much memory.
        ValueError: It is not JSON, or an object in it has a duplicate key.
    """
    members = check_memory(body)
    value = from_json(body)
    body.clear()
    if _count_members(value) != members:
        raise ValueError("an object in it has a duplicate key")
    return value


def check_long(path: str, text: str) -> Any:
    """Check a long value that is stored as text, without building it.

    Returns:
        A stand-in for the value: objects are empty, except for ``args`` or ``kwargs`` of a wrong type.

    Raises:
        InvalidValue: It is not JSON, or would take far more memory than its text.
    """
    try:
        bare = "".join(_without_texts(text, *_OF_STR))
        objects = bare.count("{")
        items = max(
            0, bare.count(",") - bare.count(":") + objects
        )  # in lists: the commas that are not between members
        if bare.count("[") * _LIST_BYTES + items * _ITEM_BYTES <= MOST_OF_LISTS:
            _check_depth(bare)
            return json.loads(bare, object_pairs_hook=_left_of, parse_float=_finite, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(path, f"it is not valid JSON: {error}") from None
    raise InvalidValue(path, "its lists have too many items; send it in several values")


def check_memory(body: bytearray) -> int:
    """Check the memory that a body of JSON takes once it is parsed.

    Returns:
        The number of members of all its objects.

    Raises:
        InvalidValue: It would take too much.
        ValueError: It has a string that JSON does not allow.
    """
    left = lists = objects = members = items = texts = 0
    for bare in _without_texts(body, *_OF_BYTES):
        left += len(bare)
        lists += bare.count(b"[")
        objects += bare.count(b"{")
        members += bare.count(b":")
        items += bare.count(b",")
        texts += bare.count(b'""')
    width = 4 if _FOUR_BYTES.search(body) else 2 if _TWO_BYTES.search(body) else 1
    memory = (
        len(body)
        + _TIMES_THEIR_BYTES[width] * max(0, len(body) - left)
        + lists * _LIST_BYTES
        + objects * _OBJECT_BYTES
        + members * _MEMBER_BYTES
        + max(0, texts - members) * _TEXT_BYTES
        + max(0, items - members + objects) * _ITEM_BYTES
    )
    if memory > MOST_MEMORY:
        raise InvalidValue(
            "body",
            f"it would take about {memory / 1024**2:.0f} MiB of memory, more than {MOST_MEMORY / 1024**2:.0f}",
        )
    return members


def _without_texts(
    text: Any, one: re.Pattern[AnyStr], some: re.Pattern[AnyStr], instead: Any
) -> Iterator[AnyStr]:
    """Yield JSON piece by piece without its strings. Raises ValueError for a string that JSON does not allow."""
    place = 0
    while (found := some.match(text, place)) is not None:
        yield one.sub(instead, found[0])
        place = found.end()
    rest = text[place:]
    if text.find('"' if isinstance(text, str) else b'"', place) >= 0:
        raise ValueError("it has an unterminated or invalid string")
    yield rest


def _count_members(value: Any) -> int:
    members = 0
    left: list[Any] = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            found = cast("dict[str, Any]", each)
            members += len(found)
            left += [item for item in found.values() if isinstance(item, dict | list)]
        elif isinstance(each, list):
            left += [item for item in cast("list[Any]", each) if isinstance(item, dict | list)]
    return members


def _left_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    left = _OBJECT
    for name, value in pairs:
        if name == "args" and not isinstance(value, list):
            left = _WRONG_ARGS
        elif name == "kwargs" and not isinstance(value, dict):
            left = _WRONG_KWARGS
    return left


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number that JSON has")


def _finite(number: str) -> float:
    read = float(number)
    if not math.isfinite(read):
        raise ValueError("it has a number that is too large")
    return read


def _check_depth(bare: str) -> None:
    """Raise ValueError for JSON that is nested deeper than ``_DEEPEST``."""
    brackets = bare.encode().translate(None, _NO_BRACKETS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > _DEEPEST:
        raise ValueError("it is nested too deep")
