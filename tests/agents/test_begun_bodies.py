"""A tool that has changed after its body began: the run stops, and continues once its code is deployed again."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic_ai import Agent, RunContext, Tool, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

import signoff
from signoff import AsyncClient, Context, Signoff
from signoff.agents import Durable, in_workflow, pause, tool_options
from signoff.errors import ToolCodeMissing
from signoff.records import EntryKind, Promise, RunState
from signoff.stores.sqlite.store import SqliteStore
from tests.agents.deploys import (
    BEGUN,
    CHANGES,
    KINDS,
    REMOVE,
    Deploy,
    Kind,
    Parts,
    acts,
    asked_before_a_deploy,
)
from tests.agents.scripts import Script, asked, calls, says
from tests.places import NewStore
from tests.support import comes, doomed_worker, in_asyncio, journaled, pauses, until


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


async def are_asked(client: AsyncClient, count: int) -> bool:
    return len(await questions(client)) == count


async def begun(place: Path | NewStore, script: Script, parts: Parts, **options: Any) -> None:
    """Have a tool plan and ask with the old code, and answer while no worker is up."""
    deploy = Deploy(place, script, parts, **options)
    async with AsyncClient(deploy.app) as client:
        async with deploy.app.worker():
            await client.start(deploy.work, id="r")
            question = await deploy.question(client)
        await client.answer(question.id, True, user_id="ana")
    await deploy.app.store.close()


async def stops(deploy: Deploy, tool: str) -> None:
    """Have the run stop for its code, with nothing done."""
    async with AsyncClient(deploy.app) as client, deploy.app.worker():
        with pytest.raises(ToolCodeMissing, match=f"has begun to run the tool {tool!r}.*deploy that again"):
            await (await client.get("r")).result(60)
        record = await client.backend.get_run("r")
        assert (record.state, record.retryable, deploy.done) == (RunState.FAILED, True, [])
    await deploy.app.store.close()


async def continues(deploy: Deploy) -> list[Any]:
    """Retry the run, and return what its tools returned."""
    async with AsyncClient(deploy.app) as client, deploy.app.worker():
        await client.retry("r")
        found = await (await client.get("r")).result(60)
        await deploy.checked()
    await deploy.app.store.close()
    return found


# The run stops, and continues


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", BEGUN)
@in_asyncio
async def test_a_body_that_has_begun_stops_its_run_until_its_code_is_back(
    tmp_path: Path, kind: str, change: str
) -> None:
    old, script = BEGUN[kind], Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    await stops(Deploy(tmp_path, script, old.after(change)), "remove")
    back = Deploy(tmp_path, script, old.after("none"))
    assert await continues(back) == [["remove", "removed a", "success"]]
    assert back.done == ["remove a"]
    assert len(script.asked) == 2, "no request is repeated"


@pytest.mark.parametrize("kind", BEGUN)
@in_asyncio
async def test_a_begun_body_waits_for_its_code_in_every_store(new_store: NewStore, kind: str) -> None:
    old, script = BEGUN[kind], Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(new_store, script, old)
    await stops(Deploy(new_store, script, old.after("renamed")), "remove")
    back = Deploy(new_store, script, old.after("none"))
    assert await continues(back) == [["remove", "removed a", "success"]]
    assert back.done == ["remove a"]


@in_asyncio
async def test_no_step_of_a_begun_body_is_lost_or_repeated(tmp_path: Path) -> None:
    script = Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, planning())
    await stops(Deploy(tmp_path, script, planning("delete")), "remove")
    await stops_again(Deploy(tmp_path, script, KINDS["approval"].after("removed")))
    back = Deploy(tmp_path, script, planning())
    assert await continues(back) == [["remove", "remove", "success"]]
    assert back.done == ["act on a by the plan"]


async def stops_again(deploy: Deploy) -> None:
    """Retry the run too early."""
    async with AsyncClient(deploy.app) as client:
        await client.retry("r")
    await stops(deploy, "remove")


@in_asyncio
async def test_a_begun_body_is_left_to_a_worker_that_has_its_code(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a rolling deploy: the run does not even stop."""
    script = Script(calls(REMOVE), says("done"))
    old = Deploy(tmp_path, script, planning())
    new = [Deploy(tmp_path, script, planning("delete")) for _ in range(2)]
    async with AsyncClient(old.app) as client:
        async with old.app.worker():
            await client.start(old.work, id="r")
            question = await old.question(client)
        async with new[0].app.worker(), new[1].app.worker():
            await comes(lambda: are_workers(old, 2))
            await client.answer(question.id, True, user_id="ana")
            await comes(lambda: is_left(caplog))
            async with old.app.worker():
                assert await (await client.get("r")).result(60) == [["remove", "remove", "success"]]
    assert [old.done, *(each.done for each in new)] == [["plan", "act on a by the plan"], [], []]
    for deploy in (old, *new):
        await deploy.app.store.close()


