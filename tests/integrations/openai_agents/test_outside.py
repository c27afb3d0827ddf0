"""A program that runs an agent of the OpenAI Agents SDK itself asks people about its calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import RunConfig, Runner, RunState

from signoff import AlreadySettled, AsyncClient, Signoff
from signoff.integrations.openai_agents import decide_interruptions
from signoff.testing import MemoryStore
from tests.integrations.openai_agents.desk import REFUND, Desk
from tests.integrations.openai_agents.scripts import outputs
from tests.support import comes, in_asyncio

QUIET = RunConfig(tracing_disabled=True)


async def pending(client: AsyncClient, count: int = 1) -> list[Any]:
    """The open questions, once there are so many."""

    async def look() -> list[Any] | None:
        found = (await client.questions()).items
        return list(found) if len(found) == count else None

    return await comes(look) or []


async def paused(desk: Desk) -> RunState[Any]:
    return (await Runner.run(desk.agent, "Pay", run_config=QUIET)).to_state()


async def finish(desk: Desk, state: RunState[Any]) -> dict[str, Any]:
    result = await Runner.run(desk.agent, state, run_config=QUIET)
    assert result.final_output == "done"
    return outputs(result.to_input_list())


@in_asyncio
async def test_each_call_is_asked_by_its_own_id_and_runs_as_answered() -> None:
    desk = Desk([("refund", {"order": f"o-{n}", "cents": n}, f"c{n}") for n in (1, 2)], "done")
    async with AsyncClient(Signoff(MemoryStore())) as client:
        state = await paused(desk)
        deciding = asyncio.create_task(decide_interruptions(client, "chat-7", state))
        first, second = await pending(client, 2)
        assert [first.id, second.id] == ["chat-7/c1", "chat-7/c2"]
        await client.answer(second.id, True)
        await client.answer(first.id, False, note="not this")
        await deciding
        assert await finish(desk, state) == {"c1": "not this", "c2": "refunded 2 cents of o-2"}
    assert desk.paid == [("o-2", 2)]


@in_asyncio
async def test_a_restarted_program_gets_the_answer_that_was_given_meanwhile() -> None:
    desk = Desk()
    async with AsyncClient(Signoff(MemoryStore())) as client:
        kept = json.dumps((await paused(desk)).to_json())
        state = await RunState.from_json(desk.agent, json.loads(kept))
        with pytest.raises(TimeoutError):
            await decide_interruptions(client, "chat-7", state, timeout=0.01)
        (question,) = await pending(client)
        await client.answer(question.id, True)
        for _ in range(2):
            again = await RunState.from_json(desk.agent, json.loads(kept))
            await decide_interruptions(client, "chat-7", again)
        with pytest.raises(AlreadySettled):
            await client.answer(question.id, False)
        await finish(desk, again)
    assert desk.paid == [("o-1", 7000)]


@pytest.mark.parametrize("end", ["times out", "is withdrawn"])
@in_asyncio
async def test_without_an_answer_nothing_runs(end: str) -> None:
    desk = Desk()
    async with AsyncClient(app := Signoff(MemoryStore())) as client, app.worker():
        state = await paused(desk)
        terms: Any = {"timeout_seconds": 0.05} if end == "times out" else {}
        deciding = asyncio.create_task(decide_interruptions(client, "chat-7", state, **terms))
        if end == "is withdrawn":
            (question,) = await pending(client)
            await client.inbox.cancel(question.id)
        await deciding
        assert (await finish(desk, state))["c1"].startswith("Not run: refund was not approved")
    assert desk.paid == []


@pytest.mark.parametrize(("says", "paid"), [("approve", [("o-1", 7000)]), ("deny", []), ("banana", None)])
@in_asyncio
async def test_a_policy_decides_first_and_an_odd_one_asks(says: Any, paid: Any) -> None:
    desk = Desk()
    async with AsyncClient(Signoff(MemoryStore())) as client:
        state = await paused(desk)
        if paid is None:
            with pytest.raises(TimeoutError):
                await decide_interruptions(client, "x", state, decide=lambda action: says, timeout=0.01)
            assert len(await pending(client)) == 1
            return
        await decide_interruptions(client, "x", state, decide=lambda action: says)
        await finish(desk, state)
    assert desk.paid == paid


@pytest.mark.parametrize("arguments", ["no json", json.dumps({**REFUND, "cents": "many"})])
@in_asyncio
async def test_a_call_that_cannot_be_shown_is_denied_unasked(arguments: str) -> None:
    desk = Desk([("refund", arguments, "c1")], "done")
    async with AsyncClient(Signoff(MemoryStore())) as client:
        state = await paused(desk)
        await decide_interruptions(client, "x", state)
        assert (await finish(desk, state))["c1"] == "Not run: the arguments of refund are not valid."
        assert not (await client.questions()).items
    assert desk.paid == []
