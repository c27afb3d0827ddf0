"""Sub-agents: a tool that delegates tasks to another registered agent, each as a run of its own."""

from __future__ import annotations

from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import Tool

from signoff.agents.steps.in_workflow import in_workflow
from signoff.errors import RegistrationError
from signoff.workflow.current_context import current_context


def agent_tool(agent: str, *, name: str | None = None, description: str | None = None) -> Tool[Any]:
    """Return a tool that delegates a task to another agent, with the same context.

    Each call is a run of its own, on any worker that has the other agent. That agent sees only the task, not the
    conversation. It may ask people, too: its questions count as the turn's. If it fails, the model reads the error.

    Args:
        agent: The name that another process, or this one, has registered the agent under.
        name: The tool's name; by default the agent's.
        description: The description for the model.

    Raises:
        RegistrationError: ``agent`` is not a string.

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
            raise ToolFailed(f"{agent} failed: {error}") from error

    return Tool(
        delegate,
        takes_ctx=True,
        name=name or agent,
        description=description
        or f"Delegate a task to {agent}. The task must contain everything it needs to know.",
    )
