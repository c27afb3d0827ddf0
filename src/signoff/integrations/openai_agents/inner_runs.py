"""Runs of agents inside of a durable one: agents as tools, and those of guardrails."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any, Final

from agents import Agent
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from signoff import current_context
from signoff.errors import OutsideWorkflow
from signoff.integrations.openai_agents.durable_agents import DurableAgents

_AGENTS: Final[ContextVar[DurableAgents | None]] = ContextVar("signoff_openai_agents", default=None)


def _agents_here() -> DurableAgents | None:
    """Return the durable agents of the workflow code that runs here; None elsewhere, as in a step."""
    found = _AGENTS.get()
    if found is None:
        return None
    try:
        current_context()
    except OutsideWorkflow:
        return None
    return found


class InnerRuns(AgentRunner):
    """The runner that makes agents durable which workflow code runs inside of ``run_agent``.

    ``Agent.as_tool`` runs its agent with the runner of the process and gives no other way to reach it.

    Args:
        runner: The runner for everything else.
    """

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner

    async def run(self, starting_agent: Agent[Any], input: Any, **kwargs: Any) -> Any:
        """Run an agent, durable inside of ``run_agent``."""
        agents = _agents_here()
        if agents is not None:
            agents = agents.under(kwargs.get("run_config"))
            starting_agent, kwargs["run_config"] = agents.of(starting_agent), agents.config
        return await self._runner.run(starting_agent, input, **kwargs)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **kwargs: Any) -> Any:
        """Run an agent in a program without an event loop."""
        return self._runner.run_sync(starting_agent, input, **kwargs)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **kwargs: Any) -> Any:
        """Stream an agent's run; a durable one refuses at its first request."""
        agents = _agents_here()
        if agents is not None:
            starting_agent = agents.of(starting_agent)
        return self._runner.run_streamed(starting_agent, input, **kwargs)


def enter(agents: DurableAgents) -> Token[DurableAgents | None]:
    """Make the agents that workflow code runs from here on durable."""
    runner = get_default_agent_runner()
    if not isinstance(runner, InnerRuns):
        set_default_agent_runner(InnerRuns(runner))
    return _AGENTS.set(agents)


def leave(token: Token[DurableAgents | None]) -> None:
    """End the effect of ``enter``."""
    _AGENTS.reset(token)
