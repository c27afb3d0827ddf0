"""Questions about calls of agents, which agents must not answer for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_OF_CALLS: Final = frozenset({"tool", "tool_call_id", "interrupt", "idempotency_key"})
"""Keys in the metadata of questions about a call that have no action: the result of a call, or whether an interrupted
call or step is to be repeated.
"""


def is_about_call(question: Mapping[str, Any]) -> bool:
    """Whether a question decides on a call of an agent, or on a step whose outcome is unknown.

    Args:
        question: The question's ``action`` and ``metadata``.
    """
    metadata: Mapping[str, Any] = question.get("metadata") or {}
    return question.get("action") is not None or not _OF_CALLS.isdisjoint(metadata)
