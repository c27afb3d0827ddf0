"""Strict JSON: rejects duplicate object keys and numbers that are too large for a float."""

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
    """Read JSON from outside, in UTF-8 only.

    Duplicate keys are rejected, because a proxy may have read the other value. So are other encodings, which ``json``
    recognizes and most readers do not.

    Raises:
        JSONDecodeError: It is not valid JSON, or has a duplicate key.
        UnicodeDecodeError: It is not UTF-8.
        RecursionError: It is nested too deep.
    """
    return _EXACT.decode(text if isinstance(text, str) else text.decode())


def read_kept(text: str | bytes) -> Any:
    """Read stored JSON.

    Raises:
        ValueError: It is not valid JSON, is nested too deep, or has a number too large for a float, such as ``1e999``:
            readers take it for infinity, which they could not write as JSON.
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
    # The first two patterns cost a tenth of the third, and hardly any text matches them.
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


_EXPONENT: Final = re.compile(r"[eE]\+?[0-9]{3}[0-9]*+(?:[,\]}\s]|$)")  # excludes hex digests in quotes
_MANY_DIGITS: Final = re.compile(r"[0-9]{4}")
"""Finds 200 digits in a row, in a text reduced to every 50th character."""

_LARGE: Final = re.compile(r"(?:^|[\[:,\s])-?+(?:[0-9]{200}|[0-9]++(?:\.[0-9]++)?[eE]\+?0*+[0-9]{3})")
"""A number that may be too large for a float. What precedes it excludes hex digests in quotes, such as ``"9e904"``."""


def read_object(text: str | None) -> dict[str, Any]:
    """Read a stored JSON object; an empty one if it is malformed, so that readers of damaged rows can continue."""
    try:
        value: Any = read_kept(text or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        [(key, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise json.JSONDecodeError(f"duplicate key {key[:100]!r}", "", 0)
    return made


_EXACT: Final = json.JSONDecoder(object_pairs_hook=_distinct)