async def are_workers(deploy: Deploy, count: int) -> bool:
    return len(await deploy.app.store.list_workers()) == count


async def is_left(caplog: pytest.LogCaptureFixture) -> bool:
    return "to another worker: tidy has begun to run the tool 'remove'" in caplog.text


@pytest.mark.parametrize("becomes", ["plain", "workflow code"])
@in_asyncio
async def test_a_begun_body_that_is_no_longer_of_its_kind_has_changed(tmp_path: Path, becomes: str) -> None:
    old = BEGUN["workflow code" if becomes == "plain" else "pause"]
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    after = Kind(acts, is_inline=becomes == "workflow code")
    await stops(Deploy(tmp_path, script, after.after("none")), "remove")
    assert await continues(Deploy(tmp_path, script, old.after("none"))) == [
        ["remove", "removed a", "success"]
    ]


class OwnToolset(AbstractToolset[None]):
    """A toolset of a user's own, with a tool that reads something."""

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


@in_asyncio
async def test_a_begun_body_of_a_toolset_of_ones_own_needs_its_code(tmp_path: Path) -> None:
    script = Script(calls(("look", {"at": "x"})), says("done"))

    def with_one(takes: str) -> Parts:
        return lambda done: {"toolsets": [OwnToolset(done, takes, asks=True)]}

    await begun(tmp_path, script, with_one("at"))
    await stops(Deploy(tmp_path, script, with_one("where")), "look")
    back = Deploy(tmp_path, script, with_one("at"))
    assert await continues(back) == [["look", "seen", "success"]]
    assert back.done == []


@in_asyncio
async def test_a_finished_body_of_workflow_code_needs_its_code_too(tmp_path: Path) -> None:
    """A replay runs it, like all workflow code."""

    def beside(name: str) -> Parts:
        async def look(at: str) -> str:
            return await signoff.current_context().step("see", lambda: f"seen {at}", returns=str)

        def parts(done: list[str]) -> dict[str, Any]:
            made = KINDS["approval"].after("none")(done)
            return {"tools": [*made["tools"], Tool(in_workflow(look), name=name)]}

        return parts

    script = Script(calls(("look", {"at": "x"})), calls(REMOVE), says("done"))
    await begun(tmp_path, script, beside("look"))
    await stops(Deploy(tmp_path, script, beside("peek")), "look")
    found = await continues(Deploy(tmp_path, script, beside("look")))
    assert found == [["look", "seen x", "success"], ["remove", "removed a", "success"]]


# Agents within bodies


def within(parts: Parts, inner: Script, name: str = "remove") -> Parts:
    """A tool whose body runs an agent that has these parts."""

    def outer(done: list[str]) -> dict[str, Any]:
        sub = Agent(inner.model, name="sub", capabilities=[Durable(operators=["user:olga"])], **parts(done))

        async def body(path: str) -> str:
            return (await sub.run(f"remove {path}")).output

        return {"tools": [Tool(in_workflow(body), name=name)]}

    return outer


@in_asyncio
async def test_a_begun_body_of_an_inner_agents_tool_needs_its_code(tmp_path: Path) -> None:
    inner, script = Script(calls(REMOVE), says("that is it")), Script(calls(REMOVE), says("done"))
    await begun(tmp_path, script, within(planning(), inner))
    await stops(Deploy(tmp_path, script, within(planning("delete"), inner)), "remove")
    back = Deploy(tmp_path, script, within(planning(), inner))
    assert await continues(back) == [["remove", "that is it", "success"]]
    assert (back.done, len(script.asked), len(inner.asked)) == (["act on a by the plan"], 2, 2)


@in_asyncio
async def test_an_inner_agents_call_that_has_not_begun_asks_an_operator(tmp_path: Path) -> None:
    inner, script = Script(calls(REMOVE), says("that is it")), Script(calls(REMOVE), says("done"))
    old = KINDS["approval"]
    await begun(tmp_path, script, within(old.after("none"), inner))
    new = Deploy(tmp_path, script, within(old.after("renamed"), inner))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        assert "sub called remove, which no longer exists" in asked(question)["text"]
        await client.answer(question.id, "delete", user_id="olga")
        assert await (await client.get("r")).result(60) == [["remove", "that is it", "success"]]
    await new.app.store.close()
    assert new.done == ["delete a"]


# Interrupted steps


