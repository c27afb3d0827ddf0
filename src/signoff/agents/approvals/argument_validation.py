"""Validates the arguments of tool calls once, though they are needed for the question and for the tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import ToolsetTool
from pydantic_ai.toolsets.external import TOOL_SCHEMA_VALIDATOR

Partial = bool | Literal["off", "on", "trailing-strings"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of validating arguments.

    Attributes:
        key: The key of the arguments.
        value: The validated arguments; None: they were refused.
        error: The reason for the refusal.
        context: The validation context.
    """

    key: str
    value: dict[str, Any] | None
    error: Exception | None
    context: Any

    @classmethod
    def of(cls, tools: ToolManager[Any], tool: ToolsetTool[Any], args: object) -> Outcome:
        """Validate a tool's arguments.

        Args:
            tools: The tools of this step of the agent.
            tool: The tool.
            args: The model's arguments: a dict, JSON, or nothing.
        """
        context = None if tools.ctx is None else tools.ctx.validation_context
        validator, key = tool.args_validator, key_of(args)
        try:
            if isinstance(args, str):
                value = validator.validate_json(args or "{}", context=context)
            else:
                value = validator.validate_python(cast("Any", args) or {}, context=context)
        except Exception as error:  # a validator may raise ModelRetry, too
            return cls(key, None, error, context)
        return cls(key, value, None, context)


def key_of(args: object) -> str:
    """Return a key for arguments, as strict as a validator."""
    if not args:
        return "{}"
    if isinstance(args, str):
        return args
    try:
        return f"dict {json.dumps(args)}"
    except (TypeError, ValueError, RecursionError):
        return f"object {id(args)}"


class Once:
    """A tool's validator that returns each known outcome once.

    Args:
        validator: Validates everything else.
        outcomes: The known outcomes.
        repeated: Arguments to validate instead of the model's. They keep values that a validator makes anew each time.
    """

    def __init__(
        self, validator: Any, outcomes: Sequence[Outcome], repeated: Mapping[str, dict[str, Any]]
    ) -> None:
        self._validator = validator
        self._outcomes = list(outcomes)
        self._repeated = repeated

    def validate_json(
        self, input: str | bytes | bytearray, *, allow_partial: Partial = False, **kwargs: Any
    ) -> Any:
        """Validate JSON."""
        text = input if isinstance(input, str) else input.decode()
        if allow_partial in (False, "off"):
            found = self._take(text, kwargs.get("context"))
            if found is not None:
                return _result(found)
            if text in self._repeated:
                text = json.dumps(self._repeated[text])
        return self._validator.validate_json(text, allow_partial=allow_partial, **kwargs)

    def validate_python(self, input: Any, *, allow_partial: Partial = False, **kwargs: Any) -> Any:
        """Validate a dict."""
        if allow_partial in (False, "off"):
            key = key_of(input)
            found = self._take(key, kwargs.get("context"))
            if found is not None:
                return _result(found)
            input = self._repeated.get(key, input)
        return self._validator.validate_python(input, allow_partial=allow_partial, **kwargs)

    def _take(self, key: str, context: Any) -> Outcome | None:
        for index, outcome in enumerate(self._outcomes):
            if outcome.key == key and outcome.context is context:
                return self._outcomes.pop(index)
        return None


def _result(outcome: Outcome) -> dict[str, Any]:
    if outcome.error is not None:
        raise outcome.error
    assert outcome.value is not None
    return outcome.value


def validate_once(
    tools: ToolManager[Any],
    outcomes: Mapping[str, Sequence[Outcome]],
    repeated: Mapping[str, Mapping[str, dict[str, Any]]],
) -> None:
    """Let tool calls use the known outcomes of validating their arguments.

    Args:
        tools: The tools of this step of the agent.
        outcomes: The known outcomes, by tool name.
        repeated: Arguments to validate in another process, by tool name and the key of the model's arguments.
    """
    now = tools.tools or {}
    found = {
        name: replace(
            tool, args_validator=Once(tool.args_validator, outcomes.get(name, ()), repeated.get(name, {}))
        )
        for name, tool in now.items()
        if (outcomes.get(name) or repeated.get(name)) and tool.args_validator is not TOOL_SCHEMA_VALIDATOR
    }
    if found:
        tools.tools = {**now, **found}
