"""An office of agents: one hands over to another, which has a third one as a tool."""

from __future__ import annotations

from typing import Any

from agents import Agent, function_tool, handoff

from signoff import Context, Signoff
from signoff.integrations.openai_agents import run_agent
from signoff.testing import MemoryStore
from tests.integrations.openai_agents.scripts import Script, outputs


class Office:
    """Agents ``triage`` (hands over) to ``desk`` (has the tool ``cashier``, an agent that refunds).

    Attributes:
        paid: The orders that were refunded.
    """

    def __init__(self, *, asks_before: bool = False) -> None:
        self.paid: list[str] = []

        @function_tool(needs_approval=True)
        def refund(order: str) -> str:
            self.paid.append(order)
            return f"refunded {order}"

        self.cashier = Agent(
            "cashier",
            tools=[refund],
            model=Script(
                [("refund", {"order": "o-1"}, "r1"), ("refund", {"order": "o-2"}, "r2")], "both are handled"
            ),
        )
        self.desk = Agent(
            "desk",
            tools=[self.cashier.as_tool("cashier", "Handles money.", needs_approval=asks_before)],
            model=Script([("cashier", {"input": "refund o-1 and o-2"}, "k1")], "done"),
        )
        self.triage = Agent(
            "triage",
            handoffs=[handoff(self.desk)],
            model=Script([("transfer_to_desk", {}, "h1")], "nobody comes here"),
        )
        self.desk.handoffs = [self.triage]
        self.app = Signoff(MemoryStore())

        @self.app.workflow
        async def work(ctx: Context, wish: str) -> list[Any]:
            result = await run_agent(self.triage, wish)
            return [result.final_output, result.last_agent.name, outputs(result.to_input_list())]

        self.work = work
