"""The agent of the chat: it looks orders up, and asks before it pays anything back.

Its worker is this module's ``app``. The model is that of ``SIGNOFF_DEMO_MODEL``, such as ``openai:gpt-5``; without one
it follows a script.
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
    """Say what a model might: look up the order that is named, propose to pay it back, say what became of it."""
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
        return ModelResponse([TextPart("I ask whether that can be paid back."), call])
    if returned[0].outcome == "denied":
        return ModelResponse([TextPart(f"I may not pay that back: {returned[0].content}")])
    return ModelResponse([TextPart(f"Done: {returned[0].content}.")])


async def streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """Say the same, word by word."""
    for index, part in enumerate(scripted(messages, info).parts):
        if isinstance(part, TextPart):
            for word in part.content.split(" "):
                yield f"{word} "
        elif isinstance(part, ToolCallPart):
            arguments = part.args_as_json_str()
            yield {index: DeltaToolCall(part.tool_name, arguments, tool_call_id=part.tool_call_id)}


def approvals(call: ToolCall) -> object:
    """Whatever is paid back is for somebody to approve."""
    if call.tool != "refund":
        return None
    return ask(f"Pay back €{call.arguments['cents'] / 100:.2f} for order {call.arguments['order_id']}?")


agent = Agent(
    MODEL or FunctionModel(scripted, stream_function=streamed, model_name="script"),
    name=NAME,
    instructions="You are the help desk of a small shop. Look orders up before you say anything about them.",
    capabilities=[Durable[None](approvals=approvals, stream=True)],
)


@agent.tool_plain
def look_up(order_id: str) -> str:
    """Say what an order was, and what it cost."""
    if order_id not in ORDERS:
        raise ModelRetry(f"there is no order {order_id!r}; there are {', '.join(ORDERS)}")
    what, cents = ORDERS[order_id]
    return f"{order_id} is {what} for €{cents / 100:.2f}"


@agent.tool_plain(metadata=tool_options(side_effects="external"))
def refund(order_id: str, cents: int) -> str:
    """Pay money back."""
    if not 0 < cents <= ORDERS.get(order_id, ("", 0))[1]:
        raise ModelRetry(f"no more can be paid back for {order_id!r} than it has cost")
    return f"€{cents / 100:.2f} of {order_id} are paid back"


app.register(agent)
