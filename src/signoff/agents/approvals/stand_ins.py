"""Stand-ins for tools that changed: they give what calls have returned before, so that a replay comes to its end."""

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
    ToolChanged,
    change_between,
    changed,
    known_of,
)
from signoff.agents.pausing.pause import noted
from signoff.agents.steps.in_workflow import is_inline
from signoff.agents.steps.step_backend import outcome_of
from signoff.agents.steps.tools import step_options_of
from signoff.agents.steps.turn_record import note_work
from signoff.workflow.context import current_context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable


def stand_in(
    tools: ToolManager[Any], known: Mapping[str, Known], durable: Durable[Any], step: int | None = None
) -> None:
    """Put something in the place of each tool that is not what it was when the model called it.

    Args:
        tools: Those of this step of the agent.
        known: What was known of them then, by name.
        durable: Whose steps run them.
        step: Of which step of the agent the calls are, if not of that for which the tools were listed.
    """
    now = tools_now(tools)
    found: dict[str, ToolsetTool[Any]] = {}
    for name, each in known.items():
        change = change_between(each, now.get(name))
        if change is not None:
            found[name] = _StandIn(durable, each, change, now.get(name)).as_tool(name, tools)
    if found:
        run_step = -1 if tools.ctx is None else tools.ctx.run_step
        tools.toolset = _WithStandIns(_toolset_now(tools), found, run_step if step is None else step)
        tools.tools = {**now, **found}


def tools_now(tools: ToolManager[Any]) -> dict[str, ToolsetTool[Any]]:
    """Return the tools that are really there, also those behind a stand-in."""
    found = {
        name: tool.toolset.now if isinstance(tool.toolset, _StandIn) else tool
        for name, tool in (tools.tools or {}).items()
    }
    return {name: tool for name, tool in found.items() if tool is not None}


def change_in(tools: ToolManager[Any], name: str) -> Change | None:
    """Say what became of a tool since the model called it; None: nothing."""
    tool = (tools.tools or {}).get(name)
    if tool is None:
        return "gone"
    return tool.toolset.change if isinstance(tool.toolset, _StandIn) else None


def runs_inline(tools: ToolManager[Any], name: str) -> bool:
    """Whether a tool's body is workflow code, or was when the model called it."""
    tool = (tools.tools or {}).get(name)
    if tool is None:
        return False
    return tool.toolset.is_inline if isinstance(tool.toolset, _StandIn) else is_inline(tool, name)


def manager_for(
    tools: ToolManager[Any], name: str, known: Known | None, durable: Durable[Any]
) -> ToolManager[Any]:
    """Return a manager for one call of a tool: nothing stands in, but for it, if it has changed since it was chosen.

    Args:
        tools: Those of this step of the agent.
        name: The tool.
        known: What was known of it when it was chosen; None: nobody has written it down.
        durable: Whose steps run it.
    """
    now = tools_now(tools)
    if known is None:
        known = Known("") if name not in now else known_of(tools, now[name], (), durable.approvals)[0]
    manager = replace(tools, toolset=_toolset_now(tools), tools=now)
    stand_in(manager, {name: known}, durable)
    return manager


def _toolset_now(tools: ToolManager[Any]) -> AbstractToolset[Any]:
    return tools.toolset.wrapped if isinstance(tools.toolset, _WithStandIns) else tools.toolset


@dataclass
class _WithStandIns(WrapperToolset[Any]):
    """The tools of one step of the agent, with those that stand in."""

    found: dict[str, ToolsetTool[Any]]
    step: int

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        toolset = await self.wrapped.for_run_step(ctx)
        if ctx.run_step == self.step:
            return replace(self, wrapped=toolset)
        return toolset  # the model has not called anything in the next step

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {**await self.wrapped.get_tools(ctx), **self.found}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        stands_in = self.found.get(name)
        if stands_in is None:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        return await stands_in.toolset.call_tool(name, tool_args, ctx, stands_in)


class _StandIn(AbstractToolset[Any]):
    """Gives what a call has returned before its tool changed, or says that it was not run.

    Attributes:
        change: What became of the tool.
        now: What has its name now, if anything has.
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
        """Return it as a tool that takes whatever its calls have."""
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
        """Say again what was said of a call's arguments."""
        problem = self._known.refused.get(ctx.tool_call_id or "")
        if problem is not None:
            raise ModelRetry(problem)
        if self._known.is_checked:
            name = self._step_name(ctx.tool_name or "")
            self._durable.recorded(await current_context().step(f"{name}:validate", _fine, returns=Any))

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        if self._known.is_inline:
            self._check_not_begun(name, ctx)
            raise noted(ToolChanged(self.change))
        # if it was interrupted, people say what became of it
        options = step_options_of({"effect": "once"}, None, self._durable.operators)
        step = current_context().step(
            self._step_name(name),
            changed,
            self.change,
            **options,
            returns=Any,
            compare=sent_in(ctx),
        )
        try:
            payload = await step
        finally:
            note_work(step.attempt_times)
        return self._durable.recorded(outcome_of(payload))

    def _step_name(self, tool: str) -> str:
        return f"{self._durable.name}.{self._known.step_name or tool}"

    def _check_not_begun(self, name: str, ctx: RunContext[Any]) -> None:
        """Stop if the body may have done something: only its code can go on from there."""
        context = current_context()
        if context.patched(f"signoff.changed:{ctx.tool_call_id}"):
            return
        became = "is not there any more" if self.change == "gone" else "takes other arguments by now"
        context.cannot_run_here(
            f"{self._durable.name} has begun to run the tool {name!r} (call {ctx.tool_call_id!r}), which {became}. Its "
            "body is workflow code: nothing but this code can go on with what it has done. Deploy it again, with the "
            "name and the arguments it had, then retry the run; or cancel the run"
        )


async def _fine() -> dict[str, Any]:
    return {"kind": "tool_return", "result": None}
