"""The action requests of the human-in-the-loop middleware are approvals of tool calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from signoff import WrongAnswer
from signoff.integrations.langgraph import DecisionNotAllowed
from tests.integrations.langgraph.graphs import (
    Desk,
    agent,
    last_texts,
    open_questions,
    running,
)
from tests.support import in_asyncio

MINUTE = 60.0


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


@in_asyncio
async def test_the_result_is_the_final_state_with_messages_as_objects() -> None:
    state = {"messages": [{"role": "user", "content": "refund"}]}
    async with running(lambda saver: agent(Desk(), {"cents": 1}, saver=saver), state) as (env, flow):
        env.people.answer("Allow refund?", approved=True)
        messages = (await env.run(flow))["messages"]
    assert [each["type"] for each in messages] == ["human", "ai", "tool", "ai"]


@in_asyncio
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


@in_asyncio
async def test_a_tool_of_a_subgraph_is_edited_by_its_own_schema() -> None:
    desk = Desk()

    def make(saver: Any) -> Any:
        outer = StateGraph(MessagesState).add_node("inner", agent(desk, {"cents": 1}))
        return outer.add_edge(START, "inner").compile(checkpointer=saver)

    async with running(make, {"messages": [{"role": "user", "content": "refund"}]}) as (env, flow):
        run = await env.start(flow, id="r")
        [asked] = await open_questions(env)
        wrong = {"approved": True, "edited": {"cents": "many"}}
        with pytest.raises(WrongAnswer, match="cents"):
            await env.client.answer(asked.id, wrong, user_id="ana")
        await env.client.answer(asked.id, {"approved": True, "edited": {"cents": 9}}, user_id="ana")
        await run.result()
    assert desk.done == [(9, "ana")]
