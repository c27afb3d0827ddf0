"""Tools that changed, or went, between a model's call and a person's answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError
from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.toolsets.external import TOOL_SCHEMA_VALIDATOR

from signoff.agents.approvals import plain
from signoff.context import current_context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable

GONE: Final = "gone"
OTHER: Final = "other"

NOTHING: Final = ""
"""The option that runs nothing."""


class Gone(Exception):
    """What a model has called is not there any more, or takes other arguments."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was known of a tool when the model called it.

    Attributes:
        signature: A hash of what it takes; None: there was no such tool.
        is_gated: Whether somebody may have to agree to the call.
        is_external: Whether somebody else runs it, and answers with its result.
    """

    signature: str | None
    is_gated: bool
    is_external: bool


def signature_of(definition: ToolDefinition) -> str:
    """Return a hash of a tool's name and of what it takes."""
    text = json.dumps([definition.name, definition.parameters_json_schema], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def change_of(tools: ToolManager[Any], name: str, known: Known) -> str | None:
    """Say what became of a tool since a model called it; None: nothing."""
    tool = (tools.tools or {}).get(name)
    if tool is None:
        return GONE
    if isinstance(tool.toolset, _StandIn):
        return tool.toolset.change
    return None if signature_of(tool.tool_def) == known.signature else OTHER


def question(agent: str, tool: str, change: str) -> str:
    """Return what an operator is asked of a tool that has changed."""
    if change == GONE:
        return f"{agent} has called {tool}, which is not there any more. What shall be run instead?"
    return f"{agent} has called {tool}, which takes other arguments by now. What shall be run?"


def options(tools: ToolManager[Any], name: str, args: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what an operator may choose: tools that take these arguments, the one of that name first, or nothing."""
    fitting = [each for each in tools.tools or () if _takes(tools, each, args)]
    fitting.sort(key=lambda each: (each != name, each))
    offered = [{"value": each, "label": f"Run {each} with these arguments"} for each in fitting]
    return [*offered, {"value": NOTHING, "label": "Run nothing, and tell the model"}]


def _takes(tools: ToolManager[Any], name: str, args: dict[str, Any]) -> bool:
    tool = (tools.tools or {})[name]
    if tool.tool_def.kind == "output" or isinstance(tool.toolset, _StandIn):
        return False
    try:
        tool.args_validator.validate_python(args)
    except ValidationError:
        return False
    return True


# A stand-in keeps the calls of a run in their order, so that its replay comes to where people are asked.


def stand_in(
    tools: ToolManager[Any], calls: Sequence[ToolCallPart], known: Known, durable: Durable[Any]
) -> None:
    """Put something in the place of a tool that went, or does not take any more what it was called with.

    Args:
        tools: Those of this step of the agent.
        calls: The model's calls of one tool.
        known: What was known of it when they were made.
        durable: Whose steps run it.
    """
    name = calls[0].tool_name
    change = None if known.signature is None else change_of(tools, name, known)
    if change is None or (change == OTHER and all(_takes(tools, name, plain(call.args)) for call in calls)):
        return
    assert tools.tools is not None
    definition = ToolDefinition(name=name, description="The code of this tool has changed.")
    tools.tools[name] = ToolsetTool(
        toolset=_StandIn(durable, change),
        tool_def=definition,
        max_retries=tools.default_max_retries,
        args_validator=TOOL_SCHEMA_VALIDATOR,
    )


async def _missing(name: str) -> None:
    raise Gone(name)


class _StandIn(AbstractToolset[Any]):
    """Gives what a call returned before its tool went, if it was run at all."""

    def __init__(self, durable: Durable[Any], change: str) -> None:
        self._durable = durable
        self.change = change

    @property
    def id(self) -> str | None:
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        payload = await current_context().step(f"{self._durable.name}.{name}", _missing, name, effect="once")
        return self._durable.recorded(payload)
