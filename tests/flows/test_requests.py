"""A repeated answer answers nothing else, wherever the execution lives and however the interrupt recurs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from signoff import Signoff
from signoff.errors import AlreadySettled, RequestConflict
from signoff.flows import Data, Execution, Executions, Flow, UnknownInterrupt
from signoff.testing import MemoryStore, environment
from tests.flows.worlds import WORLDS, world
from tests.support import in_asyncio


def looping(**options: Any) -> Flow:
    """A flow that asks for one instalment after the other, under one chosen id."""
    flow = Flow("loan", auto_close_timeout=None)

    @flow.chunk
    async def ask(data: Data[int]) -> Any:
        asked = {"question": f"Pay instalment {data.input}?"}
        return await data.pause_for("approval", asked, interrupt_id="approval", **options)

    @flow.chunk
    async def pay(data: Data[dict[str, Any]]) -> None:
        n = data.get_state("n", 1)
        data.append_state("paid" if data.input["approved"] else "refused", n)
        data.set_state("n", n + 1)
        if n < 3:
            data.emit("again", n + 1)

    flow.to(ask).to(pay)
    flow.when("again").to("ask").to("pay")
    return flow


def resuming() -> Flow:
    """A flow whose chunk resumes to itself, under one chosen id."""
    flow = Flow("loan", auto_close_timeout=None)

    @flow.chunk
    async def pay(data: Data[int]) -> None:
        n = 1
        if data.resume is not None:
            n = data.resume.count + 1
            data.append_state("paid" if data.resume.value["approved"] else "refused", n - 1)
        if n <= 3:
            await data.pause_for(
                "approval",
                {"question": f"Pay instalment {n}?"},
                resume_to="self",
                interrupt_id="approval",
                max_resumes=None,
            )

    flow.to(pay)
    return flow


async def questions(execution: Execution) -> list[str]:
    return [each.question for each in (await execution.get_pending_interrupts()).values()]


async def asked(execution: Execution, *expected: str) -> None:
    """Wait until exactly these questions are open."""
    async with asyncio.timeout(30):
        while await questions(execution) != list(expected):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("make", [looping, resuming])
@in_asyncio
async def test_a_webhook_that_is_delivered_again_approves_no_other_instalment(
    tmp_path: Path, make: Any, kind: str
) -> None:
    async with world(kind, tmp_path, make()) as executions:
        execution = await executions.start(1, id="e")
        for n in (1, 2):
            for _ in range(2):  # at least once, as webhooks are
                await execution.continue_with("approval", {"approved": True}, request_id=f"webhook-{n}")
                assert await questions(execution) == [f"Pay instalment {n + 1}?"]
            with pytest.raises(RequestConflict):
                await execution.continue_with("approval", {"approved": False}, request_id=f"webhook-{n}")
        await execution.continue_with("approval", {"approved": False}, request_id="webhook-3")
        for n in (1, 2):  # late, when all is answered
            await execution.continue_with("approval", {"approved": True}, request_id=f"webhook-{n}")
        state = await execution.close()
        assert (state["paid"], state["refused"]) == ([1, 2], [3])


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_a_repeated_vote_counts_for_no_other_instalment(tmp_path: Path, kind: str) -> None:
    async with world(kind, tmp_path, looping(quorum=2)) as executions:
        execution = await executions.start(1, id="e")
        for user in ("ana", "bob"):
            await execution.continue_with("approval", {"approved": True}, user_id=user, request_id=user)
        await asked(execution, "Pay instalment 2?")
        for user in ("ana", "bob"):
            await execution.continue_with("approval", {"approved": True}, user_id=user, request_id=user)
        assert await questions(execution) == ["Pay instalment 2?"]
        await execution.continue_with("approval", {"approved": True}, user_id="ana", request_id="ana 2")
        assert await questions(execution) == ["Pay instalment 2?"]


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_an_event_that_votes_again_votes_on_nothing_else(tmp_path: Path, kind: str) -> None:
    flow = Flow("loan", auto_close_timeout=None)

    @flow.chunk
    async def ask(data: Data[Any]) -> None:
        await data.pause_for("approval", {"question": "?"}, resume_event="paid", quorum=2)

    @flow.chunk
    def pay(data: Data[Any]) -> None:
        data.append_state("paid", data.input)

    flow.when("go").to(ask)
    flow.when("paid").to(pay)
    async with world(kind, tmp_path, flow) as executions:
        execution = await executions.start(id="e")
        vote: dict[str, Any] = {"value": {"approved": True}, "user_id": "ana", "request_id": "w"}
        for number in range(1, 3):  # the second time two interrupts wait
            await execution.emit("go")
            await asked(execution, *["?"] * number)
            assert await execution.emit("paid", **vote) is (number == 1)
            assert await execution.emit("paid", **vote) is False
            assert len(await execution.get_pending_interrupts()) == number


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_a_request_id_that_emitted_an_event_answers_nothing(tmp_path: Path, kind: str) -> None:
    async with world(kind, tmp_path, looping()) as executions:
        execution = await executions.start(1, id="e")
        await asked(execution, "Pay instalment 1?")
        await execution.emit("again", 5, request_id="w")
        with pytest.raises(RequestConflict):
            await execution.continue_with("approval", {"approved": True}, request_id="w")
        await execution.continue_with("approval", {"approved": True}, request_id="v")
        with pytest.raises(RequestConflict):
            await execution.emit("again", 5, request_id="v")


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_an_answer_right_after_the_start_waits_for_the_interrupt(tmp_path: Path, kind: str) -> None:
    async with world(kind, tmp_path, looping()) as executions:
        execution = await executions.start(1, id="e")
        await execution.continue_with("approval", {"approved": True})
        assert await questions(execution) == ["Pay instalment 2?"]
        with pytest.raises(UnknownInterrupt, match="pending are approval"):
            await execution.continue_with("another", {"approved": True})


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_new_requests_answer_one_interrupt_after_the_other_of_one_id(tmp_path: Path, kind: str) -> None:
    flow = looping()

    @flow.chunk
    async def slow(data: Data[int]) -> int:
        await asyncio.sleep(0.05)
        return data.input

    flow.when("again").to(slow)
    flow.roots[1].then.insert(0, flow.roots.pop().then[0])
    async with world(kind, tmp_path, flow) as executions:
        execution = await executions.start(1, id="e")
        for n in (1, 2, 3):
            await execution.continue_with("approval", {"approved": n != 2}, request_id=f"w-{n}")
        with pytest.raises(AlreadySettled):
            await execution.continue_with("approval", {"approved": True}, request_id="w-4")
        state = await execution.close()
    assert (state["paid"], state["refused"]) == ([1, 3], [2])


@in_asyncio
async def test_an_answer_waits_no_longer_than_it_is_said() -> None:
    app = Signoff(MemoryStore())
    app.register(looping())
    async with environment(app) as env:
        execution = await Executions(env.client, "loan").start(1, id="e", group="of nobody")
        with pytest.raises(UnknownInterrupt, match="nothing is pending"):
            await execution.continue_with("approval", {"approved": True}, wait_seconds=0)
