"""Storage format of a question's JSON: the arguments of its action are omitted if its proposal repeats them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast, overload

SHORTEST: Final = 4_096
"""Questions with fewer characters are stored as they are."""

_MARK: Final = ',"action_as_proposed":1}'
"""The end of a packed text."""


def packed(text: str) -> str:
    """Return a question's JSON without the arguments of its action, if its proposal has them."""
    if len(text) < SHORTEST:
        return text
    parts = cast("dict[str, Any]", json.loads(text))
    action = cast("dict[str, Any] | None", parts.get("action"))
    if action is None or parts.get("proposal") is None:  # a proposal equals the action's arguments
        return text
    del action["arguments"]
    return f"{_written(parts)[:-1]}{_MARK}"


@overload
def unpacked(text: str) -> str: ...
@overload
def unpacked(text: None) -> None: ...
def unpacked(text: str | None) -> str | None:
    """Return a question's full JSON. Any other text is returned unchanged, even if it ends like a packed one."""
    if text is None or not text.endswith(_MARK):
        return text
    try:
        parts = cast("dict[str, Any]", json.loads(text))
        del parts["action_as_proposed"]
        action = cast("dict[str, Any]", parts["action"])
        parts["action"] = {"tool": action.pop("tool"), "arguments": parts["proposal"], **action}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return text  # its readers report the error
    return _written(parts)


def _written(parts: Mapping[str, Any]) -> str:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
