"""``run_graph``: interrupts are questions, each answered once by id."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict

from signoff import SignalTimeout, WrongAnswer
from signoff.errors import CannotRunHere, RegistrationError
from signoff.integrations.langgraph import SignoffSaver
from tests.integrations.langgraph.graphs import (
    Desk,
    State,
    asking,
    in_parallel,
    open_questions,
    running,
)
from tests.support import in_asyncio

MINUTE = 60.0


@in_asyncio
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


@in_asyncio
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


@in_asyncio
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


@in_asyncio
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


@in_asyncio
async def test_no_answer_in_time_to_another_interrupt_fails_the_run() -> None:
    build = in_parallel({"a": asking(Desk(), "a", "Delete?", response_schema=bool)})
    async with running(lambda saver: build.compile(checkpointer=saver), timeout_seconds=MINUTE) as (
        env,
        flow,
    ):
        with pytest.raises(SignalTimeout, match="Delete"):
            await env.run(flow)


@in_asyncio
async def test_an_answer_that_only_the_graph_can_refuse_is_asked_again() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    build = in_parallel({"a": asking(Desk(), "a", "n?", response_schema=Even)})
    async with running(lambda saver: build.compile(checkpointer=saver)) as (env, flow):
        env.people.answer("n?", {"n": 3}, times=1)
        env.people.answer("n?", {"n": 4})
        assert (await env.run(flow))["out"] == [["a", [{"n": 4}]]]
    assert [each.value for each in env.people.answers] == [{"n": 3}, {"n": 4}]


@in_asyncio
async def test_twenty_branches_of_one_node_get_twenty_answers() -> None:
    class Item(TypedDict):
        n: int

    def one(item: Item) -> Any:
        return {"out": [[item["n"], interrupt(f"{item['n']}?", response_schema=bool)]]}

    build = StateGraph(State).add_node("one", one)
    build.add_conditional_edges(START, lambda _: [Send("one", {"n": n}) for n in range(20)], ["one"])
    async with running(lambda saver: build.compile(checkpointer=saver)) as (env, flow):
        env.people.answer(lambda asked: int(asked.text[:-1]) % 2 == 0, approved=True)
        env.people.answer("*", approved=False)
        found = (await env.run(flow))["out"]
    assert sorted(found) == [[n, n % 2 == 0] for n in range(20)]


@in_asyncio
async def test_the_functional_api_runs_its_tasks_once() -> None:
    desk = Desk()

    @task
    def add_one(n: int) -> int:
        desk.done.append(n)
        return n + 1

    def make(saver: Any) -> Any:
        @entrypoint(checkpointer=saver)
        def program(given: dict[str, int]) -> Any:
            return [add_one(given["n"]).result(), interrupt("fine?", response_schema=bool)]

        return program

    async with running(make, {"n": 1}) as (env, flow):
        env.people.answer("fine?", approved=True)
        assert await env.run(flow) == [2, True]
    assert desk.done == [1]


@in_asyncio
async def test_a_thread_that_is_not_kept_is_deleted_once_the_graph_has_ended() -> None:
    build = in_parallel({"a": asking(Desk(), "a", "go on?", response_schema=bool)})
    savers: list[SignoffSaver] = []

    def make(saver: SignoffSaver) -> Any:
        savers.append(saver)
        return build.compile(checkpointer=saver)

    async with running(make, keep_thread=False) as (env, flow):
        run = await env.start(flow, id="r")
        await env.idle()
        assert [each async for each in savers[0].alist(None)] != []
        env.people.answer("go on?", approved=True)
        assert (await run.result())["out"] == [["a", [True]]]
    assert [each async for each in savers[0].alist(None)] == []


@in_asyncio
async def test_a_conversation_of_several_runs_keeps_one_thread() -> None:
    desk = Desk()
    build = in_parallel({"a": asking(desk, "a", "go on?", response_schema=bool)})
    async with running(lambda saver: build.compile(checkpointer=saver), thread_id="conv") as (env, flow):
        env.people.answer("go on?", approved=True)
        await env.run(flow, id="turn-1")
        assert (await env.run(flow, id="turn-2"))["out"] == [["a", [True]], ["a", [True]]]


@in_asyncio
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


@in_asyncio
async def test_a_run_asks_no_interrupt_of_another_run_on_its_thread() -> None:
    desk = Desk()

    def make(saver: Any) -> Any:
        return in_parallel({"a": asking(desk, "a", "go?")}).compile(checkpointer=saver)

    async with running(make, thread_id="shared", answers=bool) as (env, flow):
        first = await env.start(flow, id="first")
        assert len(await open_questions(env)) == 1
        second = await env.start(flow, id="second")
        for question in await open_questions(env):
            await env.client.answer(question.id, question.id.startswith("first"))
        with pytest.raises(RuntimeError, match="another run has used thread 'shared'"):
            await first.result()
        assert (await second.result())["out"] == [["a", [False]]]
