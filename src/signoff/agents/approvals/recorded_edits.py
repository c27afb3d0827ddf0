"""Records edited arguments and substituted tools in the message history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import ToolDenied

from signoff.agents.approvals.operator_questions import Choice
from signoff.agents.approvals.tool_arguments import Arguments

EDITED: Final = "signoff"
"""The key in the metadata of a tool's return under which a person's changes stand."""


EDIT_NOTES: Final = (
    "The called tool had changed; ",
    "The person who approved this call changed its arguments; ",
)
"""The beginnings of the notes to the model about a person's changes."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """The result of an approval.

    Attributes:
        arguments: The agreed arguments.
        edited_by: The person who has edited them; None: they are the model's.
        choice: The tool that an operator chose instead of the called one; None: the called one runs.
    """

    arguments: Arguments
    edited_by: str | None
    choice: Choice | None = None

    @property
    def edit(self) -> dict[str, Any] | None:
        """The edit as the history records it; None: the arguments are the model's."""
        if self.edited_by is None:
            return None
        return {"arguments": self.arguments.shown, "edited_by": self.edited_by}


def as_chosen(
    result: Any, sent: Mapping[str, Any], choice: Choice, edit: Mapping[str, Any] | None = None
) -> Any:
    """Record in a result which tool an operator has chosen."""
    chosen = {"arguments": dict(sent), "tool": choice.tool, "chosen_by": choice.by}
    return as_edited(result, {**(edit or {}), **chosen})


def as_edited(result: Any, edit: Mapping[str, Any] | None) -> Any:
    """Record in a result the arguments, and the tool, that people have changed."""
    if edit is None or isinstance(result, ToolDenied):
        return result
    returned = cast(
        "ToolReturn[Any]", result if isinstance(result, ToolReturn) else ToolReturn(return_value=result)
    )
    ran = json.dumps(edit["arguments"])
    if "tool" in edit:
        note = f"{EDIT_NOTES[0]}{edit['tool']} ran instead, chosen by an operator, with {ran}."
    else:
        note = f"{EDIT_NOTES[1]}it ran with {ran}."
    content = returned.content
    notes = [note] if content is None else [note, *([content] if isinstance(content, str) else content)]
    metadata = {EDITED: dict(edit)}
    if returned.metadata is not None:
        metadata["tool"] = returned.metadata
    return replace(returned, content=notes, metadata=metadata)
