"""An app with an agent that pays refunds."""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, function_tool

from signoff import Context, Signoff
from signoff.integrations.openai_agents import run_agent
from signoff.testing import MemoryStore
from signoff.testing.environment import Environment
from tests.integrations.openai_agents.scripts import Script, Turn, outputs

REFUND = {"order": "o-1", "cents": 7000}
ONE_REFUND: list[Turn] = [[("refund", REFUND, "c1")], "done"]


class Desk:
    """An agent with the tools ``refund``, which needs approval, and ``look``, which does not.

    Attributes:
        paid: The refunds, as (order, cents).
        looked: The orders that were looked up.
    """

    def __init__(
        self, *turns: Turn, tools: Any = (), agent: Agent[Any] | None = None, **options: Any
    ) -> None:
        self.paid: list[tuple[str, int]] = []
        self.looked: list[str] = []
        self.script = Script(*(turns or ONE_REFUND))
        self.app = Signoff(MemoryStore())

        @function_tool(needs_approval=True)
        def refund(order: str, cents: int) -> str:
            """Pay money back."""
            self.paid.append((order, cents))
            return f"refunded {cents} cents of {order}"

        @function_tool
        def look(order: str) -> str:
            """Look up an order."""
            self.looked.append(order)
            return f"{order} is here"

        self.refund, self.look = refund, look
        self.agent = agent or Agent("support", tools=[refund, look, *tools], model=self.script)

        @self.app.workflow
        async def work(ctx: Context, wish: str) -> list[Any]:
            result = await run_agent(self.agent, wish, **options)
            return [result.final_output, outputs(result.to_input_list())]

        self.work = work


async def questions(env: Environment) -> list[Any]:
    """The open questions, once nothing moves any more."""
    await env.idle()
    return list((await env.client.questions()).items)


def asked(question: Any) -> dict[str, Any]:
    """A question as people see it."""
    return json.loads(question.data)
