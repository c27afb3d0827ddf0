"""Approvals of an agent that no workflow runs."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import RunState, ToolApprovalItem
from typing_extensions import Unpack

from signoff import Action, AsyncClient
from signoff.client.questions import Decide
from signoff.integrations.openai_agents.approvals import ApprovalTerms, arguments_of, problems_of


async def decide_interruptions(
    client: AsyncClient,
    id: str,
    state: RunState[Any],
    *,
    decide: Decide | None = None,
    timeout: float | None = None,
    **terms: Unpack[ApprovalTerms],
) -> None:
    """Have people decide about the pending calls of a state, in a program that runs the agent itself.

    Each call is a question of its own, ``{id}/{call id}``. After a crash the same state asks the same questions, and
    gets the answers that were given. The program keeps the state, and the SDK runs a tool again if the program died
    inside it: ``run_agent`` does not. Arguments cannot be edited here.

    Args:
        client: A client of the store or the server.
        id: A chosen id of the agent's run.
        state: The state (``result.to_state()``). Afterwards each pending call is approved or rejected in it.
        decide: A policy that decides before a person is asked, as in ``AsyncClient.approve_call``.
        timeout: The most seconds to wait here. The questions stay open.
        terms: How the questions are asked, as in ``run_agent``.

    Raises:
        TimeoutError: A call was not decided within ``timeout``. The state is unchanged.
        IdConflict: The id belongs to another run, or the model used a call id again.

    Example::

        result = await Runner.run(agent, "Refund o-1")
        while result.interruptions:
            state = result.to_state()
            await decide_interruptions(client, "chat-7", state, assignees=["group:finance"])
            result = await Runner.run(agent, state)
    """

    async def message_of(item: ToolApprovalItem) -> str | None:
        """Return what the model reads instead of the tool's output; None if the call is approved."""
        tool = item.qualified_name or "tool"
        arguments = arguments_of(item)
        if arguments is None or problems_of(item, arguments):
            return f"Not run: the arguments of {tool} are not valid."
        action = Action(tool, arguments)
        decision = await client.approve_call(
            f"{id}/{item.call_id}",
            action,
            text=f"{item.agent.name} wants to call {tool}",
            decide=decide,
            timeout=timeout,
            **terms,
        )
        if decision.covers(action):
            return None
        return decision.note or f"Not run: {tool} was not approved ({decision.reason})."

    items = state.get_interruptions()
    for item, message in zip(items, await asyncio.gather(*map(message_of, items)), strict=True):
        if message is None:
            state.approve(item)
        else:
            state.reject(item, rejection_message=message)
