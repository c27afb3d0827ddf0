"""The arguments of a validated call as people see them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import ModelRetry, RunContext
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tool_manager import ToolManager

from signoff.agents.approvals.argument_validation import key_of
from signoff.agents.approvals.call_state import held
from signoff.agents.approvals.tool_arguments import Arguments, plain
from signoff.agents.approvals.tool_stubs import change_in
from signoff.agents.steps.deps import copies_of_deps
from signoff.agents.steps.dynamic_toolsets import dynamic_toolset
from signoff.agents.steps.in_workflow import step_name_of
from signoff.agents.steps.step_backend import RETRY
from signoff.people.questions.edits import applied
from signoff.people.schemas.shown_values import show
from signoff.workflow.context import Context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable


class ShownArguments:
    """Finds the arguments of validated calls.

    Args:
        durable: The agent's capability.
        ctx: Pydantic AI's context of the agent's run.
        context: The run's context.
        tools: The tools of this step of the agent.
    """

    def __init__(
        self, durable: Durable[Any], ctx: RunContext[Any], context: Context, tools: ToolManager[Any]
    ) -> None:
        self._durable = durable
        self._ctx = ctx
        self._context = context
        self._tools = tools

    def of(self, call: ToolCallPart, validated: dict[str, Any]) -> Arguments:
        """Return the arguments of a call, without the details that only a step of a dynamic toolset finds."""
        name = call.tool_name
        known = held().known.get(name)
        if known is not None and change_in(self._tools, name) is not None:
            # people see them as before the tool changed
            sent = plain(call.args)
            shown = applied(show(sent).value, known.shown.get(call.tool_call_id, ()))
            return Arguments(sent, validated, cast("dict[str, Any]", shown))
        return Arguments.of((self._tools.tools or {}).get(name), name, call.args, validated)

    async def seen(self, call: ToolCallPart, validated: dict[str, Any]) -> Arguments:
        """Return the arguments of a call. Those of a dynamic toolset's tool are found in a step.

        Raises:
            ModelRetry: The tool refuses them.
        """
        tool = (self._tools.tools or {}).get(call.tool_name)
        known = held().known.get(call.tool_name)
        is_dynamic = (
            tool is not None and dynamic_toolset(tool) is not None if known is None else known.is_dynamic
        )
        if not is_dynamic:
            return self.of(call, validated)
        found = held().dynamic
        key = (call.tool_call_id, key_of(validated))
        if key not in found:
            facts = await self._facts_of(call, validated)
            if "refused" in facts:
                raise ModelRetry(facts["refused"])
            shown = cast("dict[str, Any]", applied(show(validated).value, facts["differs"]))
            unseen, made = ([tuple(place) for place in facts[name]] for name in ("unseen", "made"))
            arguments = Arguments(plain(call.args), validated, shown, unseen, made)
            if made:
                again = Arguments(validated, validated, shown, unseen, made).repeatable
                arguments = replace(arguments, validated=again)
            found[key] = found[call.tool_call_id, key_of(arguments.validated)] = arguments
        return found[key]

    async def _facts_of(self, call: ToolCallPart, validated: dict[str, Any]) -> dict[str, Any]:
        """Validate the arguments of a dynamic toolset's tool in a step."""
        tool = (self._tools.tools or {}).get(call.tool_name)
        toolset = None if tool is None else dynamic_toolset(tool)
        known = held().known.get(call.tool_name)
        name = known.step_name if known is not None else None if tool is None else step_name_of(tool)
        copy = copies_of_deps()

        async def look() -> dict[str, Any]:
            if toolset is None:  # it has changed before the question was asked: an operator decides
                return {"differs": [], "unseen": [[]], "made": []}
            return await self._durable.look_at(toolset, name or call.tool_name, validated, self._ctx, copy)

        step = f"{self._durable.name}.{call.tool_name}:shown"
        return await self._context.step(step, look, retry=RETRY, returns=Any)
