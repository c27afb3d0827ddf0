"""Stubs of changed tools: they return recorded results, so that a replay does not need the old code.

One rule holds for a tool that has changed since the model called it. A call that has not begun asks an operator. A body
that has begun needs its code: the run stops, and can be retried once that code is deployed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import ModelRetry, RunContext, ToolDefinition
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_ai.toolsets.external import TOOL_SCHEMA_VALIDATOR

from signoff.agents.approvals.tool_arguments import sent_in
from signoff.agents.approvals.tool_changes import (
    Change,
    Known,
    change_between,
    changed,
    code_missing,
)
from signoff.agents.pausing.pause import is_answered
from signoff.agents.steps.in_workflow import is_inline
from signoff.agents.steps.step_backend import outcome_of, with_given
from signoff.agents.steps.tool_usage import counted
from signoff.agents.steps.tools import step_options_of
from signoff.agents.steps.turn_record import note_work
from signoff.workflow.current_context import current_context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable


def stub_changed_tools(
    tools: ToolManager[Any], known: Mapping[str, Known], durable: Durable[Any], step: int | None = None
) -> None:
    """Replace each tool that has changed since the model called it.

    Args:
        tools: The tools of this step of the agent.
        known: The facts of the called tools, by name.
        durable: The agent's capability.
        step: The step of the agent that made the calls, if the tools were listed for another one.
    """
    now = tools_now(tools)
    found: dict[str, ToolsetTool[Any]] = {}
    for name, each in known.items():
        change = change_between(each, now.get(name))
        if change is not None:
            found[name] = _ToolStub(durable, each, change, now.get(name)).as_tool(name, tools)
    if found:
        run_step = -1 if tools.ctx is None else tools.ctx.run_step
        tools.toolset = _StubbedToolset(_toolset_now(tools), found, run_step if step is None else step)
        tools.tools = {**now, **found}


def put_tool(
    tools: ToolManager[Any], name: str, tool: ToolsetTool[Any] | None, known: Known, durable: Durable[Any]
) -> None:
    """Put a tool in the place of the one of that name, and a stub if it is another one than the model called.

    Args:
        tools: The tools of this step of the agent.
        name: The name.
        tool: The tool; None: there is none any more.
        known: The facts when the model called it.
        durable: The agent's capability.
    """
    others = {each: other for each, other in (tools.tools or {}).items() if each != name}
    tools.tools = others if tool is None else {**others, name: tool}
    if isinstance(tools.toolset, _StubbedToolset):
        tools.toolset.found.pop(name, None)
    stub_changed_tools(tools, {name: known}, durable)


def tools_now(tools: ToolManager[Any]) -> dict[str, ToolsetTool[Any]]:
    """Return the tools of this code, including those behind a stub."""
    found = {
        name: tool.toolset.now if type(tool.toolset) is _ToolStub else tool
        for name, tool in (tools.tools or {}).items()
    }
    return {name: tool for name, tool in found.items() if tool is not None}


def change_in(tools: ToolManager[Any], name: str) -> Change | None:
    """Return how a tool has changed since the model called it; None: it has not."""
    tool = (tools.tools or {}).get(name)
    if tool is None:
        return "gone"
    return tool.toolset.change if type(tool.toolset) is _ToolStub else None


def runs_inline(tools: ToolManager[Any], name: str) -> bool:
    """Whether a tool's body was workflow code when the model called it."""
    tool = (tools.tools or {}).get(name)
    if tool is None:
        return False
    return tool.toolset.is_inline if type(tool.toolset) is _ToolStub else is_inline(tool, name)


def manager_of_chosen(
    tools: ToolManager[Any], name: str, known: Known, durable: Durable[Any]
) -> ToolManager[Any]:
    """Return a manager for a tool that an operator has chosen. It has a stub if that tool has changed since.

    Args:
        tools: The tools of this step of the agent.
        name: The chosen tool.
        known: Its facts when it was offered.
        durable: The agent's capability.
    """
    manager = replace(tools, toolset=_toolset_now(tools), tools=tools_now(tools))
    stub_changed_tools(manager, {name: known}, durable)
    return manager


def _toolset_now(tools: ToolManager[Any]) -> AbstractToolset[Any]:
    return tools.toolset.wrapped if isinstance(tools.toolset, _StubbedToolset) else tools.toolset


@dataclass
class _StubbedToolset(WrapperToolset[Any]):
    """The tools of one step of the agent, with the stubs."""

    found: dict[str, ToolsetTool[Any]]
    step: int

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        toolset = await self.wrapped.for_run_step(ctx)
        if ctx.run_step == self.step:
            return replace(self, wrapped=toolset)
        return toolset  # in the next step the model has not called anything yet

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {**await self.wrapped.get_tools(ctx), **self.found}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        stub = self.found.get(name)
        if stub is None:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        return await stub.toolset.call_tool(name, tool_args, ctx, stub)


class _ToolStub(AbstractToolset[Any]):
    """Returns the recorded result of a call whose tool has changed, or reports that the call did not run.

    Attributes:
        change: How the tool has changed.
        now: The tool of that name in this code, if there is one.
        is_inline: Whether its body was workflow code.
    """

    def __init__(
        self, durable: Durable[Any], known: Known, change: Change, now: ToolsetTool[Any] | None
    ) -> None:
        self._durable = durable
        self._known = known
        self.change: Change = change
        self.now = now
        self.is_inline = known.is_inline

    def as_tool(self, name: str, tools: ToolManager[Any]) -> ToolsetTool[Any]:
        """Return it as a tool that accepts the arguments of all recorded calls."""
        known = self._known
        retries = tools.default_max_retries if known.max_retries is None else known.max_retries
        return ToolsetTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=name, description="The code of this tool has changed.", sequential=known.is_sequential
            ),
            max_retries=retries,
            args_validator=TOOL_SCHEMA_VALIDATOR,
            args_validator_func=self._check if known.is_checked or known.refused else None,
        )

    @property
    def id(self) -> str | None:
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {}

    async def _check(self, ctx: RunContext[Any], /, **args: Any) -> None:
        """Repeat the recorded result of validating a call."""
        problem = self._known.refused.get(ctx.tool_call_id or "")
        if problem is not None:
            raise ModelRetry(problem)
        if self._known.is_checked:
            name = self._step_name(ctx.tool_name or "")
            compare = with_given(f"{name}:validate", _valid, None)
            step = current_context().step(f"{name}:validate", _valid, returns=Any, compare=compare)
            self._durable.recorded(await step)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        has_begun = is_answered()

        async def run() -> dict[str, str]:  # only if the journal has no result
            if has_begun:
                raise code_missing(self._durable.name, name, ctx.tool_call_id or "", self.change)
            return await changed(self.change)

        # "once": if the call was interrupted, its operators are asked for the outcome. A step that stops the run must
        # not be "once", since it has not happened.
        options = step_options_of({"effect": "once"}, None, self._durable.operators)
        operators, metadata = options.pop("operators"), options.pop("metadata")
        step = current_context().step(
            self._step_name(name),
            run,
            **({} if has_begun else options),
            returns=Any,
            compare=with_given(self._step_name(name), run, sent_in(ctx)),
        )
        step.ask_operators(operators, metadata)
        try:
            payload = await step
        finally:
            note_work(step.attempt_times)
        return self._durable.recorded(outcome_of(counted(payload, ctx.usage)))

    def _step_name(self, tool: str) -> str:
        return f"{self._durable.name}.{self._known.step_name or tool}"


async def _valid() -> dict[str, Any]:
    return {"kind": "tool_return", "result": None}
