"""The id of the model's call in a tool call's recorded outcome: readers of a journal pair calls with their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

KEY: Final = "signoff_call"
"""The key of the call's id in a step's outcome."""


def of_call(call_id: str | None, outcome: object) -> object:
    """Return the outcome of an attempt at a tool call with the id of the model's call."""
    if call_id is None or not isinstance(outcome, dict):
        return outcome
    return {**cast("dict[str, Any]", outcome), KEY: call_id}


def call_of(outcome: object) -> str | None:
    """Return the id of the model's call that an outcome belongs to; None: it has none."""
    recorded: Mapping[str, Any] = cast("Any", outcome) if isinstance(outcome, dict) else {}
    id: object = recorded.get(KEY)
    return id if isinstance(id, str) and "kind" in recorded else None


def without_call(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return an outcome as Pydantic AI reads it."""
    return {name: value for name, value in outcome.items() if name != KEY}
