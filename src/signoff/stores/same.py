"""Whether two JSON texts say the same."""

from __future__ import annotations

import json


def same_json(one: str | None, other: str | None) -> bool:
    """Whether two JSON texts hold the same value, however they are spaced and their keys ordered."""
    if one == other:
        return True
    if one is None or other is None:
        return False
    return canonical(one) == canonical(other)


def canonical(text: str) -> str:
    """Return the one text of all that hold this value."""
    return json.dumps(json.loads(text), sort_keys=True)
