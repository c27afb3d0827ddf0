"""After a crash at any place, calls of the OpenAI Agents SDK have run as often as without it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, current_step
from signoff.records import EntryKind
from signoff.testing import after_step, at_pause, before_step, crash_everywhere, environment
from signoff.testing.environment import Environment
from tests.integrations.openai_agents import payer
from tests.integrations.openai_agents.desk import Desk, asked, questions
from tests.integrations.openai_agents.nested import Office
from tests.support import comes, in_asyncio


@in_asyncio
async def test_a_crash_anywhere_changes_neither_result_nor_effects() -> None:
    calls = [("refund", {"order": f"o-{n}", "cents": n}, f"c{n}") for n in (1, 2)]
    desk = Desk([("look", {"order": "o-1"}, "l1")], calls, "done", repeatable=["look"])

    async def scenario(env: Environment) -> Any:
        desk.paid.clear()
        env.people.answer("support wants to call refund", approved=True)
        env.people.answer("Step *", {"action": "done", "result": "refunded by hand"})
        outcome = await env.run(desk.work, "Pay", id="r")
        journal = await env.client.backend.read_journal("r")
        completed = [each.name for each in journal if each.kind is EntryKind.COMPLETED]
        assert len(desk.paid) <= 2
        assert all(desk.paid.count(each) == 1 for each in desk.paid)
        return outcome[0], sorted(outcome[1]), sorted(map(str, completed))

    assert await crash_everywhere(desk.app, scenario, hot_runs=0) > 15


@pytest.mark.long
@in_asyncio
async def test_nested_and_handed_over_calls_survive_a_crash_anywhere() -> None:
    office = Office()

    async def scenario(env: Environment) -> Any:
        office.paid.clear()
        env.people.answer("* wants to call *", approved=True)
        env.people.answer("Step *", {"action": "done", "result": "by hand"})
        outcome = await env.run(office.work, "Pay", id="r")
        assert len(set(office.paid)) == len(office.paid)
        return outcome

    assert await crash_everywhere(office.app, scenario, hot_runs=0) > 20


@in_asyncio
async def test_a_crash_between_approval_and_call_runs_the_call_once() -> None:
    desk = Desk()
    async with environment(desk.app, hot_runs=0) as env:
        env.crash(at=before_step("support.refund"))
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True})
        (unclear,) = await questions(env)
        assert "support.refund" in asked(unclear)["text"]
        assert desk.paid == []
        await env.client.answer(unclear.id, {"action": "retry"})
        assert await run.result() == ["done", {"c1": "refunded 7000 cents of o-1"}]
    assert desk.paid == [("o-1", 7000)]


@in_asyncio
async def test_a_crash_in_a_call_asks_a_person_with_the_call_in_sight() -> None:
    desk = Desk(operators=["group:ops"])
    async with environment(desk.app, hot_runs=0) as env:
        env.crash(at=after_step("support.refund"))
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True})
        (unclear,) = await questions(env)
        assert unclear.assignees == ("group:ops",)
        assert "o-1" in json.dumps(asked(unclear))
        done = {"action": "done", "result": "refunded, says the bank"}
        await env.client.answer(unclear.id, done, user_id="ops", groups=["ops"])
        assert await run.result() == ["done", {"c1": "refunded, says the bank"}]
    assert desk.paid == [("o-1", 7000)]


@in_asyncio
async def test_a_repeatable_call_runs_again_with_the_same_idempotency_key() -> None:
    keys: list[str] = []
    desk = Desk([("look", {"order": "o-1"}, "c1")], "done", repeatable=["look"])
    desk.looked = _Noting(keys)
    async with environment(desk.app, hot_runs=0) as env:
        env.crash(at=after_step("support.look"))
        assert await env.run(desk.work, "Look", id="r") == ["done", {"c1": "o-1 is here"}]
    assert len(keys) == 2
    assert len(set(keys)) == 1


class _Noting(list[str]):
    def __init__(self, keys: list[str]) -> None:
        super().__init__()
        self._keys = keys

    def append(self, order: str) -> None:
        self._keys.append(current_step().idempotency_key)
        super().append(order)


@in_asyncio
async def test_a_model_is_not_asked_again_for_a_journaled_response() -> None:
    desk = Desk()
    async with environment(desk.app, hot_runs=0) as env:
        env.crash(at=at_pause())
        env.people.answer("support wants to call refund", approved=True)
        await env.run(desk.work, "Pay", id="r")
    assert len(desk.script.sent) == 2


async def _killed(folder: Path, at: str) -> None:
    """Run a worker process until it kills itself at a place in the tool or before it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integrations.openai_agents.payer", str(folder), at
    )
    assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(("at", "paid"), [("before", []), ("after", ["o-1 7000"])])
@in_asyncio
async def test_after_kill_9_at_an_approved_call_another_process_asks_before_it_runs_again(
    tmp_path: Path, at: str, paid: list[str]
) -> None:
    app = payer.make_app(tmp_path, None)
    async with AsyncClient(app) as client:
        run = await client.start("work", "Pay", id="r")
        killed = asyncio.create_task(_killed(tmp_path, at))
        (question,) = await comes(lambda: _open(client))
        await client.answer(question.id, {"approved": True}, user_id="ana")
        await killed
        assert payer.paid(tmp_path) == paid
        async with app.worker():
            (unclear,) = await comes(lambda: _open(client))
            assert "support.refund" in json.loads(unclear.data or "")["text"]
            assert payer.paid(tmp_path) == paid
            if paid:
                await client.answer(unclear.id, {"action": "done", "result": "paid"}, user_id="ops")
            else:
                await client.answer(unclear.id, {"action": "retry"}, user_id="ops")
            assert await run.result(60) == "done"
    await app.store.close()
    assert payer.paid(tmp_path) == ["o-1 7000"]


async def _open(client: AsyncClient) -> list[Any]:
    return list((await client.questions()).items)
