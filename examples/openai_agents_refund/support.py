"""The agent, and its workflow."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from signoff import Context, Signoff, current_step
from signoff.integrations.openai_agents import run_agent

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"))
MODEL = os.environ.get("SIGNOFF_DEMO_MODEL")


@function_tool
def find_order(order: str) -> str:
    """Look up an order."""
    return f"{order}: a kettle, 70.00 EUR, delivered, reported broken"


@function_tool(needs_approval=True)
def refund(order: str, cents: int) -> str:
    """Pay money back."""
    key = current_step().idempotency_key  # for the bank, so that it pays once
    with open("refunds.txt", "a") as file:
        file.write(f"{order} {cents} {key}\n")
    return f"refunded {cents} cents of {order}"


class Script(Model):
    """Stands in for a model: looks the order up, refunds it, and says what came of it."""

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        """Return the next response, which depends on the outputs of tools so far."""
        items: list[Any] = [] if isinstance(input, str) else input
        outputs = [each["output"] for each in items if each.get("type") == "function_call_output"]
        if not outputs:
            output = function_call("find_order", {"order": "o-1"}, call_id="call-1")
        elif len(outputs) == 1:
            output = function_call("refund", {"order": "o-1", "cents": 7000}, call_id="call-2")
        else:
            output = assistant_message(f"The end of it: {outputs[1]}")
        return await ScriptedModel([[output]]).get_response(system_instructions, input, *args, **kwargs)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Refuse: the example does not stream."""
        raise NotImplementedError


agent = Agent(
    "support",
    instructions="Look orders up. Refund those that arrived broken.",
    tools=[find_order, refund],
    model=MODEL or Script(),
)


@app.workflow
async def support(ctx: Context, wish: str) -> str:
    """Help a customer."""
    result = await run_agent(agent, wish, repeatable=["find_order"], timeout_seconds=7 * 86_400)
    return str(result.final_output)