class Interrupted:
    """A tool that writes: it asks in its body, and is interrupted after the answer.

    Attributes:
        started: Set once it writes.
    """

    def __init__(self) -> None:
        self.started = asyncio.Event()

    def parts(self, name: str, effect: str = "external", *, asks: bool = True) -> Parts:
        async def body(path: str) -> str:
            if asks:
                await pause("approval_required", prompt="Sure?")
            self.started.set()
            return await asyncio.Event().wait() or "never"

        options: Any = tool_options(side_effects=cast("Any", effect))
        return lambda _: {"tools": [Tool(body, name=name, metadata=options)]}


@pytest.mark.parametrize("change", ["renamed", "reads now", "no longer asks"])
@in_asyncio
async def test_agents_operators_decide_an_interrupted_call_of_a_changed_tool(
    new_store: NewStore, change: str
) -> None:
    """No process had asked them before the deploy."""
    script, tool = Script(calls(REMOVE), says("done")), Interrupted()
    asks = change != "no longer asks"
    old = Deploy(new_store, script, tool.parts("remove", asks=asks))
    async with AsyncClient(old.app) as client, doomed_worker(old.app):
        await client.start(old.work, id="r")
        if asks:
            question = await old.question(client)
            await client.answer(question.id, True, user_id="ana")
        await tool.started.wait()
    await old.app.store.close()
    becomes = tool.parts("delete") if change == "renamed" else tool.parts("remove", "read")
    new = Deploy(new_store, script, becomes)
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        assert question.assignees == ("user:olga",)
        if change == "renamed":
            assert asked(question)["metadata"]["arguments"] == {"path": "a"}
    await new.app.store.close()


@in_asyncio
async def test_an_outcome_of_an_interrupted_step_waits_for_its_code(tmp_path: Path) -> None:
    """A person says that the payment was made while the tool is gone: with the tool back, it counts."""
    script = Script(calls(REMOVE), says("done"))
    started, done = threading.Event(), list[str]()

    def paying(*, hangs: bool) -> Parts:
        async def body(path: str) -> str:
            return await signoff.current_context().step("pay", pay, effect="once", returns=str)

        async def pay() -> str:
            done.append("pay")
            started.set()
            if hangs:
                await asyncio.Event().wait()
            return "paid"

        return lambda _: {"tools": [Tool(in_workflow(body), name="remove")]}

    async def has_started() -> bool:
        return started.is_set()

    old = Deploy(tmp_path, script, paying(hangs=True))
    async with AsyncClient(old.app) as client, doomed_worker(old.app):
        await client.start(old.work, id="r")
        await comes(has_started)
    await old.app.store.close()
    same = Deploy(tmp_path, script, paying(hangs=False))
    async with AsyncClient(same.app) as client:
        async with same.app.worker():
            outcome = await same.question(client)
        await client.answer(outcome.id, {"action": "done", "result": "paid by hand"}, user_id="ana")
    await same.app.store.close()
    await stops(Deploy(tmp_path, script, KINDS["approval"].after("removed")), "remove")
    back = Deploy(tmp_path, script, paying(hangs=False))
    assert await continues(back) == [["remove", "paid by hand", "success"]]
    assert done == ["pay"]


# Replays by the same code


@in_asyncio
async def test_workflow_code_goes_on_whatever_is_said_of_what_it_takes(tmp_path: Path) -> None:
    def parts(description: str) -> Parts:
        async def remove(path: str) -> str:
            await signoff.current_context().wait_for_user("Sure?")
            return "removed"

        def made(done: list[str]) -> dict[str, Any]:
            remove.__doc__ = f"""Remove.

            Args:
                path: {description}
            """
            return {"tools": [Tool(in_workflow(remove))]}

        return made

    old = Kind(acts)
    old.after = lambda change: parts("a file")  # type: ignore[method-assign]
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    new = Deploy(tmp_path, script, parts("what is to go"))
    async with AsyncClient(new.app) as client, new.app.worker():
        assert await (await client.get("r")).result(60) == [["remove", "removed", "success"]]
    await new.app.store.close()


def remembering(way: str) -> Tool[list[str]]:
    """A tool whose body leaves more than what it returns and what its calls came to."""

    async def look(ctx: RunContext[list[str]], at: str) -> str:
        context = signoff.current_context()
        match way:
            case "receives":
                at = await context.wait_for_signal("seen", returns=str)
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


@pytest.mark.parametrize("way", ["changes deps", "receives", "leaves a task", "leaves a function"])
@in_asyncio
async def test_the_results_of_a_finished_body_survive_a_replay_by_the_same_code(
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
