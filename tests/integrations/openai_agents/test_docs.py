"""The page about the OpenAI Agents SDK, its example, and the names of the SDK that Signoff relies on."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from examples.website_summary.processes import REPOSITORY
from signoff import AsyncClient, Signoff
from signoff.integrations.openai_agents.tool_calls import is_agent_tool
from signoff.testing import MemoryStore, environment
from tests.forks import run
from tests.integrations.openai_agents.desk import Desk, questions
from tests.integrations.openai_agents.scripts import Script
from tests.support import comes, in_asyncio

PROGRAMS = re.findall(
    r"```python\n(.*?)```", (REPOSITORY / "docs/integrations/openai-agents.md").read_text(), re.DOTALL
)


@in_asyncio
async def test_the_program_of_the_page_runs_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paid: list[Any] = []

    def pay_back(order: str, cents: int, *, idempotency_key: str) -> str:
        paid.append((order, cents, idempotency_key))
        return "paid"

    shown: dict[str, Any] = {}
    exec(PROGRAMS[0], shown)
    shown["pay_back"] = pay_back
    shown["agent"].model = Script([("refund", {"order": "o-1", "cents": 7000}, "c1")], "done")
    async with environment(shown["app"]) as env:
        run_of_page = await env.start(shown["support"], "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True}, user_id="ana", groups=["finance"])
        assert await run_of_page.result() == "done"
    assert [each[:2] for each in paid] == [("o-1", 7000)]
    await shown["app"].store.close()


@in_asyncio
async def test_the_program_without_a_workflow_asks_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)  # it would send its traces
    desk = Desk()
    shown: dict[str, Any] = {}
    exec(PROGRAMS[1], shown)
    async with AsyncClient(Signoff(MemoryStore())) as client:
        chat = asyncio.create_task(shown["chat"](client, desk.agent, "Pay"))

        async def look() -> list[Any]:
            return list((await client.questions()).items)

        (question,) = await comes(look)
        await client.answer(question.id, True, user_id="ana", groups=["finance"])
        assert await chat == "done"
    assert len(desk.paid) == 1


def example(folder: Path, said: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "SIGNOFF_DEMO_MODEL"}
    return run(
        ["examples.openai_agents_refund"],
        cwd=folder,
        env=environ | {"PYTHONPATH": str(REPOSITORY)},
        said=said,
    )


@pytest.mark.long
def test_the_example_keeps_its_question_and_pays_what_was_approved_once(tmp_path: Path) -> None:
    first = example(tmp_path, "")
    assert "The run is kept" in first.stdout, first.stderr
    second = example(tmp_path, "a\n")
    assert "refunded 7000 cents of o-1" in second.stdout, second.stderr
    assert len((tmp_path / "refunds.txt").read_text().splitlines()) == 1


def test_an_agent_as_a_tool_is_known() -> None:
    assert is_agent_tool(Agent("a").as_tool("a", "An agent."))
    assert not is_agent_tool(Desk().refund)


@in_asyncio
async def test_other_runs_of_the_process_go_through_its_own_runner() -> None:
    before = get_default_agent_runner()
    seen: list[str] = []

    class Mine(AgentRunner):
        async def run(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:
            seen.append(starting_agent.name)
            return await super().run(starting_agent, input, **kwargs)

    set_default_agent_runner(Mine())
    try:
        desk = Desk("done")
        async with environment(desk.app) as env:
            await env.run(desk.work, "Go")
        await Runner.run(Agent("other", model=Script("hi")), "Go")
    finally:
        set_default_agent_runner(before)
    assert seen == ["support", "other"]
