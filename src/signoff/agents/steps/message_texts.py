"""The texts of messages that a replay compares, as digests: they may be long or confidential."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelRequest,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)

from signoff import codec
from signoff.engine.run.call_inputs import argument_text


def history_digest(call: str, messages: Sequence[ModelMessage]) -> str:
    """Return a digest of what was said and done in messages: texts, tool calls and their results.

    Args:
        call: The name of the agent's first call, for warnings of results without a stable form.
        messages: The messages.
    """
    return codec.digest(json.dumps(list(_said_in(call, messages))))


def last_prompt_digest(messages: Sequence[object]) -> str | None:
    """Return a digest of the user's content in the last message; None if it has none."""
    last = messages[-1] if messages else None
    parts = last.parts if isinstance(last, ModelRequest) else ()
    texts = [text for part in parts if isinstance(part, UserPromptPart) for text in _contents(part)]
    return codec.digest(json.dumps(texts)) if texts else None


def _said_in(call: str, messages: Sequence[ModelMessage]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            match part:
                case UserPromptPart():
                    yield from _contents(part)
                case TextPart():
                    yield part.content
                case ToolCallPart():
                    yield from (part.tool_name, part.args_as_json_str())
                case ToolReturnPart():
                    name = f"message_history: result of {part.tool_name}"
                    yield argument_text(call, type(part), name, cast("Any", part.content))
                case _:
                    pass


def _contents(part: UserPromptPart) -> Iterator[str]:
    """Yield the texts of a prompt, and what identifies its files."""
    for each in [part.content] if isinstance(part.content, str) else part.content:
        match each:
            case str():
                yield each
            case TextContent():
                yield each.content
            case FileUrl():
                yield each.url
            case BinaryContent():
                yield hashlib.sha256(each.data).hexdigest()
            case UploadedFile():
                yield each.file_id
            case _:  # a mark for a provider's cache
                pass
