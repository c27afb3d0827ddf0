"""Function tools of agents as steps."""

from __future__ import annotations

import copy
import json
from typing import Any, cast

from agents import (
    FunctionTool,
    RunContextWrapper,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    Usage,
)
from agents.tool_context import ToolContext

from signoff import RetryPolicy, current_context
from signoff.integrations.openai_agents.run_options import Options
from signoff.integrations.openai_agents.shared_context import SharedContext

_NOT_AGAIN = RetryPolicy(max_attempts=1)
_JSON = (str, int, float, bool, dict, list, type(None))


def is_agent_tool(tool: FunctionTool) -> bool:
    """Whether a tool runs another agent (``Agent.as_tool``)."""
    return bool(getattr(tool, "_is_agent_tool", False))


def durable_tool(agent: str, tool: FunctionTool, options: Options) -> FunctionTool:
    """Return a copy of a tool whose calls are steps of the run.

    An agent as a tool is workflow code: the requests and calls of its agent are the steps.
    """
    made = copy.copy(tool)
    calls_agent = is_agent_tool(tool)

    async def invoke(tool_context: ToolContext[Any], arguments: str) -> Any:
        edited = options.edited_arguments(tool_context.tool_call_id, tool.name, arguments)
        agreed = arguments if edited is None else edited
        if calls_agent:
            output = await tool.on_invoke_tool(tool_context, agreed)
        else:
            output = await _call(agent, tool, tool_context, agreed, options)
        return output if edited is None or tool.output_json_schema else _with_edit(output, edited)

    made.on_invoke_tool = invoke
    if callable(tool.needs_approval):
        made.needs_approval = _asking(tool)
    return made


def _asking(tool: FunctionTool) -> Any:
    """Return a tool's approval policy, which asks about each call whose arguments the tool would convert.

    The SDK does so itself, but only for the function that it made from the tool's own function.
    """
    policy: Any = tool.needs_approval
    prepare = getattr(tool.on_invoke_tool, "prepare_arguments", None)

    async def needs_approval(
        context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        prepared = None if prepare is None else prepare(json.dumps(arguments), tool.name)
        if prepared is not None and not prepared.unchanged:
            return True
        decided = policy(context, arguments, call_id)
        return bool(await decided if hasattr(decided, "__await__") else decided)

    return needs_approval


def _with_edit(output: Any, edited: str) -> Any:
    """Return an output that tells the model which arguments have run: its history has its own ones."""
    if output is None:  # an agent as a tool whose own calls wait for people
        return output
    note = f"The approver changed the arguments to {edited}."
    if _is_part(output):
        return [{"type": "text", "text": note}, output]
    if isinstance(output, list) and all(map(_is_part, cast("list[Any]", output))):
        return [{"type": "text", "text": note}, *cast("list[Any]", output)]
    return f"{note}\n{output}"


def _is_part(output: Any) -> bool:
    """Whether the SDK passes an output to the model as it is, not as text."""
    return isinstance(output, dict) and cast("dict[str, Any]", output).get("type") in (
        "text",
        "image",
        "file",
    )


async def _call(
    agent: str, tool: FunctionTool, tool_context: ToolContext[Any], arguments: str, options: Options
) -> Any:
    shared = options.context
    call = _Call(tool, tool_context, arguments, shared)
    is_once = tool.qualified_name not in options.repeatable
    outcome: Any = await current_context().step(
        f"{agent}.{tool.qualified_name}",
        call.run,
        retry=_NOT_AGAIN,
        effect="once" if is_once else "repeatable",
        operators=options.operators if is_once else (),
        returns=Any,
        metadata={"arguments": arguments, "call_id": tool_context.tool_call_id} if is_once else None,
        compare=[tool_context.tool_call_id, arguments],
    )
    if not _is_own(outcome):
        return outcome  # what an operator says has come of an interrupted call
    shared.apply(outcome["context"])
    return outcome["output"]


def _is_own(outcome: Any) -> bool:
    return isinstance(outcome, dict) and cast("dict[str, Any]", outcome).keys() == {"output", "context"}


class _Call:
    """A call of a tool, for its step."""

    def __init__(
        self, tool: FunctionTool, tool_context: ToolContext[Any], arguments: str, shared: SharedContext
    ) -> None:
        self._tool = tool
        self._context = tool_context
        self._arguments = arguments
        self._shared = shared
        self._copy = shared.copy()

    async def run(self) -> dict[str, Any]:
        given = self._context
        context, before = self._copy
        own = ToolContext[Any](
            context,
            Usage(),
            given.tool_name,
            given.tool_call_id,
            self._arguments,
            given.tool_call,
            tool_namespace=given.tool_namespace,
            agent=given.agent,
        )
        output = _plain(await self._tool.on_invoke_tool(own, self._arguments))
        return {"output": output, "context": self._shared.changes(context, before)}


def _plain(output: Any) -> Any:
    """Return a tool's output as JSON from which the SDK makes the same text or parts for the model."""
    if isinstance(output, (ToolOutputText, ToolOutputImage, ToolOutputFileContent)):
        return output.model_dump(mode="json", exclude_none=True)
    if isinstance(output, list):
        return [_plain(each) for each in cast("list[Any]", output)]
    if type(output) in _JSON:
        return output
    return str(output)
