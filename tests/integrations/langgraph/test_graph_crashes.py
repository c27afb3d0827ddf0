"""``run_graph`` after a crash at any place: no answer is lost, given twice or given to another interrupt."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, StateGraph

from signoff import Context, Signoff
from signoff.integrations.langgraph import SignoffSaver, run_graph
from signoff.testing import MemoryStore, crash_everywhere
from signoff.testing.environment import Environment
from tests.integrations.langgraph.graphs import (
    Desk,
    State,
    agent,
    asking,
    in_parallel,
    last_texts,
    running,
)
from tests.support import in_asyncio


@in_asyncio
async def test_a_crash_at_any_place_gives_no_answer_to_another_interrupt() -> None:
    app = Signoff(MemoryStore())
    graphs: list[Any] = []

    @app.workflow
    async def flow(ctx: Context) -> Any:
        return await run_graph(ctx, graphs[-1], {"out": []}, answers=str)

    async def scenario(env: Environment) -> Any:
        desk = Desk()
        nodes = {"a": asking(desk, "a", "one?", "two?", "three?"), "b": asking(desk, "b", "other?")}
        saver = SignoffSaver(Signoff(MemoryStore()))
        graphs.append(in_parallel(nodes).compile(checkpointer=saver))
        for name in ("one", "two", "three", "other"):
            env.people.answer(f"{name}?", name)
        result = await env.run(flow)
        asked = [each.question for each in env.people.answers]
        return sorted(result["out"]), sorted(asked)

    assert await crash_everywhere(app, scenario) > 10


@in_asyncio
async def test_a_crash_at_any_place_runs_an_approved_tool_once_for_its_answer() -> None:
    app = Signoff(MemoryStore())
    graphs: list[Any] = []

    @app.workflow
    async def flow(ctx: Context) -> Any:
        state = {"messages": [{"role": "user", "content": "refund"}]}
        return await run_graph(ctx, graphs[-1], state, output=last_texts)

    async def scenario(env: Environment) -> Any:
        desk = Desk()
        graphs.append(agent(desk, {"cents": 70}, {"cents": 80}, saver=SignoffSaver(Signoff(MemoryStore()))))
        env.people.answer(lambda asked: asked.metadata["action"] == 0, approved=True)
        env.people.answer("*", approved=False, note="too much")
        return await env.run(flow), desk.done

    await crash_everywhere(app, scenario)


@in_asyncio
async def test_a_failed_node_runs_again_alone_when_the_run_is_retried() -> None:
    desk = Desk()

    def fails_once(_: State) -> Any:
        desk.begun.append("fails")
        if desk.begun.count("fails") == 1:
            raise OSError("down")
        return {"out": ["recovered"]}

    def works(_: State) -> Any:
        desk.begun.append("works")
        return {"out": ["worked"]}

    build = StateGraph(State).add_node("works", works).add_node("fails", fails_once)
    build.add_edge(START, "works").add_edge("works", "fails")
    async with running(lambda saver: build.compile(checkpointer=saver)) as (env, flow):
        run = await env.start(flow, id="r")
        with pytest.raises(OSError, match="down"):
            await run.result()
        await env.client.retry("r")
        assert (await run.result())["out"] == ["worked", "recovered"]
    assert desk.begun == ["works", "fails", "fails"]


PROGRAM = """
import os, signal, sys, time
from typing import Annotated
import operator
from typing_extensions import TypedDict
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from signoff import Client, Context, Signoff
from signoff.integrations.langgraph import SignoffSaver, run_graph

store, ledger = sys.argv[1:]
app = Signoff(store)

class State(TypedDict):
    out: Annotated[list, operator.add]

def note(line):
    with open(ledger, "a") as file:
        file.write(line + "\\n")
    return open(ledger).read().count(line)

def die_once(line):
    if note(line) == 1:
        os.kill(os.getpid(), signal.SIGKILL)

def first(state):
    note("first")
    return {"out": ["first"]}

def second(state):
    die_once("second")
    answer = interrupt("go on?", response_schema=bool)
    die_once("answered")
    return {"out": [answer]}

builder = StateGraph(State).add_node("first", first).add_node("second", second)
graph = builder.add_edge(START, "first").add_edge("first", "second").compile(checkpointer=SignoffSaver(app))

@app.workflow
async def flow(ctx: Context):
    return await run_graph(ctx, graph, {"out": []})

with app.worker(), Client(app) as client:
    handle = app.start(flow, id="r")
    while handle.status.value not in ("succeeded", "failed"):
        for question in client.questions().items:
            app.answer(question.id, True, user_id="ana")
        time.sleep(0.02)
    print(handle.result())
app.close()
"""


@pytest.mark.long
def test_a_kill_in_the_middle_of_a_node_runs_only_that_node_again(tmp_path: Path) -> None:
    program, ledger = tmp_path / "program.py", tmp_path / "ledger"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), f"sqlite:///{tmp_path / 'signoff.db'}", str(ledger)]
    run = partial(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    codes = [run() for _ in range(3)]
    assert [each.returncode for each in codes] == [-9, -9, 0], codes[-1].stderr
    assert codes[-1].stdout == "{'out': ['first', True]}\n"
    assert ledger.read_text().split() == [
        "first",
        "second",
        "second",
        "second",
        "answered",
        "second",
        "answered",
    ]
