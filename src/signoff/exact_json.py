"""JSON that every reader reads alike."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


def read_exactly(text: str | bytes) -> Any:
    """Read JSON in which no object has one key twice: who passed it on may have read another one.

    Raises:
        JSONDecodeError: It is none, or a key is there twice.
        UnicodeDecodeError, RecursionError: Likewise.
    """
    return json.loads(text, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise json.JSONDecodeError(f"the key {twice[:100]!r} is there twice", "", 0)
    return made
