"""Sub-agents: a tool whose calls are turns of another registered agent, as runs of their own."""

from __future__ import annotations

from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import Tool

from signoff.agents.steps.in_workflow import in_workflow
from signoff.errors import RegistrationError
from signoff.workflow.current_context import current_context


def agent_tool(agent: str, *, name: str | None = None, description: str | None = None) -> Tool[Any]:
    """Return a tool by which an agent has another one do something, with the same context.

    Each call is a run of its own, on any worker that has the other agent. It may ask people, too: its questions are
    among those of the turn. It knows nothing of the conversation but what it is told. If it fails, the model reads why.

    Args:
        agent: Under which name some process has registered the other agent.
        name: The tool's name; by default the agent's.
        description: What the model reads of it.

    Raises:
        RegistrationError: ``agent`` is not a name.

    Example::

        agent = Agent("openai:gpt-5", name="planner", tools=[agent_tool("researcher")], capabilities=[Durable()])
    """
    if not isinstance(cast("object", agent), str):
        raise RegistrationError(
            f"agent_tool: pass the name under which the agent is registered, not {agent!r:.100}"
        )

    @in_workflow
    async def delegate(ctx: RunContext[Any], task: str) -> Any:
        request: dict[str, Any] = {"prompt": task}
        if ctx.deps is not None:
            request["context"] = ctx.deps
        try:
            result: dict[str, Any] = await current_context().rfc(agent, request)
            return result["output"]
        except Exception as error:
            raise ToolFailed(f"{agent} has not done it: {error}") from error

    return Tool(
        delegate,
        takes_ctx=True,
        name=name or agent,
        description=description or f"Have {agent} do a task. Say all that it needs to know.",
    )
