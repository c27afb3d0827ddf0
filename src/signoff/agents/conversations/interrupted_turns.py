"""The messages of an interrupted turn, completed so that no tool call is open."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    repair_messages,
)

LONGEST_REASON: Final = 500  # characters


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a turn ended before it was finished.

    Attributes:
        status: ``aborted`` by a person, or ``failed``.
        reason: The reason, as the model reads it in the next turn.
    """

    status: str
    reason: str

    @property
    def sentence(self) -> str:
        """Its text in the history."""
        reason = self.reason.strip()
        cut = reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 1] + "…"
        cause = "This turn failed" if self.status == "failed" else "This turn was aborted"
        return f"{cause}: {cut}" if cut else f"{cause}."


def closed(
    messages: Sequence[ModelMessage], begun: Collection[str], ending: Ending
) -> Sequence[ModelMessage]:
    """Return a turn's messages with each open call answered, and a response at the end.

    Args:
        messages: The turn's messages.
        begun: The ids of the calls whose tools had begun to run.
        ending: Its ending.
    """
    closing: list[ModelMessage] = []
    for index, message in enumerate(messages):
        if isinstance(message, ModelRequest):
            if message.parts:
                closing.append(replace(message, state="complete"))
            continue
        closing.append(replace(message, state="complete"))
        following = messages[index + 1] if index + 1 < len(messages) else None
        if missing := _unanswered(message, following):
            returns = [_denial(call, call.tool_call_id in begun, ending) for call in missing]
            closing.append(ModelRequest(parts=returns, run_id=message.run_id, timestamp=message.timestamp))
    repaired = repair_messages(closing)
    last = repaired[-1] if repaired else None
    if not isinstance(last, ModelResponse):
        repaired.append(_said(ending, last))
    return repaired


def unsaid(prompt: str | Sequence[UserContent], ending: Ending, run_id: str) -> Sequence[ModelMessage]:
    """Return the messages of a turn of which only the prompt is known."""
    request = ModelRequest(parts=[UserPromptPart(prompt)], run_id=run_id)
    return [request, _said(ending, request)]


def sentence_in(message: ModelMessage) -> str | None:
    """Return the sentence about a turn's ending in its last message; None: it is another message."""
    metadata: Mapping[str, Any] = (message.metadata or {}).get("signoff", {})
    if not isinstance(message, ModelResponse) or "ending" not in metadata:
        return None
    texts = [part.content for part in message.parts if isinstance(part, TextPart)]
    return texts[-1].removeprefix("[").removesuffix("]") if texts else None


def _unanswered(response: ModelResponse, following: ModelMessage | None) -> Sequence[ToolCallPart]:
    parts = following.parts if isinstance(following, ModelRequest) else ()
    answered = {part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)}
    calls = (part for part in response.parts if isinstance(part, ToolCallPart))
    return [call for call in calls if call.tool_call_id not in answered]


def _denial(call: ToolCallPart, has_begun: bool, ending: Ending) -> ToolReturnPart:
    if has_begun:
        text = f"{ending.sentence} The call had begun then: it may or may not have had its effect."
    else:
        text = f"{ending.sentence} The call was not made."
    return ToolReturnPart(
        tool_name=call.tool_name,
        tool_call_id=call.tool_call_id,
        content=text,
        outcome="interrupted" if has_begun else "denied",
        metadata={"signoff": {"ending": ending.status}},
    )


def _said(ending: Ending, after: ModelMessage | None) -> ModelResponse:
    response = ModelResponse(
        parts=[TextPart(f"[{ending.sentence}]")], metadata={"signoff": {"ending": ending.status}}
    )
    if isinstance(after, ModelRequest):
        response = replace(response, run_id=after.run_id)
        if after.timestamp is not None:
            response = replace(response, timestamp=after.timestamp)
    return response
