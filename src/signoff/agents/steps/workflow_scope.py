"""The outermost capability of a durable agent, and the context of the workflow code that runs here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, DeferredToolRequests, DeferredToolResults

from signoff.agents.approvals.call_state import held
from signoff.runtime import private_names
from signoff.workflow.current_context import context_here

if TYPE_CHECKING:
    from pydantic_ai.durable_exec import replay_scope
else:
    try:
        from pydantic_ai.durable_exec import replay_scope
    except ImportError:  # before 2.68, which brought it: there each replay makes its spans again

        def replay_scope(**_: object) -> AbstractContextManager[None]:
            return nullcontext()


def _is_replaying() -> bool:
    context = context_here()
    return context is not None and context.is_replaying


AsksPeople = Callable[..., Awaitable[DeferredToolResults | None]]


class InWorkflow(AbstractCapability[AgentDepsT]):
    """Adapts an agent's run to workflow code, around all other capabilities.

    Args:
        ask_people: Asks about the deferred calls of a response, in workflow code.
    """

    def __init__(self, ask_people: AsksPeople) -> None:
        self._ask_people = ask_people

    def get_ordering(self) -> CapabilityOrdering:
        """Return its place: outside of all others, also of the one that makes spans and others that want this place."""
        return CapabilityOrdering(position="outermost", wraps=(AbstractCapability,))

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]
    ) -> AgentRunResult[Any]:
        """Run plain functions (instructions, validators, hooks) in place, and make no spans during a replay."""
        if context_here() is None:
            return await handler()
        with private_names.threads_disabled(), replay_scope(is_replaying=_is_replaying):
            return await handler()

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask people before any other capability answers, such as ``HandleDeferredToolCalls``."""
        return await self._ask_people(ctx, requests=requests)

    async def wrap_tool_validate(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        handler: Callable[[str | dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Validate arguments once: agreed arguments run as they are."""
        if context_here() is None:
            return await handler(args)
        if ctx.tool_call_approved and (agreed := held().agreed.pop(call.tool_call_id, None)) is not None:
            return agreed
        validated = await handler(args)
        held().validated[call.tool_call_id] = validated
        return validated

    async def after_tool_validate(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
    ) -> dict[str, Any]:
        """Keep the validated arguments, since a validator or a hook may defer the call."""
        if context_here() is not None:
            held().validated[call.tool_call_id] = args
        return args
