"""An agent whose conversation Studio shows."""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import Context, Signoff
from signoff.agents import Durable, in_workflow


def register(app: Signoff) -> None:
    """Register a workflow whose agent thinks, looks something up, and asks before it pays."""
    agent = Agent(FunctionModel(_respond), name="adviser", capabilities=[Durable[None]()])

    @agent.tool_plain
    @in_workflow
    async def look_up(order_id: str) -> dict[str, str | int]:
        return {"id": order_id, "customer": "Tomas", "cents": 1500, "note": "two weeks late " * 30}

    @agent.tool_plain(requires_approval=True)
    def pay_back(order_id: str, cents: int) -> str:
        return f"paid {cents} cents for {order_id}"

    @app.workflow
    async def advise(ctx: Context, message: str) -> str:
        return (await agent.run(message)).output


def _respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if not returned:
        thought = ThinkingPart("An order that came late. What does the shop know of it? " * 10)
        return ModelResponse(
            [thought, TextPart("Let me look it up."), ToolCallPart("look_up", {"order_id": "o-1050"})]
        )
    if len(returned) == 1:
        offer = ToolCallPart("pay_back", {"order_id": "o-1050", "cents": 1500})
        return ModelResponse([TextPart("It was late indeed. I would pay for the delivery."), offer])
    return ModelResponse([TextPart("I am sorry that it came late.")])
