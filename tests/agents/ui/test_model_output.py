"""Live text and journaled responses become one stream, in which every word comes once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

from signoff import LiveText
from signoff.agents.ui.model_output import ModelOutput


def piece(text: str, position: int, *, kind: str = "text", attempt: int = 1, n: int = 5) -> LiveText:
    return LiveText("r", 1, 0, n, "support:model_stream", attempt, position, kind, text)


def told(events: Iterable[AgentStreamEvent]) -> list[str]:
    """Write the events down: ``+text hello`` begins a part, `` world`` continues it, ``.`` ends it."""
    lines: list[str] = []
    for event in events:
        match event:
            case PartStartEvent(part=TextPart() | ThinkingPart() as part):
                lines.append(f"+{part.part_kind} {part.content}")
            case PartStartEvent(part=ToolCallPart(tool_name=name)):
                lines.append(f"+call {name}")
            case PartDeltaEvent(delta=delta):
                lines.append(str(getattr(delta, "content_delta", "")))
            case PartEndEvent():
                lines.append(".")
            case FunctionToolCallEvent(part=part):
                lines.append(f"run {part.tool_name}")
            case _:
                raise AssertionError(event)
    return lines


def response(*parts: TextPart | ThinkingPart | ToolCallPart) -> ModelResponse:
    return ModelResponse(list(parts))


def test_a_response_without_live_text_is_told_whole() -> None:
    events = ModelOutput().response(response(TextPart("hello"), ToolCallPart("rm", {})))
    assert told(events) == ["+text hello", ".", "+call rm", ".", "run rm"]


def test_the_journaled_response_adds_only_what_was_not_heard() -> None:
    output = ModelOutput()
    assert told(output.live(piece("Hmm", 0, kind="thinking"))) == ["+thinking Hmm"]
    assert told(output.live(piece("Once ", 3))) == [".", "+text Once "]
    assert told(output.live(piece("upon ", 8))) == ["upon "]
    rest = output.response(response(ThinkingPart("Hmm"), TextPart("Once upon a time"), ToolCallPart("rm")))
    assert told(rest) == ["a time", ".", "+call rm", ".", "run rm"]
    assert not output.has_discarded
    assert told(output.response(response(TextPart("more")))) == ["+text more", "."]


def test_a_repeated_attempt_with_the_same_words_adds_none() -> None:
    output = ModelOutput()
    assert told(output.live(piece("Once upon ", 0))) == ["+text Once upon "]
    assert told(output.live(piece("Once ", 0, attempt=2))) == []
    assert told(output.live(piece("upon a ", 5, attempt=2))) == ["a "]
    assert told(output.response(response(TextPart("Once upon a time")))) == ["time", "."]
    assert not output.has_discarded


def test_an_attempt_with_other_words_begins_anew_and_is_noted() -> None:
    output = ModelOutput()
    assert told(output.live(piece("Once upon ", 0))) == ["+text Once upon "]
    assert told(output.live(piece("There ", 0, attempt=2))) == [".", "+text There "]
    assert told(output.response(response(TextPart("There was")))) == ["was", "."]
    assert output.has_discarded


@pytest.mark.parametrize("position", [7, 3])
def test_lost_and_overlapping_pieces_leave_no_gap_and_no_double_words(position: int) -> None:
    output = ModelOutput()
    assert told(output.live(piece("Once ", 0))) == ["+text Once "]
    heard = told(output.live(piece("e upon ", position)))
    assert heard == ([] if position == 7 else ["upon "])
    rest = told(output.response(response(TextPart("Once upon a time"))))
    assert "".join(["Once ", *heard, *rest]) == "Once upon a time."


def test_output_of_other_kinds_is_not_the_models_words() -> None:
    assert told(ModelOutput().live(piece("50%", 0, kind="progress"))) == []


def test_text_of_a_request_that_never_ended_is_closed() -> None:
    output = ModelOutput()
    assert told(output.live(piece("Once ", 0))) == ["+text Once "]
    assert told(output.abandon()) == ["."]
    assert output.has_discarded
