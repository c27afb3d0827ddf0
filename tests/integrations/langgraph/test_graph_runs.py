"""``run_graph``: interrupts are questions, each answered once by id, also after a crash at any place."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from signoff import Context, Question, SignalTimeout, Signoff, WrongAnswer
from signoff.errors import CannotRunHere, RegistrationError
from signoff.integrations.langgraph import DecisionNotAllowed, SignoffSaver, run_graph
from signoff.testing import MemoryStore, crash_everywhere, environment
from signoff.testing.environment import Environment

MINUTE = 60.0


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


def plays(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def play() -> None:
        asyncio.run(test())

    play.__name__ = test.__name__
    return play


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


@plays
async def test_each_interrupt_is_a_question_and_gets_its_own_answer() -> None:
    desk = Desk()
    inner = in_parallel({"deep": asking(desk, "deep", "deep?")}).compile()
    nodes = {"a": asking(desk, "a", "a1?", "a2?"), "b": asking(desk, "b", "b?"), "sub": inner}
    async with running(lambda saver: in_parallel(nodes).compile(checkpointer=saver), answers=str) as (
        env,
        flow,
    ):
        run = await env.start(flow, id="r")
        asked = await open_questions(env)
        assert sorted(each.text for each in asked) == ["a1?", "b?", "deep?"]
        for each in sorted(asked, key=lambda each: each.text, reverse=True)[:2]:
            await env.client.answer(each.id, f"to {each.text}", user_id="ana")
        await env.idle()
        assert sorted(desk.begun) == ["a", "b", "deep"], "nothing runs again before its own answer"
        env.people.answer("a1?", "to a1?")
        env.people.answer("a2?", "to a2?")
        result = await run.result()
    assert sorted(result["out"]) == [
        ["a", ["to a1?", "to a2?"]],
        ["b", ["to b?"]],
        ["deep", ["to deep?"]],
    ]
    assert sorted(desk.begun) == ["a", "a", "a", "b", "b", "deep", "deep"]


@plays
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


@plays
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


@plays
async def test_an_answer_of_another_type_and_an_unknown_decision_are_no_yes() -> None:
    desk = Desk()
    build = in_parallel({"a": asking(desk, "a", {"question": "Delete?", "rows": 3}, response_schema=bool)})
    async with running(lambda saver: build.compile(checkpointer=saver)) as (env, flow):
        run = await env.start(flow, id="r")
        [asked] = await open_questions(env)
        assert (asked.text, asked.metadata["value"]) == ("Delete?", {"rows": 3})
        for banana in ("banana", "yes", 1, None, {"type": "approve"}):
            with pytest.raises(WrongAnswer):
                await env.client.answer(asked.id, banana, user_id="ana")
        await env.client.answer(asked.id, False, user_id="ana")
        assert (await run.result())["out"] == [["a", [False]]]


@plays
async def test_an_interrupt_that_declares_no_answer_stops_the_run_until_it_does() -> None:
    build = in_parallel({"a": asking(Desk(), "a", "Delete?")})
    declared: list[Any] = []
    async with running(lambda saver: build.compile(checkpointer=saver), answers=lambda _: declared[-1]) as (
        env,
        flow,
    ):
        declared.append(None)
        run = await env.start(flow, id="r")
        with pytest.raises(CannotRunHere, match="answers="):
            await run.result()
        declared.append(bool)
        env.people.answer("Delete?", approved=True)
        await env.client.retry("r")
        assert (await run.result())["out"] == [["a", [True]]]


@plays
async def test_forms_choices_and_values_reach_the_graph_with_their_types() -> None:
    class Draft(BaseModel):
        title: str
        copies: int

    class Choice(TypedDict):
        color: Literal["red", "blue"]

    schemas = {
        "form": Draft,
        "dict": Choice,
        "enum": {"type": "string", "enum": ["x", "y"]},
        "number": {"type": "number", "minimum": 3},
    }
    nodes = {name: asking(Desk(), name, f"{name}?", response_schema=kind) for name, kind in schemas.items()}
    async with running(lambda saver: in_parallel(nodes).compile(checkpointer=saver)) as (env, flow):
        env.people.answer("form?", {"title": "T", "copies": 2})
        env.people.answer("dict?", {"color": "red"})
        env.people.answer("enum?", "y")
        env.people.answer("number?", {"answer": 3.5})
        found = dict((await env.run(flow))["out"])
    assert found == {
        "form": [{"title": "T", "copies": 2}],
        "dict": [{"color": "red"}],
        "enum": ["y"],
        "number": [3.5],
    }


MODES = pytest.mark.parametrize("mode", ["batched", "per_call"])


@MODES
def test_tool_calls_are_approved_edited_and_rejected_each_by_its_own(mode: str) -> None:
    async def play() -> None:
        desk = Desk()
        calls = ({"cents": 1}, {"cents": 2}, {"cents": 3})
        state = {"messages": [{"role": "user", "content": "refund"}]}
        async with running(
            lambda saver: agent(desk, *calls, mode=mode, saver=saver), state, output=last_texts
        ) as (env, flow):
            run = await env.start(flow, id="r")
            by_cents = {each.action["arguments"]["cents"]: each for each in await open_questions(env)}
            await env.client.answer(by_cents[3].id, False, user_id="ana", note="never")
            with pytest.raises(WrongAnswer):
                await env.client.answer(
                    by_cents[2].id, {"approved": True, "edited": {"cents": "many"}}, user_id="ana"
                )
            edited = {"approved": True, "edited": {"cents": 20, "to": "bob"}}
            await env.client.answer(by_cents[2].id, edited, user_id="ana")
            assert desk.done == []
            await env.client.answer(by_cents[1].id, True, user_id="ana")
            texts = await run.result()
        assert sorted(desk.done) == [(1, "ana"), (20, "bob")]
        assert any("never" in each for each in texts)

    asyncio.run(play())


@MODES
def test_no_decision_in_time_rejects_a_tool_call(mode: str) -> None:
    async def play() -> None:
        desk = Desk()
        state = {"messages": [{"role": "user", "content": "refund"}]}
        async with running(
            lambda saver: agent(desk, {"cents": 1}, mode=mode, saver=saver),
            state,
            output=last_texts,
            timeout_seconds=MINUTE,
        ) as (env, flow):
            texts = await env.run(flow)
        assert desk.done == []
        assert any("No one decided in time" in each for each in texts)

    asyncio.run(play())


@plays
async def test_no_answer_in_time_to_another_interrupt_fails_the_run() -> None:
    build = in_parallel({"a": asking(Desk(), "a", "Delete?", response_schema=bool)})
    async with running(lambda saver: build.compile(checkpointer=saver), timeout_seconds=MINUTE) as (
        env,
        flow,
    ):
        with pytest.raises(SignalTimeout, match="Delete"):
            await env.run(flow)


@MODES
def test_a_tool_is_not_edited_or_rejected_where_its_middleware_forbids_it(mode: str) -> None:
    async def play(allowed: list[str]) -> None:
        desk = Desk()
        state = {"messages": [{"role": "user", "content": "refund"}]}
        on = {"allowed_decisions": allowed}
        async with running(
            lambda saver: agent(desk, {"cents": 1}, on=on, mode=mode, saver=saver), state, output=last_texts
        ) as (env, flow):
            run = await env.start(flow, id="r")
            [asked] = await open_questions(env)
            edited = {"approved": True, "edited": {"cents": 2}}
            with pytest.raises(WrongAnswer):
                await env.client.answer(asked.id, edited, user_id="ana")
            await env.client.answer(asked.id, False, user_id="ana")
            if "reject" in allowed:
                await run.result()
            else:
                with pytest.raises(DecisionNotAllowed, match="not allow"):
                    await run.result()
        assert desk.done == []

    for allowed in (["approve", "reject"], ["approve"]):
        asyncio.run(play(allowed))


@MODES
def test_a_tool_that_a_person_answers_for_is_asked_for_its_result(mode: str) -> None:
    async def play() -> None:
        desk = Desk()
        state = {"messages": [{"role": "user", "content": "refund"}]}
        on = {"allowed_decisions": ["respond"]}
        async with running(
            lambda saver: agent(desk, {"cents": 1}, on=on, mode=mode, saver=saver), state, output=last_texts
        ) as (env, flow):
            env.people.answer("What does refund return?", "paid in cash")
            texts = await env.run(flow)
        assert desk.done == []
        assert "paid in cash" in texts

    asyncio.run(play())


@plays
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


@plays
async def test_a_conversation_of_several_runs_keeps_one_thread() -> None:
    desk = Desk()
    build = in_parallel({"a": asking(desk, "a", "go on?", response_schema=bool)})
    async with running(lambda saver: build.compile(checkpointer=saver), thread_id="conv") as (env, flow):
        env.people.answer("go on?", approved=True)
        await env.run(flow, id="turn-1")
        assert (await env.run(flow, id="turn-2"))["out"] == [["a", [True]], ["a", [True]]]


@plays
async def test_a_graph_without_our_saver_or_with_breakpoints_is_refused() -> None:
    build = in_parallel({"a": asking(Desk(), "a", "?")})
    makes = (
        lambda _: build.compile(checkpointer=InMemorySaver()),
        lambda saver: build.compile(checkpointer=saver, interrupt_before=["a"]),
    )
    for make in makes:
        async with running(make) as (env, flow):
            with pytest.raises(RegistrationError, match=r"run_graph"):
                await env.run(flow)


@plays
async def test_arguments_that_do_not_match_the_tool_are_shown_and_can_be_mended() -> None:
    desk = Desk()
    state = {"messages": [{"role": "user", "content": "refund"}]}
    async with running(
        lambda saver: agent(desk, {"cents": "many"}, saver=saver), state, output=last_texts
    ) as (
        env,
        flow,
    ):
        env.people.answer("Allow refund?", {"approved": True, "edited": {"cents": 5}})
        await env.run(flow)
    assert desk.done == [(5, "ana")]


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
