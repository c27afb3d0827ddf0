"""A model that follows a script and has no memory: what it says depends on the items that it is sent alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agents import Model, ModelResponse
from agents.testing import ScriptedModel, assistant_message, function_call

Turn = str | list[tuple[str, dict[str, Any] | str, str]] | Exception


class Script(Model):
    """Answers with the first turn whose calls have no outputs yet.

    Args:
        turns: Texts, calls as (tool, arguments, call id), or errors.

    Attributes:
        sent: The items of each request.
    """

    def __init__(self, *turns: Turn) -> None:
        self._turns = turns
        self.sent: list[Any] = []

    def _turn(self, items: Any) -> Turn:
        done = outputs(items)
        for turn in self._turns:
            if not isinstance(turn, list) or any(call_id not in done for _, _, call_id in turn):
                return turn
        raise AssertionError("the script has ended")

    def _played(self, items: Any) -> ScriptedModel:
        self.sent.append(items)
        turn = self._turn(items)
        if isinstance(turn, Exception):
            return ScriptedModel([turn])
        if isinstance(turn, str):
            return ScriptedModel([[assistant_message(turn)]])
        return ScriptedModel(
            [
                [
                    function_call(
                        name, given if isinstance(given, str) else json.dumps(given), call_id=call_id
                    )
                    for name, given, call_id in turn
                ]
            ]
        )

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        return await self._played(input).get_response(system_instructions, input, *args, **kwargs)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        async for event in self._played(input).stream_response(system_instructions, input, *args, **kwargs):
            yield event


def outputs(items: str | Sequence[Any]) -> dict[str, Any]:
    """What calls have put out, by call id."""
    if isinstance(items, str):
        return {}
    return {each["call_id"]: each["output"] for each in items if each.get("type") == "function_call_output"}
