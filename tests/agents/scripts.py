"""Models that follow a script, and helpers to inspect them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff.records import Promise

Turn = ModelResponse | Exception | Callable[[list[ModelMessage]], ModelResponse]


class Script:
    """Says one response after the other, and remembers what it was asked.

    Attributes:
        asked: The messages of each request.
    """

    def __init__(self, *turns: Turn) -> None:
        self._turns = turns
        self.asked: list[list[ModelMessage]] = []
        self.model = FunctionModel(self._respond, model_name="script")

    def replace(self, *turns: Turn) -> None:
        """Say these instead."""
        self._turns = turns

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = self._turns[len(self.asked)]
        self.asked.append(list(messages))
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, ModelResponse) else turn(messages)


def says(text: str) -> ModelResponse:
    """A response of words."""
    return ModelResponse([TextPart(text)])


def calls(*wanted: tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str]) -> ModelResponse:
    """A response that calls tools: (name, arguments), or with the call's id."""
    return ModelResponse([ToolCallPart(*each) for each in wanted])


def returns(messages: Sequence[ModelMessage]) -> list[list[Any]]:
    """What tools returned: [name, content, outcome] each."""
    parts = [part for message in messages for part in message.parts]
    return [
        (part.tool_name, part.content, part.outcome) for part in parts if isinstance(part, ToolReturnPart)
    ]


def asked(question: Promise) -> dict[str, Any]:
    """A question as people see it."""
    return json.loads(question.data or "{}")
