"""Graphs, an agent and a workflow that runs them in a test environment."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from signoff import Context, Question, Signoff
from signoff.integrations.langgraph import SignoffSaver, run_graph
from signoff.testing import MemoryStore, environment
from signoff.testing.environment import Environment


class State(TypedDict):
    out: Annotated[list[Any], operator.add]


class Desk:
    """What is outside of the graphs: the nodes that began, and the tools that ran."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done: list[Any] = []


def asking(desk: Desk, name: str, *values: Any, **options: Any) -> Callable[[State], Any]:
    def node(_: State) -> Any:
        desk.begun.append(name)
        return {"out": [[name, [interrupt(value, **options) for value in values]]]}

    return node


def in_parallel(nodes: Mapping[str, Any]) -> Any:
    builder = StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder


class Calls(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def agent(desk: Desk, *calls: Any, on: Any = True, mode: Any = "batched", saver: Any = None) -> Any:
    """An agent whose model calls these tools at once, then ends."""

    @tool
    def refund(cents: int, to: str = "ana") -> str:
        """Refund an amount."""
        desk.done.append((cents, to))
        return f"refunded {cents}"

    made = [
        {"name": "refund", "args": args, "id": f"call-{number}", "type": "tool_call"}
        for number, args in enumerate(calls)
    ]
    model = Calls(responses=[AIMessage("", tool_calls=made), AIMessage("done")])
    gate = HumanInTheLoopMiddleware({"refund": on}, interrupt_mode=mode)
    return create_agent(model, [refund], middleware=[gate], checkpointer=saver)


def last_texts(state: Any) -> list[str]:
    return [each.text for each in state["messages"]]


@asynccontextmanager
async def running(
    make: Callable[[Any], Any], given: Any = None, **options: Any
) -> AsyncIterator[tuple[Environment, Any]]:
    """An environment, and a workflow that runs the graph that ``make`` compiles with a saver."""
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> Any:
        return await run_graph(ctx, made[0], {"out": []} if given is None else given, **options)

    made: list[Any] = []
    async with environment(app) as env:
        made.append(make(SignoffSaver(Signoff(MemoryStore()))))
        yield env, flow


@dataclass
class Open:
    id: str
    text: str
    metadata: dict[str, Any]
    action: Any


async def open_questions(env: Environment) -> list[Open]:
    await env.idle()
    asked = [(each.id, Question.of(each)) for each in (await env.client.questions()).items]
    return [Open(id, each.text, each.metadata, each.action) for id, each in asked]
