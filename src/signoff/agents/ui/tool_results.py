"""The results of tool calls, as a turn's journal has them before the turn has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic_ai.messages import ToolReturnPart

from signoff.agents.approvals.approval_gate import DENIED
from signoff.agents.pausing.pause import MARK
from signoff.agents.steps.recorded_calls import call_of
from signoff.records import CallKind, Entry, EntryKind

_FAILED: Final = ("tool_failed", "run_cancelled")
_RETRIED: Final = ("model_retry", "validation_error")
_UNANSWERED: Final = {
    "timed_out": "No one answered in time.",
    "cancelled": "The question was withdrawn.",
}


class ToolResults:
    """Reads results from journal entries: outcomes of tools, denials, and results that people gave.

    The results of other calls, such as those of tools that are workflow code, are in the messages of the ended turn.
    """

    def __init__(self) -> None:
        self._asked: dict[int, Mapping[str, Any]] = {}  # questions by their number

    def read(self, entry: Entry, tools: Mapping[str, str]) -> ToolReturnPart | None:
        """Return the result that an entry has, if any.

        Args:
            entry: The journal entry.
            tools: The tools of the calls that have been made, by the calls' ids.
        """
        found: tuple[str | None, Any, str] | None = None
        if entry.kind is EntryKind.CONTINUED:
            self._asked.clear()  # a new generation numbers its calls anew
        elif entry.call is CallKind.QUESTION and entry.n is not None:
            if entry.kind is EntryKind.OPENED:
                self._asked[entry.n] = json.loads(entry.value or "{}")
            elif entry.kind is EntryKind.COMPLETED and (asked := self._asked.pop(entry.n, None)):
                found = _of_answer(asked, entry)
        elif entry.kind is EntryKind.COMPLETED and entry.call is CallKind.STEP and entry.error is None:
            found = _of_step(entry.value)
        if found is None:
            return None
        id, content, outcome = found
        if id is None or id not in tools:
            return None
        return ToolReturnPart(tools[id], content, id, outcome=cast("Any", outcome))


def _of_answer(asked: Mapping[str, Any], entry: Entry) -> tuple[str | None, Any, str] | None:
    about: Mapping[str, Any] = asked.get("metadata", {})
    if MARK in about:
        return None  # a tool's pause: the tool continues
    id: str | None = about.get("tool_call_id")
    state = entry.state or "resolved"
    if state in _UNANSWERED:
        return id, _UNANSWERED[state], "denied"
    value: Any = json.loads(entry.value or "null")
    if asked.get("action") is not None and isinstance(value, dict):
        denied = cast("Mapping[str, Any]", value).get("approved") is False
        return (id, entry.fact("note") or DENIED, "denied") if denied else None
    is_result = asked.get("answer_schema", {}).get("properties", {}).keys() == {"result"}
    if is_result and isinstance(value, dict):
        return id, cast("Mapping[str, Any]", value).get("result"), "success"
    return None


def _of_step(value: str | None) -> tuple[str | None, Any, str] | None:
    if value is None or '"signoff_call"' not in value:
        return None
    recorded: Any = json.loads(value)
    id = call_of(recorded)
    if id is None:
        return None
    kind = recorded["kind"]
    if kind in _FAILED:
        return id, recorded.get("message"), "failed"
    if kind in _RETRIED:
        return id, recorded.get("message") or recorded.get("title"), "retried"
    if kind not in ("tool_return", "tool_content_result"):
        return None  # it paused, or waits for a decision
    result: Any = recorded.get("result")
    if kind == "tool_return" and isinstance(result, dict) and _is_tool_return(cast("Any", result)):
        result = cast("Any", result).get("return_value")
    return id, cast("Any", result), "success"


def _is_tool_return(result: Mapping[str, Any]) -> bool:
    return result.get("kind") == "tool-return" and "return_value" in result
