"""The innermost toolset around a tool: runs a call with the approved arguments, whatever outer toolsets changed."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

from signoff.agents.approvals.approval_policy import Policy, may_ask
from signoff.agents.approvals.call_state import held
from signoff.agents.approvals.relisted_tools import note_listed
from signoff.agents.approvals.tool_changes import Known
from signoff.agents.steps.dynamic_toolsets import dynamic_toolset, expecting
from signoff.agents.steps.in_workflow import function_tool, is_inline, source_of, step_name_of
from signoff.agents.steps.plain_tools import for_step, with_own_copies
from signoff.agents.steps.tools import is_external, requires_approval
from signoff.errors import OutsideWorkflow
from signoff.workflow.current_context import refuse_here

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
        policy: The agent's approval policy.
    """

    gate: Gate
    call: ToolCallPart
    definition: ToolDefinition
    known: Known
    policy: Policy | None

    def is_of(self, tool: ToolsetTool[Any], name: str) -> bool:
        """Whether this call is one of the given tool. Code around a tool may run another one in its place.

        Args:
            tool: The tool that runs.
            name: Its name in its own toolset.
        """
        called = self._tools.get(self.call.tool_name)
        if called is None:  # it has changed
            return True
        if name == self.call.tool_name and source_of(tool) is source_of(called):
            return True
        function = function_tool(tool, name)
        if function is not None:
            return function is function_tool(called, self.call.tool_name)
        if name in (self.call.tool_name, step_name_of(called)):
            return True
        return tool.tool_def.name == self.call.tool_name and name not in map(
            step_name_of, self._tools.values()
        )

    def check_ungated(self, tool: ToolsetTool[Any], name: str) -> None:
        """Check that calls of another tool that runs within this call need no decision.

        Raises:
            OutsideWorkflow: People or a policy decide about them.
        """
        names = {name, *(each for each, other in self._tools.items() if step_name_of(other) == name)}
        is_gated = requires_approval(tool.tool_def) or is_external(tool.tool_def)
        if is_gated or any(may_ask(self.policy, each) for each in names):
            why = (
                f"people or a policy decide about its calls, and the call of {self.call.tool_name!r} runs it without a "
                "decision. Call it in workflow code, by ctx.tool_manager.handle_call(...)"
            )
            raise refuse_here(OutsideWorkflow(f"tool {name!r}", why=why))

    @property
    def _tools(self) -> Mapping[str, ToolsetTool[Any]]:
        manager = held().managers.get(self.call.tool_call_id)
        return {} if manager is None else manager.tools or {}


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
        note_listed(self.wrapped, tools)
        return {
            name: tool if tool.args_validator_func is None or is_inline(tool, name) else with_own_copies(tool)
            for name, tool in tools.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Call the tool with the approved arguments.

        Raises:
            SkipToolExecution: The changed call is not allowed.
            OutsideWorkflow: The tool runs in the place of the approved one, and needs a decision of its own.
        """
        running = _running.get()
        is_other = running is not None and not running.is_of(tool, name)
        if running is not None and is_other:
            running.check_ungated(tool, name)
        if not is_inline(tool, name):
            tool = for_step(tool)
        if running is not None and not is_other and running.call.tool_call_id in held().decided:
            tool_args = await running.gate.check_unchanged(
                running.call, running.definition, tool_args, running.known
            )
            if dynamic_toolset(tool) is not None:
                shown, _ = held().decided[running.call.tool_call_id]
                with expecting(running.call.tool_name, tool_args, shown):
                    return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)
