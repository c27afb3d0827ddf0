"""The agent: LangChain's, unchanged. Its model follows a script, so it needs no key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from signoff import Context, Signoff
from signoff.integrations.langgraph import SignoffSaver, run_graph

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"))
LEDGER = Path(os.environ.get("LEDGER", "refunds.txt"))


@tool
def refund(order: str, cents: int) -> str:
    """Refund an amount of an order, in cents."""
    with LEDGER.open("a") as file:
        file.write(f"{order} {cents}\n")
    return f"{cents} cents of order {order} are refunded"


class Scripted(GenericFakeChatModel):
    """A model that calls ``refund`` once, and then tells the outcome."""

    messages: Any = iter(())

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Return itself: its script knows the tool."""
        return self

    def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            said = AIMessage(str(last.content))
        else:
            order = str(last.content).split()[-1]
            call = {"name": "refund", "args": {"order": order, "cents": 7000}, "id": f"refund-{order}"}
            said = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


gate = HumanInTheLoopMiddleware({"refund": {"allowed_decisions": ["approve", "edit", "reject"]}})
graph = create_agent(Scripted(), [refund], middleware=[gate], checkpointer=SignoffSaver(app), name="refunds")


@app.workflow
async def support(ctx: Context, text: str) -> str:
    """Answer a customer. A person decides about each refund, within a day."""
    return await run_graph(
        ctx,
        graph,
        {"messages": [{"role": "user", "content": text}]},
        output=lambda state: state["messages"][-1].text,
        timeout_seconds=86_400,
    )
