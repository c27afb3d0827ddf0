"""An invalid question is refused in its chunk, where it can be fixed: no answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from signoff import Signoff
from signoff.flows import ChunkHeld, Data, Execution, Executions, Flow
from signoff.records import RunState
from signoff.testing import Environment, MemoryStore, environment
from tests.support import in_asyncio

Ask = Callable[[Data[Any]], Any]


def flow_asking(ask: Ask) -> Flow:
    """A flow that asks again behind an approval."""
    flow = Flow("refund", auto_close_timeout=0.0)

    @flow.chunk
    async def approve(data: Data[Any]) -> Any:
        return await data.pause_for("approval", {"question": "Refund?"}, interrupt_id="first")

    flow.chunk(name="ask")(ask)

    @flow.chunk
    def keep(data: Data[Any]) -> None:
        data.append_state("answers", data.input)

    flow.to(approve).to("ask").to(keep)
    return flow


async def held_behind_an_approval(env: Environment, **options: Any) -> Execution:
    """Return an execution that has failed behind its approval."""
    execution = await Executions(env.client, "refund").start(id="e", **options)
    await env.idle()
    await execution.continue_with("first", {"approved": True})
    await env.idle()
    assert await execution.status() is RunState.FAILED
    return execution


def wrong_pauses() -> dict[str, tuple[Ask, str]]:
    def of_a_question(data: Data[Any]) -> Any:
        return data.pause_for("approval", {"question": "?"}, interrupt_id=f"{data.execution_id}.2")

    def too_large(data: Data[Any]) -> Any:
        return data.pause_for("approval", {"question": "?", "letter": "x" * 1_048_250})

    def of_nobody(data: Data[Any]) -> Any:
        return data.pause_for("approval", {"question": "?"}, exclude_requester=True)

    return {
        "the id of another question": (of_a_question, "interrupt_id: 'e.2' has the form"),
        "a question over the limit": (too_large, "question: 1,048,.* over the limit"),
        "four eyes without a requester": (of_nobody, "exclude_requester needs to know the requester"),
    }


@pytest.mark.parametrize("what", list(wrong_pauses()))
@in_asyncio
async def test_what_cannot_be_asked_fails_retryably_and_keeps_the_approval(what: str) -> None:
    wrong, said = wrong_pauses()[what]
    is_mended = False

    def ask(data: Data[Any]) -> Any:
        return data.pause_for("text", {"question": "Why?"}) if is_mended else wrong(data)

    app = Signoff(MemoryStore())
    app.register(flow_asking(ask))
    async with environment(app) as env:
        execution = await held_behind_an_approval(env)
        with pytest.raises(ChunkHeld, match=said):
            await execution.result()
        is_mended = True
        await execution.retry()
        await env.idle()
        (why,) = await execution.get_pending_interrupts()
        await execution.continue_with(why, "broken")
        assert await execution.result() == {"answers": ["broken"]}


@in_asyncio
async def test_four_eyes_work_where_the_starter_is_known() -> None:
    def ask(data: Data[Any]) -> Any:
        return data.pause_for("approval", {"question": "?"}, exclude_requester=True, interrupt_id="second")

    app = Signoff(MemoryStore())
    app.register(flow_asking(ask))
    async with environment(app) as env:
        execution = await Executions(env.client, "refund").start(id="e", started_by="ana")
        await env.idle()
        await execution.continue_with("first", {"approved": True})
        await env.idle()
        await execution.continue_with("second", {"approved": True}, user_id="bob")
        assert await execution.result() == {"answers": [{"approved": True}]}


@in_asyncio
async def test_of_two_concurrent_chunks_with_one_chosen_id_the_second_waits() -> None:
    flow = Flow("refund", auto_close_timeout=0.0)

    @flow.chunk
    async def approve(data: Data[Any]) -> Any:
        await data.pause_for(
            "approval", {"question": "Refund?"}, interrupt_id="first", resume_event="approved"
        )

    @flow.chunk
    def items(data: Data[Any]) -> list[int]:
        return [1, 2]

    @flow.chunk
    async def ask(data: Data[int]) -> Any:
        return await data.pause_for("text", {"question": f"{data.input}?"}, interrupt_id="same")

    @flow.chunk
    def keep(data: Data[Any]) -> None:
        data.set_state("answers", data.input)

    flow.to(approve)
    flow.when("approved").to(items).for_each().to(ask).end_for_each().to(keep)
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        execution = await held_behind_an_approval(env)
        with pytest.raises(ChunkHeld, match="'same'"):
            await execution.result()
        await execution.continue_with("same", "one")
        await execution.retry()
        await env.idle()
        await execution.continue_with("same", "two")
        assert await execution.result() == {"answers": ["one", "two"]}


@in_asyncio
async def test_an_attempt_that_has_failed_keeps_no_id_from_others() -> None:
    flow, attempts = Flow("refund", auto_close_timeout=0.0), list[int]()

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        attempts.append(1)
        id = "one" if len(attempts) == 1 else "two"
        pause = data.pause_for("text", {"question": "?"}, interrupt_id=id)
        if len(attempts) == 1:
            raise SystemExit(3)
        return await pause

    @flow.chunk
    async def beside(data: Data[Any]) -> Any:
        return await data.pause_for("text", {"question": "?"}, interrupt_id="one")

    flow.to(ask)
    flow.when("go").to(beside)
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "refund").start(id="e")
        await env.idle()
        await execution.emit("go")  # while the first chunk waits for its next attempt
        await env.idle()
        await env.sleep(timedelta(minutes=1))
        assert set(await execution.get_pending_interrupts()) == {"one", "two"}
