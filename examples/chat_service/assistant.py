"""The chat's agent: it looks up orders, and asks before it refunds anything.

This module's ``app`` is the worker's. ``SIGNOFF_DEMO_MODEL`` sets the model, such as ``openai:gpt-5``. Without it, the
agent follows a script.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from signoff import Signoff
from signoff.agents import Durable, ToolCall, ask, tool_options

MODEL = os.environ.get("SIGNOFF_DEMO_MODEL")
NAME = "desk"
ORDERS = {"o-1": ("a kettle", 4_900), "o-2": ("a lamp", 12_000)}

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"), group="chat")


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Respond as a model might: look up the named order, propose a refund, and report the outcome."""
    last = messages[-1].parts
    returned = [part for part in last if isinstance(part, ToolReturnPart)]
    if not returned:
        said = " ".join(str(part.content) for part in last if isinstance(part, UserPromptPart))
        named = next((id for id in ORDERS if id in said), None)
        if named is None:
            return ModelResponse([TextPart(f"Which order do you mean? I know {' and '.join(ORDERS)}.")])
        return ModelResponse([ToolCallPart("look_up", {"order_id": named}, f"look-{len(messages)}")])
    if returned[0].tool_name == "look_up":
        id = next(id for id, (what, _) in ORDERS.items() if what in str(returned[0].content))
        call = ToolCallPart("refund", {"order_id": id, "cents": ORDERS[id][1]}, f"refund-{len(messages)}")
        return ModelResponse([TextPart("Let me ask whether that can be refunded."), call])
    if returned[0].outcome == "denied":
        return ModelResponse([TextPart(f"That cannot be refunded: {returned[0].content}")])
    return ModelResponse([TextPart(f"Done: {returned[0].content}.")])


async def streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """Return the same response, word by word."""
    for index, part in enumerate(scripted(messages, info).parts):
        if isinstance(part, TextPart):
            for word in part.content.split(" "):
                yield f"{word} "
        elif isinstance(part, ToolCallPart):
            arguments = part.args_as_json_str()
            yield {index: DeltaToolCall(part.tool_name, arguments, tool_call_id=part.tool_call_id)}


def approvals(call: ToolCall) -> object:
    """Have a person approve every refund."""
    if call.tool != "refund":
        return None
    return ask(f"Refund €{call.arguments['cents'] / 100:.2f} for order {call.arguments['order_id']}?")


agent = Agent(
    MODEL or FunctionModel(scripted, stream_function=streamed, model_name="script"),
    name=NAME,
    instructions="You are the help desk of a small shop. Look orders up before you say anything about them.",
    capabilities=[Durable[None](approvals=approvals, stream=True)],
)


@agent.tool_plain
def look_up(order_id: str) -> str:
    """Return the content and the price of an order."""
    if order_id not in ORDERS:
        raise ModelRetry(f"order {order_id!r} does not exist; the orders are {', '.join(ORDERS)}")
    what, cents = ORDERS[order_id]
    return f"{order_id} is {what} for €{cents / 100:.2f}"


@agent.tool_plain(metadata=tool_options(side_effects="external"))
def refund(order_id: str, cents: int) -> str:
    """Refund money."""
    if not 0 < cents <= ORDERS.get(order_id, ("", 0))[1]:
        raise ModelRetry(f"the refund for {order_id!r} cannot exceed its price")
    return f"€{cents / 100:.2f} of {order_id} were refunded"


app.register(agent)
