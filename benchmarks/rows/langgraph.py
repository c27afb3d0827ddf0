"""LangGraph with Signoff's checkpointer and with its own for SQLite: supersteps, and resumes after an interrupt."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import ExitStack
from typing import Any

from typing_extensions import TypedDict

from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMITS

RESUMES = 50


class State(TypedDict):
    count: int
    until: int
    answer: str


def _graphs(saver: Any) -> tuple[Any, Any]:
    """Return a graph that counts, one superstep each, and one that asks."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import interrupt

    def count(state: State) -> Any:
        return {"count": state["count"] + 1}

    def ask(_: State) -> Any:
        return {"answer": interrupt("?")}

    counting = StateGraph(State).add_node("count", count).add_edge(START, "count")
    counting.add_conditional_edges("count", lambda state: "count" if state["count"] < state["until"] else END)
    asking = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
    return counting.compile(checkpointer=saver), asking.compile(checkpointer=saver)


def _config(thread_id: str, steps: int) -> Any:
    return {"configurable": {"thread_id": thread_id}, "recursion_limit": steps + 10}


def _measure(saver: Any, steps: int, place: Place) -> tuple[float, list[float]]:
    """Return supersteps per second, and the milliseconds of each resume."""
    from langgraph.types import Command

    counting, asking = _graphs(saver)
    counting.invoke({"count": 0, "until": 10}, _config("warm", 10), durability="sync")
    with place.measured():
        began = time.perf_counter()
        counting.invoke({"count": 0, "until": steps}, _config("count", steps), durability="sync")
        rate = steps / (time.perf_counter() - began)
    waits: list[float] = []
    for number in range(RESUMES):
        asking.invoke({"count": 0}, _config(str(number), 1), durability="sync")
        began = time.perf_counter()
        asking.invoke(Command(resume="yes"), _config(str(number), 1), durability="sync")
        waits.append(1_000 * (time.perf_counter() - began))
    return rate, waits


async def langgraph(place: Place) -> Figures:
    """Run the same graphs with both, each on a new database on the measured disk."""
    return await asyncio.to_thread(_both, place)


def _both(place: Place) -> Figures:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from signoff.integrations.langgraph import SignoffSaver

    steps = place.sizes.steps // 4
    with ExitStack() as stack:
        ours = stack.enter_context(SignoffSaver(place.new_store()))
        rate, waits = _measure(ours, steps, place)
        folder = tempfile.mkdtemp(dir=place.folder)
        theirs = stack.enter_context(SqliteSaver.from_conn_string(f"{folder}/graph.db"))
        their_rate, their_waits = _measure(theirs, steps, Place(place.folder, place.sizes))
    return {"rate": [rate], "their rate": [their_rate], "wait": waits, "their wait": their_waits}


ROWS = (
    Row(
        "langgraph",
        langgraph,
        COMMITS,
        (
            Line("rate", "LangGraph on SignoffSaver, durability sync", "supersteps/s"),
            Line("their rate", "the same on SqliteSaver", "supersteps/s"),
            Line(
                "wait", "resume of an interrupt on SignoffSaver", "ms", less_is_better=True, has_ratio=False
            ),
            Line("their wait", "the same on SqliteSaver", "ms", less_is_better=True, has_ratio=False),
        ),
        lambda sizes: sizes.steps // 4,
    ),
)
