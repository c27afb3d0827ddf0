"""``run_agent``: an agent of the OpenAI Agents SDK as a part of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from agents import Agent, RunConfig, RunHooks, Runner, RunResult
from typing_extensions import Unpack

from signoff import RetryPolicy, current_context
from signoff.integrations.openai_agents.approvals import ApprovalTerms, decide, record
from signoff.integrations.openai_agents.durable_agents import DurableAgents
from signoff.integrations.openai_agents.inner_runs import enter, leave
from signoff.integrations.openai_agents.model_requests import RETRY
from signoff.integrations.openai_agents.run_options import Options
from signoff.integrations.openai_agents.shared_context import SharedContext


async def run_agent(
    agent: Agent[Any],
    input: str | list[Any],
    *,
    context: Any = None,
    max_turns: int | None = 10,
    run_config: RunConfig | None = None,
    hooks: RunHooks[Any] | None = None,
    retry: RetryPolicy = RETRY,
    stream: bool = False,
    repeatable: Collection[str] = (),
    operators: Sequence[str] = (),
    **terms: Unpack[ApprovalTerms],
) -> RunResult:
    """Run an agent in workflow code: what it has done is journaled, and people are asked about its calls.

    Each model request and each call of a function tool is a step. Each call that needs approval is a question, with its
    arguments to see and to edit. All questions of a response are open at once; the agent continues when all of them are
    answered.

    Args:
        agent: The agent. Its name, and those of its tools, are the names of the steps: they must not change while a run
            is open. Handoffs and agents as tools are durable, too.
        input: The message, or the items of a conversation.
        context: The SDK's context object: a dict, a dataclass or a model that JSON can restore. A call gets a copy; the
            fields that it changes are journaled with its result.
        max_turns: The SDK's limit of model requests.
        run_config: The SDK's configuration. Traces are off: they would be repeated at each replay.
        hooks: The SDK's hooks. They are workflow code.
        retry: The policy for model requests; by default temporary errors are retried.
        stream: Whether model requests are streamed, and the model's text is published live (``StepInfo.live``).
        repeatable: The names of tools that run again if their process died. For all others a person decides whether a
            call that was interrupted runs again.
        operators: The people to ask about interrupted calls; by default the app's ``operators``.
        terms: How the questions are asked: ``assignees``, ``timeout_seconds`` and others of ``Context.wait_for_user``.

    Returns:
        The SDK's result.

    Raises:
        OutsideWorkflow: The caller is not workflow code.
        NotSerializable: The context is not JSON.
        RegistrationError: An agent has a tool that cannot be a step.

    Example::

        @app.workflow
        async def help_with(ctx: Context, wish: str) -> str:
            result = await run_agent(support, wish, assignees=["group:finance"], timeout_seconds=86_400)
            return result.final_output
    """
    current_context()
    config = RunConfig() if run_config is None else run_config
    options = Options(SharedContext(context), config, retry, frozenset(repeatable), operators, stream)
    agents = DurableAgents(options)
    durable = agents.of(agent)
    token = enter(agents)
    try:
        result = await Runner.run(
            durable, input, context=context, max_turns=max_turns, hooks=hooks, run_config=agents.config
        )
        while result.interruptions:
            items, state = result.interruptions, result.to_state()
            for item, decision in zip(
                items, await asyncio.gather(*(decide(each, terms) for each in items)), strict=True
            ):
                record(state, item, decision, options)
            result = await Runner.run(durable, state, hooks=hooks, run_config=agents.config)
        return result
    finally:
        leave(token)
