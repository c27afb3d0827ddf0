"""An agent answers a customer: it looks things up by itself, and asks before it gives anything away.

``SIGNOFF_DEMO_MODEL`` sets the model, such as ``openai:gpt-5``. Without it, the agent follows a script.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from examples.shop.app import app
from examples.shop.services import ORDERS, fetch_order, issue_voucher
from signoff import Context
from signoff.agents import Durable, ToolCall, ask, tool_options

if TYPE_CHECKING:
    from signoff.agents import Decision

MODEL = os.environ.get("SIGNOFF_DEMO_MODEL")


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Respond as a model might: look up the order, offer a voucher, and report the outcome."""
    returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if not returned:
        return ModelResponse([ToolCallPart("look_up", {"order_id": "o-1050"})])
    if len(returned) == 1:
        voucher = {"customer": "Tomas Havel", "cents": 4_000, "reason": "came two weeks late"}
        return ModelResponse(
            [
                TextPart("It was indeed two weeks late. I would like to offer a voucher."),
                ToolCallPart("give_voucher", voucher),
            ]
        )
    what_became = returned[1]
    if what_became.outcome == "denied":
        return ModelResponse([TextPart("Dear Tomas, we are sorry that your order came so late.")])
    return ModelResponse([TextPart(f"Dear Tomas, we are sorry. Here is a voucher: {what_became.content}")])


def approvals(call: ToolCall) -> Decision | None:
    """Have a person approve vouchers."""
    if call.tool != "give_voucher":
        return None
    return ask(f"Give {call.arguments['customer']} a voucher of €{call.arguments['cents'] / 100:.2f}?")


agent = Agent(
    MODEL or FunctionModel(scripted, model_name="script"),
    name="assistant",
    instructions="You answer customers of a small shop. Look up their orders before you answer.",
    capabilities=[Durable[None](approvals=approvals)],
)


@agent.tool_plain
def look_up(order_id: str) -> dict[str, str]:
    """Look up an order."""
    if order_id not in ORDERS:
        raise ModelRetry(f"order {order_id} does not exist")
    return asdict(fetch_order(order_id))


@agent.tool_plain(metadata=tool_options(side_effects="write"))
def give_voucher(customer: str, cents: int, reason: str) -> str:
    """Give a customer a voucher, and return its code."""
    return issue_voucher(customer, cents)


@app.workflow
async def answer_customer(ctx: Context, message: str) -> dict[str, str]:
    result = await agent.run(message)
    return {"reply": result.output, "written by": MODEL or "a script: set SIGNOFF_DEMO_MODEL for a model"}
