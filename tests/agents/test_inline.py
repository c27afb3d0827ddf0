"""Tools whose body is workflow code, and that have changed since it began: what is done stands, operators decide."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, Tool, ToolDefinition
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ModelMessage, ToolReturn
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

import signoff
from signoff import AsyncClient, Context, Signoff
from signoff.agents import Durable, in_workflow, pause
from signoff.agents.approvals.operator_questions import AS_BEFORE, GO_ON, NOTHING
from signoff.agents.steps.in_workflow_calls import BRANCHES, INNER, SHOWN
from signoff.engine.run.branches import SIZE
from signoff.errors import CannotRunHere
from signoff.records import EntryKind, Promise, PromiseState, RunState
from signoff.records.paging import PromiseFilter
from signoff.stores.sqlite.store import SqliteStore
from tests.agents.deploys import (
    CHANGES,
    KINDS,
    REMOVE,
    Deploy,
    Kind,
    Parts,
    acts,
    asked_before_a_deploy,
    waits,
)
from tests.agents.scripts import Script, asked, calls, says
from tests.halves import sample
from tests.support import comes, doomed_worker, in_asyncio, journaled, pauses, rebuilt, until

WAITS = Kind(waits, is_inline=True)


def planning(name: str = "remove", **more: Any) -> Parts:
    """A tool that plans, asks and acts, and notes what it does."""

    def parts(done: list[str]) -> dict[str, Any]:
        async def body(path: str) -> str:
            context = signoff.current_context()
            plan = await context.step("plan", lambda: done.append("plan") or "the plan", returns=str)
            answer = await context.wait_for_user("Sure?", assignees=["user:ana"])
            if not answer.approved:
                return "no"
            return await context.step(
                "act", lambda: done.append(f"act on {path} by {plan}") or name, returns=str
            )

        return {"tools": [Tool(in_workflow(body), name=name)], **more}

    return parts


async def questions(client: AsyncClient) -> list[Promise]:
    return list((await client.questions()).items)


async def the_operators(deploy: Deploy, client: AsyncClient, but: str = "") -> Promise:
    """Wake the run and wait until the operator is asked."""
    await client.signal("r", "look")

    async def look() -> Promise | None:
        found = [each for each in await questions(client) if each.assignees == ("user:olga",)]
        return next((each for each in found if each.id != but), None)

    return await until(deploy.app, look)


async def begun(folder: Path, script: Script, parts: Parts, *, answer: bool | None = None) -> None:
    """Have a tool wait, with the old code; it may be answered while no worker is up."""
    deploy = Deploy(folder, script, parts)
    async with AsyncClient(deploy.app) as client:
        async with deploy.app.worker():
            await client.start(deploy.work, id="r")
            question = await deploy.question(client)
        if answer is not None:
            await client.answer(question.id, answer, user_id="ana")
    await deploy.app.store.close()
    assert deploy.done == ["plan"]


# What an operator is asked


@pytest.mark.parametrize("change", CHANGES)
@in_asyncio
async def test_a_body_that_has_begun_and_changed_is_not_run_and_an_operator_is_asked(
    tmp_path: Path, change: str
) -> None:
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, WAITS)
    new = Deploy(tmp_path, script, WAITS.after(change))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        shown = asked(question)
        assert ("is not there any more" if change in ("renamed", "removed") else "takes other") in shown[
            "text"
        ]
        fitting = {"renamed": ["delete"], "widened": ["remove"]}.get(change, [])
        on = [f"{GO_ON}{each}" for each in fitting]
        assert [each["value"] for each in shown["options"]] == [*on, *fitting, AS_BEFORE, NOTHING]
        assert "step 'plan' (done)" in shown["help"]
        assert "'Sure?' (resolved by ana" in shown["help"], "what people have answered"
        assert question.assignees == ("user:olga",)
        assert (new.done, len(script.asked)) == ([], 1)
        await client.answer(question.id, NOTHING, user_id="olga")
        ((name, content, outcome),) = await (await client.get("r")).result(60)
        assert (name, outcome, new.done) == ("remove", "denied", [])
        assert "does not go on" in content
        assert "step 'plan' (done)" in content
        await new.checked()
    await new.app.store.close()
    assert len(script.asked) == 2


@pytest.mark.parametrize("answered", ["before", "meanwhile", "after"])
@pytest.mark.parametrize("change", ["renamed", "widened"])
@in_asyncio
async def test_another_tool_may_go_on_where_the_one_that_was_called_has_stopped(
    tmp_path: Path, change: str, answered: str
) -> None:
    script = Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, planning(), answer=True if answered == "before" else None)
    name = "delete" if change == "renamed" else "remove"
    new = Deploy(tmp_path, script, planning(name) if change == "renamed" else widened())
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await the_operators(new, client)
        sure = next((each for each in await questions(client) if each.id != question.id), None)
        assert (sure is None) == (answered == "before")
        if answered == "meanwhile":
            await client.answer(sure.id, True, user_id="ana")
        await client.answer(question.id, f"{GO_ON}{name}", user_id="olga")
        if answered == "after":
            await until(new.app, lambda: is_alone(client, sure))
            assert new.done == []
            await client.answer(sure.id, True, user_id="ana")
        assert await (await client.get("r")).result(60) == [["remove", name, "success"]]
        assert new.done == ["act on a by the plan"], "what was done before is not done again"
        returned = await new.checked()
        assert returned.metadata["signoff"] == {"arguments": {"path": "a"}, "tool": name, "chosen_by": "olga"}
    await new.app.store.close()
    assert len(script.asked) == 2


def widened() -> Parts:
    def parts(done: list[str]) -> dict[str, Any]:
        (tool,) = planning()(done)["tools"]

        async def body(path: str, force: bool = False) -> str:
            return await tool.function(path)

        return {"tools": [Tool(in_workflow(body), name="remove")]}

    return parts


async def another(client: AsyncClient, known: list[Promise]) -> Promise | None:
    ids = [each.id for each in known]
    return next((each for each in await questions(client) if each.id not in ids), None)


async def is_alone(client: AsyncClient, question: Promise | None) -> bool:
    return await questions(client) == [question]


@in_asyncio
async def test_a_tool_may_be_run_from_its_beginning_and_what_it_had_asked_is_closed(tmp_path: Path) -> None:
    script = Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, planning())
    new = Deploy(tmp_path, script, planning("delete"))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await the_operators(new, client)
        (old,) = (each for each in await questions(client) if each.id != question.id)
        assert "from the beginning" in asked(question)["options"][1]["label"]
        await client.answer(question.id, "delete", user_id="olga")
        again = await until(new.app, lambda: another(client, [old, question]))
        assert (await client.promises.get(old.id)).state is PromiseState.CANCELLED
        await client.answer(again.id, True, user_id="ana")
        assert await (await client.get("r")).result(60) == [["remove", "delete", "success"]]
        assert new.done == ["plan", "act on a by the plan"]
        await new.checked()
    await new.app.store.close()


@in_asyncio
async def test_when_nothing_is_to_run_what_the_body_had_asked_is_closed(tmp_path: Path) -> None:
    script = Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, planning())
    new = Deploy(tmp_path, script, KINDS["approval"].after("removed"))
    async with AsyncClient(new.app) as client, new.app.worker():
        await client.answer((await the_operators(new, client)).id, NOTHING, user_id="olga")
        await (await client.get("r")).result(60)
        assert (await new.app.store.list_promises(PromiseFilter(state=PromiseState.PENDING))).items == ()
    await new.app.store.close()


@in_asyncio
async def test_a_call_goes_on_under_its_own_code_when_that_is_back(tmp_path: Path) -> None:
    script = Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, planning(), answer=True)
    gone = KINDS["approval"].after("removed")
    new = Deploy(tmp_path, script, gone)
    async with AsyncClient(new.app) as client, new.app.worker():
        first = await the_operators(new, client)
        await client.answer(first.id, AS_BEFORE, user_id="olga")
        second = await the_operators(new, client, but=first.id)  # it is not there yet
        assert new.done == []
    await new.app.store.close()
    back = Deploy(tmp_path, script, planning())
    async with AsyncClient(back.app) as client, back.app.worker():
        await client.signal("r", "look")
        await until(back.app, lambda: has_received(back, 2 + 1))
        await pauses(back.app, "r")
        assert back.done == [], "who is asked decides, though the code is back"
        assert [each.id for each in await questions(client)] == [second.id]
        await client.answer(second.id, AS_BEFORE, user_id="olga")
        assert await (await client.get("r")).result(60) == [["remove", "remove", "success"]]
        assert back.done == ["act on a by the plan"]
        await back.checked()
    await back.app.store.close()


async def has_received(deploy: Deploy, signals: int) -> bool:
    return len(await journaled(deploy.app, "r", EntryKind.SIGNALLED)) == signals


@in_asyncio
async def test_a_tool_that_goes_on_and_changes_again_is_asked_about_again(tmp_path: Path) -> None:
    script = Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, planning())
    first = Deploy(tmp_path, script, planning("delete"))
    async with AsyncClient(first.app) as client, first.app.worker():
        question = await the_operators(first, client)
        await client.answer(question.id, f"{GO_ON}delete", user_id="olga")
        await until(first.app, lambda: is_answered(client, question))
    await first.app.store.close()
    second = Deploy(tmp_path, script, planning("erase"))
    async with AsyncClient(second.app) as client, second.app.worker():
        again = await the_operators(second, client)
        assert "has called delete, which is not there any more" in asked(again)["text"]
        await client.answer(again.id, f"{GO_ON}erase", user_id="olga")
        await until(second.app, lambda: is_answered(client, again))
    await second.app.store.close()
    third = Deploy(tmp_path, script, planning("erase"))
    async with AsyncClient(third.app) as client, third.app.worker():
        await client.answer((await third.question(client)).id, True, user_id="ana")
        assert await (await client.get("r")).result(60) == [["remove", "erase", "success"]]
        assert third.done == ["act on a by the plan"]
        await third.checked()
    await third.app.store.close()


async def is_answered(client: AsyncClient, question: Promise) -> bool:
    (only, *more) = await questions(client)
    return not more and only.id != question.id and only.assignees == ("user:ana",)


@pytest.mark.parametrize("is_within", sample([False, True]), ids=["", "within another"])
@pytest.mark.parametrize("choice", sample([f"{GO_ON}delete", "delete", AS_BEFORE, NOTHING]))
@in_asyncio
async def test_either_code_can_replay_any_length_of_such_a_journal(
    tmp_path: Path, choice: str, is_within: bool
) -> None:
    """So it may crash, or be deployed and rolled back, at any time."""

    def with_tool(name: str) -> Parts:
        return within(planning(name), inner) if is_within else planning(name)

    inner = Script(calls(REMOVE), says("that is it"))
    script = Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, with_tool("remove"))
    new = Deploy(tmp_path, script, with_tool("delete"))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await the_operators(new, client)
        (old,) = (each for each in await questions(client) if each.id != question.id)
        await client.answer(question.id, choice, user_id="olga")
        if choice == AS_BEFORE:
            question = await the_operators(new, client, but=question.id)
            await client.answer(question.id, f"{GO_ON}delete", user_id="olga")
        if choice != NOTHING:
            before = [question, *([old] if choice == "delete" else [])]
            sure = await until(new.app, lambda: another(client, before))
            await client.answer(sure.id, True, user_id="ana")
        run = await client.get("r")
        await run.result(60)
        lived = new.messages
        record, entries = await client.backend.get_run("r"), await new.app.store.read_journal("r")
        back = Deploy(tmp_path, script, with_tool("remove"))
        gone = Deploy(tmp_path, script, KINDS["approval"].after("removed"))
        for deploy in (back, new, gone):
            for length in range(1, len(entries)):
                async with rebuilt(deploy.app, record, entries[:length]) as execution:
                    assert execution.failure is None, f"at {length}: {entries[length]}: {execution.failure}"
            assert said_in(deploy.messages) == said_in(lived), "what was said is the same at each replay"
        assert new.done == {"delete": ["plan", "act on a by the plan"], NOTHING: []}.get(
            choice, ["act on a by the plan"]
        )
    await new.app.store.close()


def said_in(messages: list[ModelMessage]) -> list[tuple[Any, ...]]:
    parts = [part for message in messages for part in message.parts]
    return [
        (part.part_kind, getattr(part, "content", None), getattr(part, "metadata", None)) for part in parts
    ]


# What the rest of the run does meanwhile


@in_asyncio
async def test_the_other_calls_of_a_response_go_on_while_the_operator_thinks(tmp_path: Path) -> None:
    def with_others(name: str) -> Parts:
        def parts(done: list[str]) -> dict[str, Any]:
            async def look(at: str) -> str:
                done.append(f"look at {at}")
                return f"seen {at}"

            async def slowly(at: str) -> str:
                context = signoff.current_context()
                await context.wait_for_user(f"See {at}?", assignees=["user:ben"])
                await context.step("see", lambda: done.append(f"see {at}"))
                return str(context.uuid4())

            tools = [Tool(look, requires_approval=True), Tool(in_workflow(slowly))]
            return {"tools": [*planning(name)(done)["tools"], *tools]}

        return parts

    both = calls(REMOVE, ("look", {"at": "x"}), ("slowly", {"at": "y"}), ("slowly", {"at": "z"}))
    script = Script(both, says("done"))
    old = Deploy(tmp_path, script, with_others("remove"))
    async with AsyncClient(old.app) as client, old.app.worker():
        await client.start(old.work, id="r")
        await until(old.app, lambda: are_asked(client, 4))
        await answer_of(client, "See y?", by="ben")
        await until(old.app, lambda: are_done(old, 2))
    await old.app.store.close()
    assert sorted(old.done) == ["plan", "see y"]
    new = Deploy(tmp_path, script, with_others("delete"))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await the_operators(new, client)
        await answer_of(client, "wants to call look", by="ben")
        await answer_of(client, "See z?", by="ben")
        await until(new.app, lambda: are_done(new, 2))
        assert sorted(new.done) == ["look at x", "see z"]
        await client.answer(question.id, f"{GO_ON}delete", user_id="olga")
        await until(new.app, lambda: are_asked(client, 1))
        await answer_of(client, "Sure?", by="ana")
        found = await (await client.get("r")).result(60)
        assert [content for name, content, _ in found if name != "slowly"] == ["delete", "seen x"]
        assert len({content for name, content, _ in found if name == "slowly"}) == 2
        assert sorted(new.done) == ["act on a by the plan", "look at x", "see z"]
        await new.checked()
    await new.app.store.close()


async def are_done(deploy: Deploy, count: int) -> bool:
    return len(deploy.done) == count


async def are_asked(client: AsyncClient, count: int) -> bool:
    return len(await questions(client)) == count


async def answer_of(client: AsyncClient, text: str, *, by: str) -> None:
    (question,) = (each for each in await questions(client) if text in asked(each)["text"])
    await client.answer(question.id, True, user_id=by)


# What has finished


def finishing(done: list[str], way: str) -> Tool[None]:
    async def look(at: str) -> Any:
        context = signoff.current_context()
        await context.step("see", lambda: done.append(f"see {at}"))
        if way == "retries" and len(done) == 1:
            raise ModelRetry("look again")
        if way == "asks":
            await context.wait_for_user("Look?")
        if way == "says more":
            return ToolReturn("seen", content="It is dark.", metadata={"at": at})
        return "seen"

    if way == "is marked":
        return Tool(look, name="look", metadata={"signoff": False})
    return Tool(in_workflow(look), name="look")


@pytest.mark.parametrize("change", ["removed", "another"])
@pytest.mark.parametrize("way", ["acts", "retries", "asks", "says more", "is marked", "toolset"])
@in_asyncio
async def test_what_workflow_code_has_returned_stands_whatever_became_of_it(
    tmp_path: Path, way: str, change: str
) -> None:
    def parts(done: list[str]) -> dict[str, Any]:
        waiting = KINDS["approval"].after("none")(done)["tools"]
        if way == "toolset":
            return {"tools": waiting, "toolsets": [OwnToolset(done, "at")]}
        return {"tools": [*waiting, finishing(done, way)]}

    def without(done: list[str]) -> dict[str, Any]:
        made = KINDS["approval"].after("none")(done)
        if change == "removed":
            return made
        if way == "toolset":
            return {**made, "toolsets": [OwnToolset(done, "where")]}
        return {"tools": [*made["tools"], plain_look(done)]}

    turns = [calls(("look", {"at": "x"}))] * (2 if way == "retries" else 1)
    script = Script(*turns, calls(REMOVE), says("done"))
    old = Deploy(tmp_path, script, parts)
    async with AsyncClient(old.app) as client:
        async with old.app.worker():
            await client.start(old.work, id="r")
            if way == "asks":
                await client.answer((await old.question(client)).id, True, user_id="ana")
                await until(old.app, lambda: are_asked_of(script, 2))
            question = await old.question(client)
        await client.answer(question.id, True, user_id="ana")
    await old.app.store.close()
    new = Deploy(tmp_path, script, without)
    async with AsyncClient(new.app) as client, new.app.worker():
        found = await (await client.get("r")).result(60)
        outcomes = ["retried"] * (way == "retries") + ["success"]
        assert [outcome for name, _, outcome in found if name == "look"] == outcomes
        assert found[-2][1] == "seen"
        assert found[-1] == ["remove", "removed a", "success"]
        await new.checked()
        if way == "says more":
            assert "It is dark." in new.told()
    await new.app.store.close()
    assert new.done == ["remove a"], "nothing is done again"
    assert len(script.asked) == len(turns) + 2


async def are_asked_of(script: Script, times: int) -> bool:
    return len(script.asked) >= times


def plain_look(done: list[str]) -> Tool[None]:
    """A tool of the same name and arguments, whose body is no workflow code."""

    async def look(at: str) -> str:
        done.append("look plainly")
        return "seen plainly"

    return Tool(look)


class OwnToolset(AbstractToolset[None]):
    """A toolset that somebody has written, with a tool that looks at something."""

    def __init__(self, done: list[str], takes: str, *, asks: bool = False) -> None:
        self._done = done
        self._takes = takes
        self._asks = asks

    @property
    def id(self) -> str | None:
        return "own"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        schema = {
            "type": "object",
            "properties": {self._takes: {"type": "string"}},
            "required": [self._takes],
        }
        definition = ToolDefinition(
            name="look", parameters_json_schema={**schema, "additionalProperties": False}
        )
        validator = SchemaValidator(
            core_schema.dict_schema(core_schema.str_schema(), core_schema.str_schema())
        )
        return {
            "look": ToolsetTool(toolset=self, tool_def=definition, max_retries=1, args_validator=validator)
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> Any:
        context = signoff.current_context()
        await context.step("see", lambda: self._done.append("see"))
        if self._asks:
            await context.wait_for_user("Look?")
        return "seen"


@pytest.mark.parametrize("fails", [LookupError, ToolFailed])
@in_asyncio
async def test_an_error_of_workflow_code_stands_too(tmp_path: Path, fails: type[Exception]) -> None:
    async def look(at: str) -> str:
        await signoff.current_context().step("see", lambda: None)
        raise fails("it is dark")

    def app_with(tools: list[Tool[None]]) -> Signoff:
        app = Signoff(SqliteStore(tmp_path / "signoff.db"))
        agent = Agent(script.model, name="tidy", capabilities=[Durable()], tools=tools)

        @app.workflow
        async def work(ctx: Context) -> str:
            try:
                said = (await agent.run("look")).output
            except LookupError as error:
                said = f"{type(error).__name__} {error.args[0]}"
            await ctx.wait_for_user("Go on?")
            return said

        return app

    script = Script(calls(("look", {"at": "x"})), says("failed"))
    old = app_with([Tool(in_workflow(look))])
    async with AsyncClient(old) as client:
        async with old.worker():
            await client.start("work", id="r")
            question = await until(old, lambda: another(client, []))
        await client.answer(question.id, True)
    await old.store.close()
    new = app_with([])
    async with AsyncClient(new) as client, new.worker():
        expected = "LookupError it is dark" if fails is LookupError else "failed"
        assert await (await client.get("r")).result(60) == expected
    await new.store.close()


# Interrupted steps, other kinds of bodies, and what does not go


@in_asyncio
async def test_what_people_say_of_an_interrupted_step_waits_for_its_code(tmp_path: Path) -> None:
    """An operator says that the payment was made while the tool is gone: with the tool back, it counts."""
    script = Script(calls(REMOVE), says("done"))
    started, done = threading.Event(), []

    def paying(name: str, *, hangs: bool) -> Parts:
        async def body(path: str) -> str:
            return await signoff.current_context().step("pay", pay, effect="once", returns=str)

        async def pay() -> str:
            done.append("pay")
            started.set()
            if hangs:
                await asyncio.Event().wait()
            return "paid"

        return lambda _: {"tools": [Tool(in_workflow(body), name=name)]}

    old = Deploy(tmp_path, script, paying("remove", hangs=True))
    async with AsyncClient(old.app) as client, doomed_worker(old.app):
        await client.start(old.work, id="r")
        await comes(lambda: is_set(started))
    await old.app.store.close()
    gone = Deploy(tmp_path, script, paying("remove", hangs=False))
    async with AsyncClient(gone.app) as client, gone.app.worker():
        doubt = await gone.question(client)
        assert "pay" in asked(doubt)["text"]
    await gone.app.store.close()
    new = Deploy(tmp_path, script, KINDS["approval"].after("removed"))
    async with AsyncClient(new.app) as client, new.app.worker():
        await client.answer(doubt.id, {"action": "done", "result": "paid by hand"}, user_id="ana")
        question = await the_operators(new, client)
        assert "step 'pay' (interrupted" in asked(question)["help"]
        await client.answer(question.id, AS_BEFORE, user_id="olga")
        await the_operators(new, client, but=question.id)
    await new.app.store.close()
    back = Deploy(tmp_path, script, paying("remove", hangs=False))
    async with AsyncClient(back.app) as client, back.app.worker():
        await client.answer((await the_operators(back, client)).id, AS_BEFORE, user_id="olga")
        assert await (await client.get("r")).result(60) == [["remove", "paid by hand", "success"]]
    await back.app.store.close()
    assert done == ["pay"]


async def is_cancelled(client: AsyncClient, id: str) -> bool:
    return (await client.promises.get(id)).state is PromiseState.CANCELLED


async def is_set(event: threading.Event) -> bool:
    return event.is_set()


def within(parts: Parts, inner: Script, name: str = "remove") -> Parts:
    """A tool whose body runs an agent that has these parts."""

    def outer(done: list[str]) -> dict[str, Any]:
        sub = Agent(inner.model, name="sub", capabilities=[Durable(operators=["user:olga"])], **parts(done))

        async def body(path: str) -> str:
            return (await sub.run(f"remove {path}")).output

        return {"tools": [Tool(in_workflow(body), name=name)]}

    return outer


@pytest.mark.parametrize("choice", [f"{GO_ON}delete", "delete", NOTHING])
@in_asyncio
async def test_of_a_tool_of_an_agent_within_such_a_body_operators_are_asked_too(
    tmp_path: Path, choice: str
) -> None:
    inner = Script(calls(REMOVE), says("that is it"))
    script = Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, within(planning(), inner))
    new = Deploy(tmp_path, script, within(planning("delete"), inner))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await the_operators(new, client)
        assert "has called remove, which is not there any more" in asked(question)["text"]
        assert "step 'plan' (done)" in asked(question)["help"]
        (old,) = (each for each in await questions(client) if each.id != question.id)
        await client.answer(question.id, choice, user_id="olga")
        if choice == "delete":
            await until(new.app, lambda: another(client, [question, old]))
            await comes(lambda: is_cancelled(client, old.id))
        if choice != NOTHING:
            sure = await until(new.app, lambda: another(client, [question, *[old] * (choice == "delete")]))
            await client.answer(sure.id, True, user_id="ana")
        assert await (await client.get("r")).result(60) == [["remove", "that is it", "success"]]
        assert (await client.promises.get(old.id)).state is (
            PromiseState.RESOLVED if choice.startswith(GO_ON) else PromiseState.CANCELLED
        )
    await new.app.store.close()
    expected = {NOTHING: [], "delete": ["plan", "act on a by the plan"]}
    assert new.done == expected.get(choice, ["act on a by the plan"]), "nothing is done again"
    assert (len(script.asked), len(inner.asked)) == (2, 2)


@pytest.mark.parametrize("choice", [f"{GO_ON}erase", NOTHING])
@in_asyncio
async def test_a_body_that_runs_an_agent_may_change_itself_while_a_tool_of_that_waits(
    tmp_path: Path, choice: str
) -> None:
    inner = Script(calls(REMOVE), says("that is it"))
    script = Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, within(planning(), inner))
    new = Deploy(tmp_path, script, within(planning(), inner, "erase"))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await the_operators(new, client)
        assert "step 'plan' (done)" in asked(question)["help"], "what the inner agent's tool has done"
        (sure,) = (each for each in await questions(client) if each.id != question.id)
        await client.answer(question.id, choice, user_id="olga")
        if choice != NOTHING:
            await until(new.app, lambda: is_alone(client, sure))
            await client.answer(sure.id, True, user_id="ana")
        ((name, content, outcome),) = await (await client.get("r")).result(60)
        if choice == NOTHING:
            assert (name, outcome) == ("remove", "denied")
            assert "step 'plan' (done)" in content
            assert (await client.promises.get(sure.id)).state is PromiseState.CANCELLED
            assert (new.done, len(inner.asked)) == ([], 1)
        else:
            assert (name, content, outcome) == ("remove", "that is it", "success")
            assert (new.done, len(inner.asked)) == (["act on a by the plan"], 2)
        await new.checked()
    await new.app.store.close()


@pytest.mark.parametrize("change", ["removed", "narrowed"])
@pytest.mark.parametrize("way", ["within another's", "its own"])
@in_asyncio
async def test_runs_begun_when_bodies_had_no_branches_stop_and_go_on_under_the_old_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, change: str
) -> None:
    """Or when only those had some that were not within others."""
    missing = INNER if way == "within another's" else BRANCHES

    def parts_of(kind: Parts) -> Parts:
        return within(kind, inner) if missing == INNER else kind

    inner = Script(calls(REMOVE), says("removed it"))
    script = Script(calls(REMOVE), says("done"))
    with monkeypatch.context() as patch:
        patched = Context.patched
        patch.setattr(Context, "patched", lambda ctx, id: id != missing and patched(ctx, id))
        old = Deploy(tmp_path, script, parts_of(WAITS.after("none")))
        async with AsyncClient(old.app) as client:
            async with old.app.worker():
                await client.start(old.work, id="r")
                question = await old.question(client)
            await client.answer(question.id, True, user_id="ana")
        await old.app.store.close()
    new = Deploy(tmp_path, script, parts_of(WAITS.after(change)))
    async with AsyncClient(new.app) as client, new.app.worker():
        with pytest.raises(CannotRunHere, match="'remove'.*Deploy it again"):
            await (await client.get("r")).result(60)
        record = await client.backend.get_run("r")
        assert (record.state, record.retryable, new.done) == (RunState.FAILED, True, [])
    await new.app.store.close()
    mended = Deploy(tmp_path, script, parts_of(WAITS.after("none")))
    async with AsyncClient(mended.app) as client, mended.app.worker():
        await client.retry("r")
        said = "removed it" if missing == INNER else "removed a"
        assert await (await client.get("r")).result(60) == [["remove", said, "success"]]
        assert mended.done == ["remove a"]
    await mended.app.store.close()


@pytest.mark.parametrize("becomes", ["plain", "workflow code"])
@in_asyncio
async def test_a_body_that_becomes_workflow_code_or_is_it_no_more_has_changed(
    tmp_path: Path, becomes: str
) -> None:
    async def body(ctx: RunContext[None], act: Any) -> str:
        if becomes == "plain":
            await signoff.current_context().wait_for_user("Sure?")
        else:
            await pause("approval_required")
        return act()

    before = Kind(body, is_inline=becomes == "plain")
    after = Kind(acts, is_inline=becomes != "plain")
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, before)
    new = Deploy(tmp_path, script, after.after("none"))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await the_operators(new, client)
        assert new.done == []
        await client.answer(question.id, "remove", user_id="olga")
        assert await (await client.get("r")).result(60) == [["remove", "removed a", "success"]]
        assert new.done == ["remove a"]
        await new.checked()
    await new.app.store.close()


@in_asyncio
async def test_a_toolset_of_ones_own_that_waits_and_changes_is_asked_about(tmp_path: Path) -> None:
    script = Script(calls(("look", {"at": "x"})), says("done"))

    def with_one(takes: str) -> Parts:
        return lambda done: {"toolsets": [OwnToolset(done, takes, asks=True)]}

    old = Deploy(tmp_path, script, with_one("at"))
    async with AsyncClient(old.app) as client:
        async with old.app.worker():
            await client.start(old.work, id="r")
            question = await old.question(client)
        await client.answer(question.id, True, user_id="ana")
    await old.app.store.close()
    new = Deploy(tmp_path, script, with_one("where"))
    async with AsyncClient(new.app) as client, new.app.worker():
        await client.answer((await the_operators(new, client)).id, AS_BEFORE, user_id="olga")
        again = await the_operators(new, client)
    await new.app.store.close()
    back = Deploy(tmp_path, script, with_one("at"))
    async with AsyncClient(back.app) as client, back.app.worker():
        await client.answer(again.id, AS_BEFORE, user_id="olga")
        assert await (await client.get("r")).result(60) == [["look", "seen", "success"]]
        assert (old.done, new.done, back.done) == (["see"], [], [])
        await back.checked()
    await back.app.store.close()


# Replays by the same code


def remembering(way: str) -> Tool[list[str]]:
    """A tool whose body leaves more than what it returns and what its calls came to."""

    async def look(ctx: RunContext[list[str]], at: str) -> str:
        context = signoff.current_context()
        match way:
            case "receives":
                at = await context.wait_for_signal("seen", returns=str)
            case "calls often":
                for index in range(SIZE + 1):
                    await context.progress(f"{index}")
            case "leaves a task":
                asyncio.create_task(see_later(ctx.deps, at))  # noqa: RUF006 - its run keeps it
            case "leaves a function":
                await context.lfi(seen_later, ctx.deps, at)
        ctx.deps.append(f"looked at {at}")
        return "seen"

    async def see_later(seen: list[str], at: str) -> None:
        context = signoff.current_context()
        await context.wait_for_user("Seen?")
        seen.append(await context.step("see", lambda: f"saw {at}", returns=str))

    async def seen_later(_: Context, seen: Any, at: str) -> None:
        await see_later(seen, at)

    return Tool(in_workflow(look))


@pytest.mark.parametrize(
    "way", ["changes deps", "receives", "calls often", "leaves a task", "leaves a function"]
)
@in_asyncio
async def test_what_a_body_that_has_finished_leaves_behind_is_there_after_a_replay_by_the_same_code(
    tmp_path: Path, way: str
) -> None:
    def new() -> Signoff:
        app = Signoff(SqliteStore(tmp_path / "signoff.db"))
        agent = Agent(
            script.model, name="tidy", deps_type=list, capabilities=[Durable()], tools=[remembering(way)]
        )

        @app.workflow
        async def work(ctx: Context) -> list[Any]:
            seen: list[str] = []
            await agent.run("look", deps=seen)
            await ctx.wait_for_user("Go on?")
            if way.startswith("leaves"):
                await ctx.wait_for_signal("end")
            return [seen, await ctx.wait_for_signal("seen", returns=str)]

        return app

    script = Script(calls(("look", {"at": "x"})), says("looked"))
    first = new()
    async with AsyncClient(first) as client, first.worker():
        await client.start("work", id="r")
        await client.signal("r", "seen", "y")
        await until(first, lambda: are_asked(client, 2 if way.startswith("leaves") else 1))
        await pauses(first, "r")
    await first.store.close()
    second = new()
    async with AsyncClient(second) as client, second.worker():
        for question in await questions(client):
            await client.answer(question.id, True)
        if way.startswith("leaves"):
            await until(second, lambda: has_seen(second))
            await client.signal("r", "end")
        if way == "receives":
            await client.signal("r", "seen", "z")
        seen, last = await (await client.get("r")).result(60)
        assert last == ("z" if way == "receives" else "y")
        expected = [f"looked at {'y' if way == 'receives' else 'x'}"]
        assert seen == [*expected, *(["saw x"] if way.startswith("leaves") else [])]
    await second.store.close()


async def has_seen(app: Signoff) -> bool:
    done = await journaled(app, "r", EntryKind.COMPLETED)
    return any(entry.name == "see" for entry in done)


@pytest.mark.parametrize("is_there", [True, False])
@in_asyncio
async def test_the_history_says_what_has_gone_on_after_a_replay_too(tmp_path: Path, is_there: bool) -> None:
    def beside(name: str) -> Parts:
        def parts(done: list[str]) -> dict[str, Any]:
            tools = [] if name == "" else planning(name)(done)["tools"]
            return {"tools": [*tools, *KINDS["approval"].after("none")(done)["tools"]]}

        return parts

    script = Script(calls(("plan", {"path": "a"})), calls(REMOVE), says("done"))
    await begun(tmp_path, script, beside("plan"), answer=True)
    new = Deploy(tmp_path, script, beside("delete"))
    async with AsyncClient(new.app) as client:
        async with new.app.worker():
            await client.answer((await the_operators(new, client)).id, f"{GO_ON}delete", user_id="olga")
            approval = await until(new.app, lambda: is_about(client, "wants to call remove"))
        await client.answer(approval.id, True, user_id="ana")
    await new.app.store.close()
    last = Deploy(tmp_path, script, beside("delete" if is_there else ""))
    async with AsyncClient(last.app) as client, last.app.worker():
        await (await client.get("r")).result(60)
        assert any("delete ran instead" in told for told in last.told())
        await last.checked()
    await last.app.store.close()


async def is_about(client: AsyncClient, text: str) -> Promise | None:
    return next((each for each in await questions(client) if text in asked(each)["text"]), None)


@pytest.mark.parametrize("way", ["is given up", "is cancelled"])
@in_asyncio
async def test_what_a_body_has_begun_is_closed_if_its_call_is_given_up_while_the_operator_thinks(
    tmp_path: Path, way: str
) -> None:
    def app_with(tools: list[Tool[None]]) -> Signoff:
        app = Signoff(SqliteStore(tmp_path / "signoff.db"))
        capabilities = [Durable[None](operators=["user:olga"])]
        agent = Agent(script.model, name="tidy", capabilities=capabilities, tools=tools)

        @app.workflow
        async def asks(ctx: Context) -> None:
            await ctx.wait_for_user("Well?")

        @app.workflow
        async def work(ctx: Context) -> None:
            acting = asyncio.create_task(agent.run("remove a"))
            await ctx.wait_for_signal("enough")
            acting.cancel()
            await ctx.wait_for_signal("end")

        return app

    async def remove(path: str) -> str:
        context = signoff.current_context()
        well = await context.rfi("asks")
        answer = await context.wait_for_user("Sure?")
        return f"{await well} {answer.approved}"

    script = Script(calls(REMOVE), says("done"))
    old = app_with([Tool(in_workflow(remove))])
    async with AsyncClient(old) as client, old.worker():
        await client.start("work", id="r")
        await until(old, lambda: are_asked(client, 2))
    await old.store.close()
    new = app_with([])
    async with AsyncClient(new) as client, new.worker():
        await client.signal("r", "look")
        await until(new, lambda: are_asked(client, 3))
        if way == "is cancelled":
            await client.cancel("r")
        else:
            await client.signal("r", "enough")
        await until(new, lambda: are_asked(client, 0))
        if way == "is given up":
            assert (await client.backend.get_run("r")).state is not RunState.SUCCEEDED
            await client.signal("r", "end")
            await (await client.get("r")).result(60)
    await new.store.close()


@pytest.mark.parametrize("asks", [True, False])
@in_asyncio
async def test_a_run_that_a_toolset_of_ones_own_has_begun_before_its_bodies_were_known_as_such_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    def parts(done: list[str]) -> dict[str, Any]:
        waiting = KINDS["approval"].after("none")(done)["tools"]
        return {"toolsets": [OwnToolset(done, "at", asks=asks)], "tools": [] if asks else waiting}

    script = Script(calls(("look", {"at": "x"}), *([] if asks else [REMOVE])), says("done"))
    with monkeypatch.context() as patch:
        patched = Context.patched
        patch.setattr(Context, "patched", lambda ctx, id: id != BRANCHES and patched(ctx, id))
        for module in ("steps.in_workflow", "approvals.tool_changes"):
            patch.setattr(
                sys.modules[f"signoff.agents.{module}"], "is_of_a_toolset_of_its_own", lambda _: False
            )
        old = Deploy(tmp_path, script, parts)
        async with AsyncClient(old.app) as client:
            async with old.app.worker():
                await client.start(old.work, id="r")
                question = await old.question(client)
            await client.answer(question.id, True, user_id="ana")
        await old.app.store.close()
    new = Deploy(tmp_path, script, parts)
    async with AsyncClient(new.app) as client, new.app.worker():
        assert (await (await client.get("r")).result(60))[0] == ["look", "seen", "success"]
        assert (old.done, new.done) == (["see"], [] if asks else ["remove a"])
    await new.app.store.close()


@in_asyncio
async def test_what_a_body_has_received_nobody_else_gets_when_its_tool_is_gone(tmp_path: Path) -> None:
    async def look(at: str) -> str:
        return await signoff.current_context().wait_for_signal("seen", returns=str)

    def app_with(*tools: Tool[None]) -> Signoff:
        app = Signoff(SqliteStore(tmp_path / "signoff.db"))
        agent = Agent(script.model, name="tidy", capabilities=[Durable()], tools=tools)

        @app.workflow
        async def work(ctx: Context) -> str:
            await agent.run("look")
            return await ctx.wait_for_signal("seen", returns=str)

        return app

    script = Script(calls(("look", {"at": "x"})), says("looked"))
    old = app_with(Tool(in_workflow(look)))
    async with AsyncClient(old) as client, old.worker():
        await client.start("work", id="r")
        await client.signal("r", "seen", "first")
        await until(old, lambda: are_asked_of(script, 2))
        await pauses(old, "r")
    await old.store.close()
    new = app_with()
    async with AsyncClient(new) as client, new.worker():
        await client.signal("r", "seen", "second")
        assert await (await client.get("r")).result(60) == "second"
    await new.store.close()


@in_asyncio
async def test_of_long_answers_that_a_body_has_got_operators_are_shown_the_beginning(tmp_path: Path) -> None:
    """All of them together could be larger than what a run may keep at once."""

    def parts(name: str) -> Parts:
        async def body(path: str) -> str:
            context = signoff.current_context()
            for index in range(2):
                await context.wait_for_user(f"Which {index}?", input_type="text")
            await context.wait_for_user("Sure?")
            return "removed"

        return lambda _: {"tools": [Tool(in_workflow(body), name=name)]}

    script = Script(calls(REMOVE), says("done"))
    old = Deploy(tmp_path, script, parts("remove"))
    async with AsyncClient(old.app) as client, old.app.worker():
        await client.start(old.work, id="r")
        for index in range(2):
            question = await until(old.app, lambda index=index: is_about(client, f"Which {index}?"))
            await client.answer(question.id, "x" * 600_000, user_id="ana")
        await until(old.app, lambda: is_about(client, "Sure?"))
    await old.app.store.close()
    new = Deploy(tmp_path, script, parts("delete"))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await the_operators(new, client)
        assert asked(question)["help"].count("x" * (SHOWN - 1) + "...") == 2
        assert len(asked(question)["help"]) < 4 * SHOWN
    await new.app.store.close()
