"""What really ran, where people have changed arguments or chosen another tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from pydantic_ai.messages import ToolCallPart, ToolReturn
from pydantic_ai.tools import ToolDenied

from signoff.agents.approvals.operator_questions import Choice

EDITED: Final = "signoff"
"""Under which name the metadata of a tool's return has what a person changed."""


def chosen_call(call: ToolCallPart, sent: Mapping[str, Any], choice: Choice) -> ToolCallPart:
    """Return the call of a tool that was chosen instead of the one that the model has called."""
    return replace(call, tool_name=choice.tool, args=dict(sent))


def as_chosen(
    result: Any, sent: Mapping[str, Any], choice: Choice, edit: Mapping[str, Any] | None = None
) -> Any:
    """Say in the history which tool was chosen, and by whom."""
    chosen = {"arguments": dict(sent), "tool": choice.tool, "chosen_by": choice.by}
    return as_edited(result, {**(edit or {}), **chosen})


def as_edited(result: Any, edit: Mapping[str, Any] | None) -> Any:
    """Say in the history what really ran, where a person has changed the arguments, or has chosen another tool."""
    if edit is None or isinstance(result, ToolDenied):
        return result
    returned = cast(
        "ToolReturn[Any]", result if isinstance(result, ToolReturn) else ToolReturn(return_value=result)
    )
    ran = json.dumps(edit["arguments"])
    if "tool" in edit:
        note = f"The called tool had changed; {edit['tool']} ran instead, chosen by an operator, with {ran}."
    else:
        note = f"The person who approved this call changed its arguments; it ran with {ran}."
    content = returned.content
    said = [note] if content is None else [note, *([content] if isinstance(content, str) else content)]
    metadata = {EDITED: dict(edit)}
    if returned.metadata is not None:
        metadata["tool"] = returned.metadata
    return replace(returned, content=said, metadata=metadata)
