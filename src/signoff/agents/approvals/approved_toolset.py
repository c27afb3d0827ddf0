"""The innermost toolset around a tool: runs a call with the approved arguments, whatever outer toolsets changed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

from signoff.agents.approvals.call_state import held
from signoff.agents.approvals.tool_changes import Known
from signoff.agents.steps.dynamic_toolsets import dynamic_toolset, expecting
from signoff.agents.steps.in_workflow import is_inline
from signoff.agents.steps.plain_tools import for_step, with_own_copies

if TYPE_CHECKING:
    from signoff.agents.approvals.approval_gate import Gate


@dataclass(frozen=True, slots=True)
class Running:
    """A call that has passed its gate.

    Attributes:
        gate: The gate.
        call: The model's call.
        definition: The tool.
        known: The facts about the tool when the model called it.
    """

    gate: Gate
    call: ToolCallPart
    definition: ToolDefinition
    known: Known


_running: ContextVar[Running | None] = ContextVar("signoff_tool_running", default=None)


@contextmanager
def running_call(call: Running) -> Generator[None]:
    """Run a tool call here."""
    token = _running.set(call)
    try:
        yield
    finally:
        _running.reset(token)


class AsApproved(WrapperToolset[AgentDepsT]):
    """Wraps a toolset with tools, inside of all other wrappers.

    A wrapper may change a call's arguments in ``call_tool``, and so may a hook around the call. No person or policy has
    seen those arguments, so the call needs another decision.
    """

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools. Validators that run as steps get copies of the arguments."""
        tools = await super().get_tools(ctx)
        return {
            name: tool if is_inline(tool, name) else with_own_copies(tool) for name, tool in tools.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Call the tool with the approved arguments.

        Raises:
            SkipToolExecution: The changed call is not allowed.
        """
        running = _running.get()
        if not is_inline(tool, name):
            tool = for_step(tool)
        if running is not None and running.call.tool_call_id in held().decided:
            tool_args = await running.gate.check_unchanged(
                running.call, running.definition, tool_args, running.known
            )
            if dynamic_toolset(tool) is not None:
                shown, _ = held().decided[running.call.tool_call_id]
                with expecting(running.call.tool_name, tool_args, shown):
                    return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)
