"""Tools of MCP servers, listed again once people have answered: a server may change them while they decide."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import RunContext
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from signoff.agents.approvals.call_state import held
from signoff.agents.approvals.tool_stubs import put_tool, tools_now
from signoff.agents.steps.in_workflow import step_name_of
from signoff.workflow.current_context import current_context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable

Schema = Mapping[str, Any]


def note_listed(toolset: AbstractToolset[Any], tools: Mapping[str, ToolsetTool[Any]]) -> None:
    """Note the parameters of an MCP server's tools as this run has listed them."""
    server = _server_of(toolset)
    if server is not None:
        for name, tool in tools.items():
            held().listed[server.id or "", name] = tool.tool_def.parameters_json_schema


async def relist(durable: Durable[Any], ctx: RunContext[Any], tools: ToolManager[Any], name: str) -> None:
    """Replace a tool by the one that its MCP server offers now, if the server has changed it. Journals that.

    Args:
        durable: The agent's capability.
        ctx: Pydantic AI's context of the agent's run.
        tools: The tools of this step of the agent.
        name: The called tool.
    """
    tool = tools_now(tools).get(name)
    server = None if tool is None else _server_of(tool.toolset)
    if tool is None or server is None:
        return
    offered, own_name = server, step_name_of(tool)
    listed = held().listed.get((server.id or "", own_name))

    async def look() -> dict[str, Any]:
        async with offered:
            now = (await offered.get_tools(ctx)).get(own_name)
        if now is None:
            return {"gone": True}
        schema = now.tool_def.parameters_json_schema
        return {} if schema == listed else {"schema": schema}

    step = current_context().step(f"{durable.name}.{name}:listed", look, retry=durable.retry, compare=None)
    found = cast("dict[str, Any]", await step)
    if found.get("gone"):
        tool = None
    elif (schema := found.get("schema", listed)) is not None and found:
        tool = replace(tool, tool_def=replace(tool.tool_def, parameters_json_schema=schema))
    put_tool(tools, name, tool, held().known[name], durable)


def _server_of(toolset: AbstractToolset[Any]) -> AbstractToolset[Any] | None:
    """Return the MCP server behind a toolset; None: it is another toolset."""
    while isinstance(toolset, WrapperToolset):
        toolset = toolset.wrapped
    mcp = sys.modules.get("pydantic_ai.mcp")  # an optional dependency
    return toolset if mcp is not None and isinstance(toolset, mcp.MCPToolset) else None
