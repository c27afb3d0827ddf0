"""Copies of agents whose model requests and tool calls are steps of the run."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Final, cast

from agents import (
    Agent,
    CodeInterpreterTool,
    FileSearchTool,
    FunctionTool,
    Handoff,
    HostedMCPTool,
    ImageGenerationTool,
    Model,
    RunConfig,
    WebSearchTool,
)

from signoff.errors import RegistrationError
from signoff.integrations.openai_agents.model_requests import DurableModel
from signoff.integrations.openai_agents.run_options import Options
from signoff.integrations.openai_agents.tool_calls import durable_tool

_ORIGINAL: Final = "_signoff_original"
_HOSTED: Final = (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    WebSearchTool,
)
"""Tools that the provider runs, inside of the model request."""


class DurableAgents:
    """The durable copies of the agents of one ``run_agent``. An agent has one copy: the SDK's approvals belong to it.

    Attributes:
        options: The options.
        config: The configuration for the SDK's runner.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        # A replay would repeat traces. The model of the configuration is found inside the steps.
        self.config = replace(options.config, model=None, tracing_disabled=True)
        self._copies: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        self._inner: dict[int, DurableAgents] = {}

    def under(self, config: RunConfig | None) -> DurableAgents:
        """Return the copies of agents that run with a configuration of their own."""
        if config is None or config is self.config:
            return self
        found = self._inner.get(id(config))
        if found is None:
            found = DurableAgents(
                replace(self.options, config=config)
            )  # keeps the configuration, and so its id
            self._inner[id(config)] = found
        return found

    def of(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the copy of an agent.

        Raises:
            RegistrationError: The agent has tools that Signoff cannot run as steps.
        """
        original: Agent[Any] = getattr(agent, _ORIGINAL, agent)
        known = self._copies.get(id(original))
        if known is not None:
            return known[1]
        made = copy.copy(original)
        self._copies[id(original)] = (original, made)  # before its handoffs, which may lead back to it
        setattr(made, _ORIGINAL, original)
        options = self.options
        made.model = DurableModel(
            original.name, lambda: _model_of(original, options), options.retry, options.is_streamed
        )
        if original.mcp_servers:
            raise RegistrationError(
                f"agent {original.name!r} has mcp_servers, whose connections belong to one process: make function "
                "tools that call the server, or use HostedMCPTool"
            )
        made.tools = [self._tool(original, each) for each in original.tools]
        made.handoffs = [
            self._handoff(each) if isinstance(each, Handoff) else self.of(each) for each in original.handoffs
        ]
        return made

    def _tool(self, agent: Agent[Any], tool: Any) -> Any:
        if isinstance(tool, FunctionTool):
            return durable_tool(agent.name, tool, self.options)
        if isinstance(tool, _HOSTED):
            return tool
        raise RegistrationError(
            f"agent {agent.name!r}: {type(tool).__name__} would run outside of steps: make it a function tool"
        )

    def _handoff(self, handoff: Handoff[Any, Any]) -> Handoff[Any, Any]:
        made = copy.copy(handoff)

        async def invoke(context: Any, arguments: str) -> Agent[Any]:
            return self.of(cast("Agent[Any]", await handoff.on_invoke_handoff(context, arguments)))

        made.on_invoke_handoff = invoke
        return made


def _model_of(agent: Agent[Any], options: Options) -> Model:
    model = options.config.model or agent.model
    return model if isinstance(model, Model) else options.config.model_provider.get_model(model)
