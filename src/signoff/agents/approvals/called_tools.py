"""Journals the facts about the tools that a response calls, before anything else happens to the calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tool_manager import ToolManager

from signoff.agents.approvals.argument_validation import Outcome, key_of, validate_once
from signoff.agents.approvals.call_state import held
from signoff.agents.approvals.tool_changes import Known, known_of
from signoff.agents.approvals.tool_stubs import stub_changed_tools, tools_now
from signoff.workflow.current_context import current_context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable


async def known_tools(
    durable: Durable[Any], ctx: RunContext[Any], calls: Sequence[ToolCallPart]
) -> dict[str, Known]:
    """Return the facts about called tools, by name. Those of calls in a given history are found now."""
    known = held().known
    given = [call for call in calls if call.tool_name not in known]
    if given:
        await record_tools(durable, ctx, given)
    return known


async def record_tools(durable: Durable[Any], ctx: RunContext[Any], calls: Sequence[ToolCallPart]) -> None:
    """Journal the facts about the called tools, and replace those that have changed with stubs."""
    assert ctx.tool_manager is not None
    tools: ToolManager[Any] = ctx.tool_manager
    outcomes: dict[str, Sequence[Outcome]] = {}

    def look() -> dict[str, dict[str, Any]]:
        facts: dict[str, dict[str, Any]] = {}
        for name in sorted({call.tool_name for call in calls}):
            of_that_name = [call for call in calls if call.tool_name == name]
            tool = tools_now(tools).get(name)
            found, outcomes[name] = known_of(tools, tool, of_that_name, durable.approvals)
            facts[name] = found.facts()
        return facts

    # validators run in it; `returns`, since the annotation of a nested function is resolved at each call
    step = current_context().step(f"{durable.name}:calls", look, retry=durable.retry, returns=Any)
    kept: dict[str, dict[str, Any]] = await step
    found = {name: Known(**facts) for name, facts in kept.items()}
    held().known.update(found)
    repeated: dict[str, dict[str, dict[str, Any]]] = {}
    for call in calls:
        sent = found[call.tool_name].repeated.get(call.tool_call_id)
        if sent is not None:
            repeated.setdefault(call.tool_name, {})[key_of(call.args)] = sent
    validate_once(tools, outcomes, repeated)
    stub_changed_tools(tools, found, durable, ctx.run_step)
