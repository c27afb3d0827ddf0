"""JSON that every reader reads alike."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, Final, cast

from pydantic_core import from_json

UNDECRYPTED: Final = "it cannot be decrypted: "
"""A list has this text, with the reason, in place of a payload that cannot be decrypted. It is never valid JSON."""


def read_exactly(text: str | bytes | bytearray) -> Any:
    """Read JSON in which no object has one key twice: who passed it on may have read another one.

    Raises:
        JSONDecodeError: It is none, or a key is there twice.
        UnicodeDecodeError, RecursionError: Likewise.
    """
    return json.loads(text, object_pairs_hook=_distinct)


def read_kept(text: str | bytes) -> Any:
    """Read JSON as stores keep it.

    Raises:
        ValueError: It is not JSON, is nested too deep, or has a number that no float holds, such as ``1e999``: readers
            take that for infinity, which no JSON they write can say.
    """
    if isinstance(text, str) and text.startswith(UNDECRYPTED):
        raise ValueError(text)
    value = from_json(text, allow_inf_nan=False)
    if _may_be_infinite(text if isinstance(text, str) else text.decode()) and not _is_finite(value):
        raise ValueError("it has a number that is too large")
    return value


def why_unreadable_json(error: ValueError) -> str:
    """Return the reason that ``read_kept`` has raised an error, for people."""
    reason = str(error)
    return reason if reason.startswith(UNDECRYPTED) else f"invalid JSON: {reason}"


def _may_be_infinite(text: str) -> bool:
    # The first two patterns cost a tenth of the third, and nearly all texts have neither.
    if _EXPONENT.search(text) is None and _MANY_DIGITS.search(text[::50]) is None:
        return False
    return _LARGE.search(text) is not None


def _is_finite(value: object) -> bool:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, float) and not math.isfinite(each):
            return False
        if isinstance(each, dict):
            left += cast("dict[str, object]", each).values()
        elif isinstance(each, list):
            left += cast("list[object]", each)
    return True


_EXPONENT: Final = re.compile(r"[eE]\+?[0-9]{3}[0-9]*+(?:[,\]}\s]|$)")  # not that of a digest in quotes
_MANY_DIGITS: Final = re.compile(r"[0-9]{4}")
"""Of every 50th character, 200 digits in a row are at least four."""

_LARGE: Final = re.compile(r"(?:^|[\[:,\s])-?+(?:[0-9]{200}|[0-9]++(?:\.[0-9]++)?[eE]\+?0*+[0-9]{3})")
"""A number that may be too large for a float. It follows what a digest in quotes does not, such as ``"9e904"``."""


def read_object(written: str | None) -> dict[str, Any]:
    """Return what a JSON object says; nothing if it is not one: readers of kept rows go on without it."""
    try:
        read: Any = read_kept(written or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", read) if isinstance(read, dict) else {}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise json.JSONDecodeError(f"the key {twice[:100]!r} is there twice", "", 0)
    return made
