"""A tool that was renamed, or takes other arguments, since a person was asked: an operator says what to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from signoff import AsyncClient, Context, Signoff
from signoff.agents import Durable
from signoff.records import Promise
from signoff.stores.sqlite import SqliteStore
from tests.agents.scripts import Script, asked, calls, returns, says
from tests.support import in_asyncio, until

Tools = Callable[[Agent[None, str], list[str]], None]


def before(agent: Agent[None, str], done: list[str]) -> None:
    @agent.tool_plain(requires_approval=True)
    async def remove(path: str) -> str:
        done.append(f"remove {path}")
        return f"removed {path}"


def renamed(agent: Agent[None, str], done: list[str]) -> None:
    @agent.tool_plain(requires_approval=True)
    async def delete(path: str) -> str:
        done.append(f"delete {path}")
        return f"deleted {path}"

    @agent.tool_plain
    async def count(upto: int) -> int:
        return upto


def widened(agent: Agent[None, str], done: list[str]) -> None:
    @agent.tool_plain(requires_approval=True)
    async def remove(path: str, force: bool = False) -> str:
        done.append(f"remove {path} {force}")
        return f"removed {path}"


def narrowed(agent: Agent[None, str], done: list[str]) -> None:
    @agent.tool_plain(requires_approval=True)
    async def remove(folder: str) -> str:
        done.append(f"remove folder {folder}")
        return "removed"


class Deploy:
    """A process with the code of its time."""

    def __init__(self, folder: Path, script: Script, tools: Tools) -> None:
        self.app = Signoff(SqliteStore(folder / "signoff.db"))
        self.done: list[str] = []
        agent = Agent(script.model, name="tidy", capabilities=[Durable(operators=["user:olga"])])
        tools(agent, self.done)

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            return returns((await agent.run("tidy up")).all_messages())

        self.work = work

    async def question(self, client: AsyncClient) -> Promise:
        async def look() -> Promise | None:
            return next(iter((await client.questions()).items), None)

        return await until(self.app, look)


async def asked_before_a_deploy(folder: Path, script: Script) -> None:
    """Ask with the old code, and answer while no worker is up."""
    old = Deploy(folder, script, before)
    async with AsyncClient(old.app) as client:
        async with old.app.worker():
            await client.start(old.work, id="r")
            question = await old.question(client)
        await client.answer(question.id, True, user_id="ana")
    await old.app.store.close()
    assert old.done == []


@pytest.mark.parametrize(
    ("tools", "words", "choices", "choice", "done", "returned"),
    [
        (renamed, "is not there any more", ["delete", ""], "delete", ["delete a"], ("deleted a", "success")),
        (renamed, "is not there any more", ["delete", ""], "", [], (None, "denied")),
        (
            widened,
            "takes other arguments",
            ["remove", ""],
            "remove",
            ["remove a False"],
            ("removed a", "success"),
        ),
        (narrowed, "takes other arguments", [""], "", [], (None, "denied")),
    ],
)
@in_asyncio
async def test_an_answer_about_a_tool_that_has_changed_asks_an_operator_what_to_run(
    tmp_path: Path, tools: Tools, words: str, choices: list[str], choice: str, done: list[str], returned: Any
) -> None:
    script = Script(calls(("remove", {"path": "a"})), says("done"))
    await asked_before_a_deploy(tmp_path, script)
    new = Deploy(tmp_path, script, tools)
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        shown = asked(question)
        assert words in shown["text"]
        assert [each["value"] for each in shown["options"]] == choices
        assert shown["metadata"]["approved_by"] == "ana"
        assert shown["metadata"]["arguments"] == {"path": "a"}
        assert question.assignees == ("user:olga",)
        assert new.done == []
        await client.answer(question.id, choice, user_id="olga")
        ((_, content, outcome),) = await (await client.get("r")).result(60)
        assert (content if returned[0] else None, outcome) == returned
        assert new.done == done
    await new.app.store.close()
    assert len(script.asked) == 2


@in_asyncio
async def test_an_answer_after_a_deploy_that_left_the_tool_alone_asks_nobody(tmp_path: Path) -> None:
    script = Script(calls(("remove", {"path": "a"})), says("done"))
    await asked_before_a_deploy(tmp_path, script)
    new = Deploy(tmp_path, script, before)
    async with AsyncClient(new.app) as client, new.app.worker():
        assert await (await client.get("r")).result(60) == [["remove", "removed a", "success"]]
    await new.app.store.close()
