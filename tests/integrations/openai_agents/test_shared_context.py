"""The context object of the OpenAI Agents SDK: tools get copies, and their changes survive a replay."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, function_tool
from pydantic import BaseModel, Field

from signoff import Context, Signoff
from signoff.errors import NotSerializable
from signoff.integrations.openai_agents import run_agent
from signoff.testing import MemoryStore, environment
from tests.integrations.openai_agents.scripts import Script
from tests.support import in_asyncio


@dataclass
class Notes:
    user: str
    seen: list[str] = field(default_factory=list[str])
    due: date = date(2026, 1, 1)


class Sheet(BaseModel):
    user: str = Field(alias="theUser")
    seen: list[str] = []
    due: date = date(2026, 1, 1)


def agent(script: Script) -> Agent[Any]:
    @function_tool
    def note(ctx: RunContextWrapper[Any], text: str) -> str:
        given = ctx.context
        if isinstance(given, dict):
            given["seen"] = [*given["seen"], text]
            given.pop("old", None)
        else:
            given.seen.append(text)
            given.due = date(2027, 1, 1)
        return "noted"

    @function_tool(needs_approval=True)
    def read(ctx: RunContextWrapper[Any]) -> str:
        given = ctx.context
        return str(given["seen"] if isinstance(given, dict) else (given.user, given.seen, given.due))

    return Agent("support", tools=[note, read], model=script)


@pytest.mark.parametrize("hot_runs", [0, 100], ids=["replayed", "in memory"])
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: {"seen": [], "old": 1}, "['a']"),
        (lambda: Notes("ana"), "('ana', ['a'], datetime.date(2027, 1, 1))"),
        (lambda: Sheet(theUser="ana"), "('ana', ['a'], datetime.date(2027, 1, 1))"),
    ],
    ids=["dict", "dataclass", "model"],
)
@in_asyncio
async def test_a_tool_s_change_is_seen_by_later_tools_and_by_workflow_code(
    make: Any, told: str, hot_runs: int
) -> None:
    script = Script([("note", {"text": "a"}, "c1")], [("read", {}, "c2")], "done")
    app = Signoff(MemoryStore())
    ends: list[Any] = []

    @app.workflow
    async def work(ctx: Context) -> str:
        given = make()
        result = await run_agent(agent(script), "Go", context=given)
        ends.append(given)
        return [each for each in result.to_input_list() if each.get("call_id") == "c2"][-1]["output"]

    async with environment(app, hot_runs=hot_runs) as env:
        env.people.answer("support wants to call read", approved=True)
        assert await env.run(work) == told
    (end,) = ends
    assert (end if isinstance(end, dict) else vars(end))["seen"] == ["a"]
    assert not isinstance(end, dict) or "old" not in end


@in_asyncio
async def test_tools_that_run_at_once_change_copies_of_their_own() -> None:
    script = Script([("note", {"text": "a"}, "c1"), ("note", {"text": "b"}, "c2")], "done")
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> list[str]:
        given = Notes("ana")
        await run_agent(agent(script), "Go", context=given)
        return given.seen

    async with environment(app, hot_runs=0) as env:
        assert await env.run(work) in (["a"], ["b"])


@pytest.mark.parametrize(
    "context",
    [object(), threading.Lock(), {"at": date(2026, 1, 1)}, {"pair": (1, 2)}, {1: 2}, [1], {"lock": object()}],
    ids=["object", "lock", "date", "tuple", "number as key", "list", "object inside"],
)
@in_asyncio
async def test_a_context_that_json_cannot_restore_is_refused_before_the_model_is_asked(context: Any) -> None:
    script = Script("done")
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> None:
        await run_agent(agent(script), "Go", context=context)

    async with environment(app) as env:
        with pytest.raises(NotSerializable):
            await env.run(work)
    assert script.sent == []
