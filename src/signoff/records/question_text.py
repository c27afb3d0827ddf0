"""How a question's JSON is kept: what is done, if it is what is proposed, is written once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

SHORTEST: Final = 4_096
"""From how many characters on a question is written so."""

_MARK: Final = ',"action_as_proposed":1}'
"""How such a text ends."""


def packed(text: str) -> str:
    """Return a question's JSON without the arguments of its action, where its proposal has them."""
    if len(text) < SHORTEST:
        return text
    parts = cast("dict[str, Any]", json.loads(text))
    action = cast("dict[str, Any] | None", parts.get("action"))
    if action is None or parts.get("proposal") is None:  # an action's proposal is its arguments
        return text
    del action["arguments"]
    return f"{_written(parts)[:-1]}{_MARK}"


def unpacked(text: str) -> str:
    """Return a question's whole JSON; any other text as it is, also one that only ends as such a text does."""
    if not text.endswith(_MARK):
        return text
    try:
        parts = cast("dict[str, Any]", json.loads(text))
        del parts["action_as_proposed"]
        action = cast("dict[str, Any]", parts["action"])
        parts["action"] = {"tool": action.pop("tool"), "arguments": parts["proposal"], **action}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return text  # its readers say what is wrong with it
    return _written(parts)


def _written(parts: Mapping[str, Any]) -> str:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
