"""A tool that has changed since its call, which has not begun: an operator decides what to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator
from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.toolsets import FunctionToolset

from signoff import AsyncClient
from signoff.agents import ToolCall
from signoff.agents.approvals.operator_questions import AS_BEFORE, NOTHING
from signoff.records import Promise
from tests.agents.deploys import (
    CHANGES,
    KINDS,
    REMOVE,
    Deploy,
    Kind,
    Parts,
    acts,
    asked_before_a_deploy,
)
from tests.agents.scripts import Script, Turn, asked, calls, says
from tests.halves import sample
from tests.places import NewStore
from tests.support import comes, doomed_worker, in_asyncio, rebuilt, until

NOT_BEGUN = {name: kind for name, kind in KINDS.items() if kind.is_run}
GONE = "no longer exists"
OTHER = "takes other arguments now"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", sample(NOT_BEGUN, every=4))
@in_asyncio
async def test_a_call_that_has_not_begun_asks_an_operator_what_to_run(
    tmp_path: Path, kind: str, change: str
) -> None:
    old = KINDS[kind]
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    new = Deploy(tmp_path, script, old.after(change), **old.options)
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        shown = asked(question)
        assert (GONE if change in ("renamed", "removed") else OTHER) in shown["text"]
        fitting = {"renamed": ["delete"], "widened": ["remove"]}.get(change, [])
        assert [each["value"] for each in shown["options"]] == [*fitting, AS_BEFORE, NOTHING]
        assert change != "widened" or "force=true" in shown["options"][0]["label"]
        assert (shown["metadata"]["tool"], shown["metadata"]["arguments"]) == REMOVE
        assert shown["metadata"]["approved_by"] == "ana"
        assert question.assignees == ("user:olga",)
        assert new.done == [], "nothing runs before a person has seen the arguments"
        assert len(script.asked) == 1, "nothing goes to the model"
        await client.answer(question.id, (fitting or [NOTHING])[0], user_id="olga")
        ((name, content, outcome),) = await (await client.get("r")).result(60)
        assert name == "remove"
        ran = f"{(fitting or [''])[0]} a{' True' if change == 'widened' else ''}"
        assert new.done == ([ran] if fitting else [])
        returned = await new.checked()
        if not fitting:
            assert (outcome, new.told()) == ("denied", [])
            assert "was not run" in content
            return
        assert (outcome, content) == ("success", ran.replace("e a", "ed a"))
        assert returned.metadata["signoff"] == {
            "arguments": {"path": "a"},
            "tool": fitting[0],
            "chosen_by": "olga",
        }
        assert fitting[0] in new.told()[0]
    await new.app.store.close()
    assert len(script.asked) == 2


@pytest.mark.parametrize("choice", sample(["delete", AS_BEFORE, NOTHING]))
@in_asyncio
async def test_an_operator_decides_about_a_changed_call_in_every_store(
    new_store: NewStore, choice: str
) -> None:
    old, script = KINDS["approval"], Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(new_store, script, old)
    new = Deploy(new_store, script, old.after("renamed"))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        await client.answer(question.id, choice, user_id="olga")
        if choice == AS_BEFORE:
            question = await until(new.app, lambda: asked_after(client, question.id))
        else:
            await (await client.get("r")).result(60)
    await new.app.store.close()
    assert new.done == (["delete a"] if choice == "delete" else [])
    if choice == AS_BEFORE:
        back = Deploy(new_store, script, old.after("none"))
        async with AsyncClient(back.app) as client, back.app.worker():
            await client.answer(question.id, AS_BEFORE, user_id="olga")
            await (await client.get("r")).result(60)
        await back.app.store.close()
        assert back.done == ["remove a"]


@pytest.mark.parametrize("choice", sample(["delete", AS_BEFORE, NOTHING]))
@pytest.mark.parametrize("kind", sample([*NOT_BEGUN, "workflow code"]))
@in_asyncio
async def test_either_code_replays_any_length_of_an_operators_journal(
    tmp_path: Path, kind: str, choice: str
) -> None:
    """So a process may crash, or be deployed and rolled back, at any time."""
    old = KINDS.get(kind) or Kind(acts, is_inline=True, tool={"requires_approval": True})
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    new = Deploy(tmp_path, script, old.after("renamed"), **old.options)
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        await client.answer(question.id, choice, user_id="olga")
        if choice == AS_BEFORE:
            again = await until(new.app, lambda: asked_after(client, question.id))
            await client.answer(again.id, "delete", user_id="olga")
        await (await client.get("r")).result(60)
        assert new.done == ([] if choice == NOTHING else ["delete a"])
        record, entries = await client.backend.get_run("r"), await new.app.store.read_journal("r")
        deploys = [new]
        if kind != "workflow code" or choice == NOTHING:
            gone = Deploy(tmp_path, script, old.after("removed"), **old.options)
            deploys += [gone, Deploy(tmp_path, script, old.after("none"), **old.options)]
        for deploy in deploys:
            for length in range(1, len(entries)):
                async with rebuilt(deploy.app, record, entries[:length]) as execution:
                    assert execution.failure is None, f"at {length}: {entries[length]}: {execution.failure}"
            assert said_in(deploy.messages) == said_in(new.messages)
    await new.app.store.close()


def said_in(messages: list[ModelMessage]) -> list[tuple[Any, ...]]:
    parts = [part for message in messages for part in message.parts]
    return [
        (part.part_kind, getattr(part, "content", None), getattr(part, "metadata", None)) for part in parts
    ]


@pytest.mark.parametrize("is_inline", [False, True], ids=["plain", "workflow code"])
@in_asyncio
async def test_workflow_code_that_waits_for_its_approval_has_not_begun(
    tmp_path: Path, is_inline: bool
) -> None:
    """A tool that was plain, or is now, has changed."""
    old = Kind(acts, is_inline=not is_inline, tool={"requires_approval": True})
    new_kind = Kind(acts, is_inline=is_inline, tool={"requires_approval": True})
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    new = Deploy(tmp_path, script, new_kind.after("none"))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        assert (OTHER in asked(question)["text"], new.done) == (True, [])
        await client.answer(question.id, "remove", user_id="olga")
        assert await (await client.get("r")).result(60) == [["remove", "removed a", "success"]]
    await new.app.store.close()
    assert new.done == ["remove a"]


@in_asyncio
async def test_a_call_whose_worker_died_before_it_was_journaled_has_not_begun(tmp_path: Path) -> None:
    """The tool may be repeated, so that what it has done counts no more than an attempt."""
    script = Script(calls(REMOVE), says("done"))
    begun: list[str] = []

    async def hangs(ctx: RunContext[None], act: Callable[[], str]) -> str:
        begun.append("begun")
        return await asyncio.Event().wait()

    old = Deploy(tmp_path, script, Kind(hangs).after("none"))
    async with AsyncClient(old.app) as client, doomed_worker(old.app):
        await client.start(old.work, id="r")
        await comes(lambda: is_true(begun))
    await old.app.store.close()
    new = Deploy(tmp_path, script, Kind(acts).after("renamed"))
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        assert "approved_by" not in asked(question)["metadata"]
        await client.answer(question.id, "delete", user_id="olga")
        assert await (await client.get("r")).result(60) == [["remove", "deleted a", "success"]]
    await new.app.store.close()
    assert new.done == ["delete a"]


async def is_true(found: object) -> bool:
    return bool(found)


@pytest.mark.parametrize("kind", sample(KINDS, every=4))
@in_asyncio
async def test_an_answer_after_a_harmless_deploy_asks_no_operator(tmp_path: Path, kind: str) -> None:
    old = KINDS[kind]
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    new = Deploy(tmp_path, script, old.after("none"), **old.options)
    async with AsyncClient(new.app) as client, new.app.worker():
        content = "removed a" if old.is_run else "x"
        assert await (await client.get("r")).result(60) == [["remove", content, "success"]]
    await new.app.store.close()


@pytest.mark.parametrize("change", ["removed", "widened"])
@pytest.mark.parametrize("kind", sample((name for name, kind in KINDS.items() if kind.is_run), every=4))
@in_asyncio
async def test_a_tool_runs_as_before_once_its_code_is_back_and_chosen(
    tmp_path: Path, kind: str, change: str
) -> None:
    old = KINDS[kind]
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    new = Deploy(tmp_path, script, old.after(change), **old.options)
    async with AsyncClient(new.app) as client, new.app.worker():
        first = await new.question(client)
        await client.answer(first.id, AS_BEFORE, user_id="olga")
        second = await until(new.app, lambda: asked_after(client, first.id))  # it is not there yet
    await new.app.store.close()
    assert new.done == []
    back = Deploy(tmp_path, script, old.after("none"), **old.options)
    async with AsyncClient(back.app) as client, back.app.worker():
        await client.answer(second.id, AS_BEFORE, user_id="olga")
        assert await (await client.get("r")).result(60) == [["remove", "removed a", "success"]]
        assert (await back.checked()).metadata is None, "nothing ran instead"
    await back.app.store.close()
    assert back.done == ["remove a"]
    assert len(script.asked) == 2


async def asked_after(client: AsyncClient, id: str) -> Promise | None:
    return next((each for each in (await client.questions()).items if each.id != id), None)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if not kind.is_run])
@in_asyncio
async def test_a_result_from_outside_stands_whatever_became_of_its_tool(
    tmp_path: Path, kind: str, change: str
) -> None:
    old = KINDS[kind]
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    new = Deploy(tmp_path, script, old.after(change), **old.options)
    async with AsyncClient(new.app) as client, new.app.worker():
        assert await (await client.get("r")).result(60) == [["remove", "x", "success"]]
        await new.checked()
    await new.app.store.close()


@pytest.mark.parametrize("change", ["renamed", "removed", "widened"])
@pytest.mark.parametrize("kind", sample(NOT_BEGUN, every=4))
@in_asyncio
async def test_an_operator_is_asked_about_the_calls_of_a_given_history_too(
    tmp_path: Path, kind: str, change: str
) -> None:
    old, script = KINDS[kind], Script(says("done"))
    given = [ModelRequest([UserPromptPart("tidy up")]), calls((*REMOVE, "call"))]
    await asked_before_a_deploy(tmp_path, script, old, given=given)
    new = Deploy(tmp_path, script, old.after(change), given=given, **old.options)
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        assert (OTHER if change == "widened" else GONE) in asked(question)["text"]
        assert new.done == []
        fitting = {"renamed": "delete", "widened": "remove"}.get(change)
        await client.answer(question.id, fitting or NOTHING, user_id="olga")
        await (await client.get("r")).result(60)
        ran = f"{fitting} a{' True' if change == 'widened' else ''}"
        assert new.done == ([ran] if fitting else [])
        await new.checked()
    await new.app.store.close()


@pytest.mark.parametrize("barrier", [False, True])
@in_asyncio
async def test_what_was_shown_stays_what_was_shown_when_the_tool_is_gone(
    tmp_path: Path, barrier: bool
) -> None:
    def parts(name: str) -> Parts:
        def remove(
            path: str, days: Annotated[int, AfterValidator(lambda weeks: weeks * 7)], force: bool = False
        ) -> str:
            raise AssertionError

        return lambda done: {"tools": [Tool(remove, name=name, requires_approval=True)]}

    script = Script(calls(("remove", {"path": "a", "days": 2})), says("done"))
    kind = Kind(acts, options={"barrier": barrier})
    kind.after = lambda change: parts("remove")  # pyright: ignore[reportAttributeAccessIssue]
    await asked_before_a_deploy(tmp_path, script, kind)
    new = Deploy(tmp_path, script, parts("erase"), barrier=barrier)
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        assert asked(question)["metadata"]["arguments"] == {"path": "a", "days": 2}
        await client.answer(question.id, NOTHING, user_id="olga")
        ((_, _, outcome),) = await (await client.get("r")).result(60)
        assert outcome == "denied"
    await new.app.store.close()


# Tools that have finished


def plain_tool(name: str, done: list[str], *, takes_more: bool) -> Tool[None]:
    async def look(at: str) -> str:
        done.append(f"{name} {at}")
        if at == "nothing":
            raise ModelRetry("look at something")
        return f"seen {at}"

    async def look_well(at: str, well: bool = True) -> str:
        return await look(at)

    return Tool(look_well if takes_more else look, name=name, max_retries=3)


async def checks(ctx: RunContext[None], at: str, well: bool = True) -> None:
    if at == "there":
        raise ModelRetry("where?")


def as_the_tool_says(call: ToolCall) -> None:
    """A policy: each call has a step of it before its own."""


def also(finished: Callable[[list[str]], dict[str, Any]]) -> Parts:
    """The parts that a finished call needs, beside a tool that waits for an approval."""

    def parts(done: list[str]) -> dict[str, Any]:
        waiting = KINDS["approval"].after("none")(done)["tools"]
        made = finished(done)
        return {**made, "tools": [*made.get("tools", ()), *waiting]}

    return parts


def looking(name: str, *, takes_more: bool = False, **more: Any) -> Parts:
    def parts(done: list[str]) -> dict[str, Any]:
        tool = plain_tool(name, done, takes_more=takes_more)
        for option, value in more.items():
            setattr(tool, option, value)
        return {"tools": [tool]}

    return parts


def prefixed(name: str) -> Parts:
    def parts(done: list[str]) -> dict[str, Any]:
        tools = FunctionToolset([plain_tool(name, done, takes_more=False)], id="eyes")
        return {"toolsets": [tools.prefixed("my")]}

    return parts


LOOK = calls(("look", {"at": "x"}))
FINISHED: dict[str, tuple[Parts, list[Turn]]] = {
    "in one response": (looking("look"), [calls(("look", {"at": "x"}), REMOVE)]),
    "in two responses": (looking("look"), [LOOK, calls(REMOVE)]),
    "with wrong arguments": (looking("look"), [calls(("look", {"to": "x"})), LOOK, calls(REMOVE)]),
    "with arguments that fit by now": (
        looking("look"),
        [calls(("look", {"at": "x", "well": True})), LOOK, calls(REMOVE)],
    ),
    "again and again": (looking("look"), [*[calls(("look", {"at": "nothing"}))] * 3, LOOK, calls(REMOVE)]),
    "checked": (
        looking("look", args_validator=checks),
        [calls(("look", {"at": "there"})), LOOK, calls(REMOVE)],
    ),
    "alone": (
        looking("look", sequential=True),
        [calls(("look", {"at": "x"}), ("look", {"at": "y"}), REMOVE)],
    ),
    "prefixed": (prefixed("look"), [calls(("my_look", {"at": "x"})), calls(REMOVE)]),
}


@pytest.mark.parametrize("after", ["renamed", "widened"])
@pytest.mark.parametrize("way", sample(FINISHED, every=4))
@in_asyncio
async def test_what_a_finished_tool_has_returned_stands_whatever_became_of_it(
    tmp_path: Path, way: str, after: str
) -> None:
    before, turns = FINISHED[way]
    script = Script(*turns, says("done"))
    options = {"approvals": as_the_tool_says} if way == "alone" else {}
    old = Deploy(tmp_path, script, also(before), **options)
    async with AsyncClient(old.app) as client:
        async with old.app.worker():
            await client.start(old.work, id="r")
            question = await old.question(client)
        await client.answer(question.id, True, user_id="ana")
    await old.app.store.close()
    changed = looking("peek") if after == "renamed" else looking("look", takes_more=True)
    new = Deploy(tmp_path, script, also(changed), **options)
    async with AsyncClient(new.app) as client, new.app.worker():
        found = await (await client.get("r")).result(60)
        assert found[-1] == ["remove", "removed a", "success"]
        assert next(content for _, content, outcome in found if outcome == "success") == "seen x"
        await new.checked()
    await new.app.store.close()
    assert new.done == ["remove a"], "nothing is done again"
    assert len(script.asked) == len(turns) + 1


# What an operator has chosen


async def deployed(folder: Path, script: Script, parts: Parts, answer: Any, by: str) -> None:
    """Answer the next question, after the code has changed."""
    deploy = Deploy(folder, script, parts)
    async with AsyncClient(deploy.app) as client:
        async with deploy.app.worker():
            question = await deploy.question(client)
        await client.answer(question.id, answer, user_id=by)
    await deploy.app.store.close()
    assert deploy.done == []


@in_asyncio
async def test_a_chosen_tool_that_changes_before_the_choice_is_asked_about_again(
    tmp_path: Path,
) -> None:
    old = KINDS["approval"]
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    await deployed(tmp_path, script, old.after("widened"), "remove", "olga")

    async def remove(path: str, depth: int = 9) -> str:
        new.done.append(f"remove {path} {depth}")
        return "removed"

    new = Deploy(tmp_path, script, lambda done: {"tools": [Tool(remove)]})
    async with AsyncClient(new.app) as client, new.app.worker():
        question = await new.question(client)
        assert "depth=9" in asked(question)["options"][0]["label"]
        assert new.done == []
        await client.answer(question.id, "remove", user_id="olga")
        await (await client.get("r")).result(60)
        assert new.done == ["remove a 9"]
        await new.checked()
    await new.app.store.close()


@in_asyncio
async def test_a_chosen_tool_that_has_returned_stands_whatever_became_of_it(tmp_path: Path) -> None:
    old, script = KINDS["barrier"], Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    waits_again = KINDS["pause for the model"]
    await deployed(tmp_path, script, waits_again.after("renamed"), "delete", "olga")
    await deployed(tmp_path, script, waits_again.after("renamed"), "kept", "ana")
    new = Deploy(tmp_path, script, waits_again.after("none"))
    async with AsyncClient(new.app) as client, new.app.worker():
        assert await (await client.get("r")).result(60) == [["remove", "kept", "success"]]
        returned = await new.checked()
        assert returned.metadata["signoff"]["tool"] == "delete"
    await new.app.store.close()


@in_asyncio
async def test_the_history_says_what_was_edited_and_what_was_chosen(tmp_path: Path) -> None:
    old = replace(KINDS["approval"], answer={"approved": True, "edited": {"path": "b"}})
    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, old)
    new = Deploy(tmp_path, script, old.after("renamed"))
    async with AsyncClient(new.app) as client, new.app.worker():
        await client.answer((await new.question(client)).id, "delete", user_id="olga")
        assert await (await client.get("r")).result(60) == [["remove", "deleted b", "success"]]
        returned = await new.checked()
        assert returned.metadata["signoff"] == {
            "arguments": {"path": "b"},
            "edited_by": "ana",
            "tool": "delete",
            "chosen_by": "olga",
        }
    await new.app.store.close()


@in_asyncio
async def test_a_chosen_tools_retry_prompt_is_returned_to_the_original_call(tmp_path: Path) -> None:
    async def delete(path: str) -> str:
        raise ModelRetry("another one")

    script = Script(calls(REMOVE), says("done"))
    await asked_before_a_deploy(tmp_path, script, KINDS["approval"])
    new = Deploy(tmp_path, script, lambda done: {"tools": [Tool(delete)]})
    async with AsyncClient(new.app) as client, new.app.worker():
        await client.answer((await new.question(client)).id, "delete", user_id="olga")
        ((name, content, outcome),) = await (await client.get("r")).result(60)
        assert (name, outcome) == ("remove", "retried")
        assert "another one" in str(content)
        await new.checked()
    await new.app.store.close()
