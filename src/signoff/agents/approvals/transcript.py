"""A conversation as plain text, for the people who decide about a part of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

MOST_LINES: Final = 20
LONGEST_LINE: Final = 2_000  # characters


def transcript_of(messages: Sequence[ModelMessage]) -> list[dict[str, str]]:
    """Return the latest lines of a conversation: ``[{"who": "user" | "agent" | "tool", "text": ...}]``."""
    lines = [{"who": who, "text": _cut(text)} for who, text in _lines(messages) if text]
    return lines[-MOST_LINES:]


def _lines(messages: Sequence[ModelMessage]) -> Iterator[tuple[str, str]]:
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    yield "user", _said(part.content)
                elif isinstance(part, ToolReturnPart):
                    yield "tool", f"{part.tool_name}: {part.model_response_str()}"
        else:
            for part in message.parts:
                if isinstance(part, TextPart):
                    yield "agent", part.content
                elif isinstance(part, ToolCallPart):
                    yield "agent", f"{part.tool_name}({part.args_as_json_str()})"


def _said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(each if isinstance(each, str) else f"[{type(each).__name__}]" for each in content)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"
