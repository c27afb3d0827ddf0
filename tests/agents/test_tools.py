"""Tools that wait for people in the middle of their body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic_ai import Agent, FunctionToolset, ModelRetry, RunContext, Tool, ToolDefinition

import signoff
from signoff import Context, Signoff, WrongAnswer
from signoff.agents import Durable, ask_user, ask_user_tool, in_workflow, pause, tool_options
from signoff.errors import OutsideWorkflow, RegistrationError
from signoff.testing import MemoryStore, after_step, at_pause, environment
from signoff.testing.environment import Environment
from tests.agents.scripts import Script, asked, calls, returns, says
from tests.support import in_asyncio

Register = Callable[[Agent[Any, str]], None]


class Scene:
    """An app with an agent whose model calls tools once, and what came of it."""

    def __init__(self, wanted: Any, **options: Any) -> None:
        self.app = Signoff(MemoryStore())
        self.script = Script(*(wanted if isinstance(wanted, list) else [wanted]), says("done"))
        self.done: list[Any] = []
        self.agent = Agent(self.script.model, name="a", deps_type=Any, capabilities=[Durable()], **options)

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            return returns((await self.agent.run("go", deps={"tenant": "t1"})).all_messages())

        self.work = work

    async def questions(self, env: Environment) -> list[Any]:
        await env.idle()
        return list((await env.client.questions()).items)


# @in_workflow


def deploying(scene: Scene) -> Any:
    async def deploy(service: str) -> str:
        """Deploy a service."""
        ctx = signoff.current_context()
        plan = await ctx.step("plan", lambda: scene.done.append("plan") or f"plan of {service}")
        answer = await ctx.wait_for_user(f"Deploy {service}?", metadata={"plan": plan})
        if not answer.approved:
            raise ModelRetry("not now")
        await ctx.sleep(60)
        return await ctx.step("act", lambda: scene.done.append("act") or "deployed")

    return in_workflow(deploy)


REGISTRATIONS: list[Callable[[Scene, Any], None]] = [
    lambda scene, tool: scene.agent.tool_plain(tool),
    lambda scene, tool: scene.agent.tool_plain(metadata=tool_options(side_effects="write"))(tool),
]


@pytest.mark.parametrize("register", REGISTRATIONS)
@in_asyncio
async def test_a_workflow_tool_continues_with_the_answer_after_a_crash(
    register: Any,
) -> None:
    scene = Scene(calls(("deploy", {"service": "web"})))
    register(scene, deploying(scene))
    async with environment(scene.app, hot_runs=0) as env:
        env.crash(at=at_pause())
        env.people.answer("Deploy web?", approved=True)
        assert await env.run(scene.work) == [["deploy", "deployed", "success"]]
        assert scene.done == ["plan", "act"]
        assert len(scene.script.asked) == 2


@pytest.mark.parametrize(
    "make",
    [lambda tool: {"tools": [tool]}, lambda tool: {"toolsets": [FunctionToolset([Tool(tool)], id="x")]}],
)
@in_asyncio
async def test_workflow_tools_of_any_toolset_may_ask_the_model_to_retry(make: Any) -> None:
    scenes: list[Scene] = []

    async def deploy(ctx: RunContext[Any], service: str) -> str:
        assert ctx.deps == {"tenant": "t1"}
        return await deploying(scenes[0])(service)

    scene = Scene(calls(("deploy", {"service": "web"})), **make(in_workflow(deploy)))
    scenes.append(scene)
    async with environment(scene.app) as env:
        env.people.answer("Deploy web?", approved=False)
        ((_, content, _),) = await env.run(scene.work)
        assert "not now" in str(content)


class Ship:
    async def deploy(self) -> str:
        return str((await signoff.current_context().wait_for_user("Sure?")).approved)


async def renamed(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
    return replace(definition, name="ship")


deploy = in_workflow(Ship().deploy)
NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "method": ("deploy", {"tools": [Tool(deploy)]}),
    "named": ("ship", {"tools": [Tool(deploy, name="ship")]}),
    "prepared": ("ship", {"tools": [Tool(deploy, prepare=renamed)]}),
    "prefixed": ("p_deploy", {"toolsets": [FunctionToolset([Tool(deploy)], id="x").prefixed("p")]}),
    "renamed": ("ship", {"toolsets": [FunctionToolset([Tool(deploy)], id="x").renamed({"ship": "deploy"})]}),
}


@pytest.mark.parametrize("way", NAMED)
@in_asyncio
async def test_a_tool_in_the_workflow_is_known_by_whatever_name(way: str) -> None:
    name, options = NAMED[way]
    scene = Scene(calls((name, {})), **options)
    async with environment(scene.app) as env:
        env.people.answer("Sure?", approved=True)
        assert await env.run(scene.work) == [[name, "True", "success"]]


@in_asyncio
async def test_a_tool_in_the_workflow_may_require_approval_too() -> None:
    scene = Scene(calls(("deploy", {"service": "web"})))
    scene.agent.tool_plain(requires_approval=True)(deploying(scene))
    async with environment(scene.app, hot_runs=0) as env:
        run = await env.start(scene.work)
        (first,) = await scene.questions(env)
        assert scene.done == []
        await env.client.answer(first.id, True)
        (second,) = await scene.questions(env)
        await env.client.answer(second.id, True)
        assert await run.result() == [["deploy", "deployed", "success"]]
        assert scene.done == ["plan", "act"]


@in_asyncio
async def test_several_tools_in_the_workflow_wait_beside_each_other() -> None:
    scene = Scene(calls(("deploy", {"service": "web"}), ("deploy", {"service": "db"})))
    scene.agent.tool_plain(deploying(scene))
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        # which of them has planned first, and so asks first, is for their threads to say
        questions = {asked(each)["text"]: each.id for each in await scene.questions(env)}
        assert questions.keys() == {"Deploy web?", "Deploy db?"}
        await env.client.answer(questions["Deploy db?"], True)
        await env.client.answer(questions["Deploy web?"], False)
        assert [content for _, content, _ in await run.result()][1] == "deployed"


def test_a_plain_function_is_no_workflow_code() -> None:
    with pytest.raises(RegistrationError, match="'plain' must be an async function"):

        @in_workflow
        def plain() -> None:  # pyright: ignore[reportUnusedFunction]
            pass


# pause


@in_asyncio
async def test_a_tool_that_pauses_is_called_again_and_gets_the_answer() -> None:
    scene = Scene(calls(("transfer", {"cents": 900})))

    @scene.agent.tool_plain(metadata=tool_options(side_effects="external"))
    async def transfer(cents: int) -> str:
        answer = await pause("approval_required", {"limit": 500}, prompt="Transfer?", assignees=["user:ana"])
        scene.done.append(cents)
        return f"approved by {answer.user_id}" if answer.approved else f"refused: {answer.note}"

    async with environment(scene.app, hot_runs=0) as env:
        run = await env.start(scene.work)
        (question,) = await scene.questions(env)
        shown = asked(question)
        assert (shown["text"], shown["metadata"]["payload"]["limit"], shown["metadata"]["arguments"]) == (
            "Transfer?",
            500,
            {"cents": 900},
        )
        assert scene.done == []
        await env.client.answer(question.id, True, user_id="ana")
        assert await run.result() == [["transfer", "approved by ana", "success"]]
        assert scene.done == [900]


@in_asyncio
async def test_each_pause_gets_its_own_answer_also_in_plain_functions() -> None:
    scene = Scene(calls(("book", {})))

    @scene.agent.tool_plain
    def book() -> str:
        day = pause("await_input", prompt="Which day?").value.value
        room = pause("constraints_conflict", {"options": ["blue", "red"]}, prompt="Which room?").value.value
        return f"{day}, {room}"

    async with environment(scene.app) as env:
        env.people.answer("Which day?", "Monday")
        env.people.answer("Which room?", "red")
        assert await env.run(scene.work) == [["book", "Monday, red", "success"]]


@in_asyncio
async def test_the_model_reads_the_answer_or_the_denial_if_it_is_for_the_model() -> None:
    scene = Scene(calls(("one", {}), ("two", {}), ("three", {})))

    @scene.agent.tool_plain
    async def one() -> None:
        await pause("approval_required", prompt="One?", then="model")

    @scene.agent.tool_plain
    async def two() -> None:
        await pause("approval_required", prompt="Two?", then="model")

    @scene.agent.tool_plain
    async def three() -> None:
        await pause("external_event", prompt="Three?", then="model", timeout=60)

    async with environment(scene.app) as env:
        env.people.answer("One?", approved=True)
        env.people.answer("Two?", approved=False, note="not today")
        assert await env.run(scene.work) == [
            ["one", True, "success"],
            ["two", "not today", "denied"],
            ["three", "There was no answer in time.", "denied"],
        ]


async def in_a_group() -> str:
    async def part() -> str:
        return (await pause("await_input", prompt="Q?")).value

    async with asyncio.TaskGroup() as group:
        asking = group.create_task(part())
    return asking.result()


async def with_broken_cleaning_up() -> str:
    try:
        return (await pause("await_input", prompt="Q?")).value
    except BaseException:
        raise RuntimeError("cleaning up failed") from None


@pytest.mark.parametrize("tool", [in_a_group, with_broken_cleaning_up])
@in_asyncio
async def test_a_pause_leaves_the_tool_through_other_exceptions_that_it_causes(tool: Any) -> None:
    scene = Scene(calls(("t", {})), tools=[Tool(tool, name="t")])
    async with environment(scene.app) as env:
        env.people.answer("Q?", "x")
        assert await env.run(scene.work) == [["t", "x", "success"]]


@in_asyncio
async def test_an_answer_is_given_to_the_pause_it_answers_and_to_no_other() -> None:
    scene = Scene(calls(("t", {})))
    passes: list[int] = []

    @scene.agent.tool_plain
    async def t() -> str:
        passes.append(1)
        if len(passes) == 1:
            return str((await pause("await_input", prompt="Name?")).value)
        return str((await pause("approval_required", prompt="Delete all?")).approved)

    async with environment(scene.app) as env:
        env.people.answer("Name?", "yes")
        env.people.answer("Delete all?", approved=False)
        assert await env.run(scene.work) == [["t", "False", "success"]]
        assert [each.question for each in env.people.answers] == ["Name?", "Delete all?"]


@in_asyncio
async def test_a_payload_may_say_anything_and_hides_nothing() -> None:
    scene = Scene(calls(("t", {"n": 1})))
    payload = {
        "tool": "hammer",
        "agent": "007",
        "arguments": [],
        "tool_call_id": "forged",
        "conversation": [],
    }

    @scene.agent.tool_plain
    async def t(n: int) -> None:
        await pause("constraints_conflict", payload)

    async with environment(scene.app) as env:
        await env.start(scene.work)
        (question,) = await scene.questions(env)
        shown = asked(question)["metadata"]
        assert shown["payload"] == payload
        assert (shown["tool"], shown["agent"], shown["arguments"]) == ("t", "a", {"n": 1})
        assert shown["reason"] == "constraints_conflict"
        assert shown["conversation"]


@in_asyncio
async def test_the_model_reads_an_answer_that_is_no_object_as_it_is() -> None:
    scene = Scene(calls(("t", {})))

    @scene.agent.tool_plain
    async def t() -> None:
        await pause("await_input", prompt="Q?", then="model", answer_type=list[int])

    async with environment(scene.app) as env:
        env.people.answer("Q?", {"value": [1, 2]})
        assert await env.run(scene.work) == [["t", [1, 2], "success"]]


class Seat(BaseModel):
    row: int


class Booked(BaseModel):
    model_config = ConfigDict(strict=True)

    at: date


class Keys(TypedDict):
    row: int


@pytest.mark.parametrize(
    ("declared", "wrong", "answer", "seen"),
    [
        (Seat, {"row": "x"}, {"row": 7}, "Seat(row=7)"),
        (list[int], {"value": ["x"]}, {"value": [1, 2]}, "[1, 2]"),
        (date, {"value": "soon"}, {"value": "2026-10-25"}, "datetime.date(2026, 10, 25)"),
        (Booked, {"at": "soon"}, {"at": "2026-10-25"}, "Booked(at=datetime.date(2026, 10, 25))"),
        (Keys, {"row": "x"}, {"row": 7}, "{'row': 7}"),
    ],
)
@in_asyncio
async def test_an_answer_of_a_type_is_checked_before_anything_is_consumed(
    declared: Any, wrong: Any, answer: Any, seen: str
) -> None:
    scene = Scene(calls(("seat", {})))

    @scene.agent.tool_plain
    async def seat() -> str:
        return repr((await pause("await_input", prompt="Where?", answer_type=declared)).value)

    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        (question,) = await scene.questions(env)
        with pytest.raises(WrongAnswer):
            await env.client.answer(question.id, wrong)
        await env.client.answer(question.id, answer)
        assert (await run.result())[0][1] == seen


@in_asyncio
async def test_parallel_tools_pause_together_and_a_crash_repeats_no_question() -> None:
    scene = Scene(calls(("wait", {"n": 1}), ("wait", {"n": 2})))

    @scene.agent.tool_plain
    async def wait(n: int) -> str:
        return f"{n}: {(await pause('await_input', {'n': n}, prompt=f'{n}?')).value}"

    async with environment(scene.app) as env:
        env.crash(at=after_step("a.wait", nth=3))
        env.people.answer("2?", "two")
        env.people.answer("1?", "one", after=60)
        found = await env.run(scene.work, id="r")
        assert [content for _, content, _ in found] == ["1: one", "2: two"]
        said = [each for each in env.people.answers if each.error is None]
        assert len(said) == 2


@pytest.mark.parametrize(("reason", "then"), [("whatever", "tool"), ("await_input", "nobody")])
@in_asyncio
async def test_a_pause_with_an_invalid_reason_or_assignee_is_refused(reason: Any, then: Any) -> None:
    scene = Scene(calls(("odd", {})))

    @scene.agent.tool_plain(metadata=tool_options(retry=signoff.RetryPolicy(max_attempts=1)))
    async def odd() -> None:
        await pause(reason, then=then)

    async with environment(scene.app) as env:
        with pytest.raises(RegistrationError, match="pause"):
            await env.run(scene.work)


def test_pausing_elsewhere_is_refused() -> None:
    with pytest.raises(OutsideWorkflow, match=r"pause\(\.\.\.\) was called out of place: .* durable agent"):
        pause("await_input")


# ask_user

FIELDS = [
    {"name": "city", "question": "Where to?"},
    {"name": "days", "question": "How long?", "kind": "number", "required": False},
    {"name": "class", "question": "How?", "kind": "select", "options": ["bus", "train"]},
    {
        "name": "meals",
        "question": "Which?",
        "kind": "multiselect",
        "options": ["lunch", "dinner"],
        "required": False,
    },
]


@in_asyncio
async def test_a_model_asks_in_one_form_and_wrong_answers_are_refused_by_field() -> None:
    scene = Scene(calls(("ask_user", {"message": "Your trip", "fields": FIELDS})), tools=[ask_user])
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        (question,) = await scene.questions(env)
        assert asked(question)["text"] == "Your trip"
        with pytest.raises(WrongAnswer) as wrong:
            await env.client.answer(question.id, {"city": "", "class": "plane"})
        assert {field for field, _ in wrong.value.problems} >= {"city", "class"}
        answer = {"city": "Ulm", "class": "train", "meals": ["lunch"]}
        await env.client.answer(question.id, answer)
        assert await run.result() == [["ask_user", answer, "success"]]


@in_asyncio
async def test_invalid_fields_go_back_to_the_model_without_a_question() -> None:
    select = {"name": "a", "question": "?", "kind": "select"}
    text = {"name": "a", "question": "?"}
    wanted = [
        calls(("ask_user", {"message": "m", "fields": fields})) for fields in ([], [select], [text, text])
    ]
    scene = Scene(wanted, tools=[ask_user], retries=5)
    async with environment(scene.app) as env:
        found = await env.run(scene.work)
        assert [outcome for _, _, outcome in found] != ["success"] * 3
        assert not (await env.client.questions()).items
        assert "needs options" in str(found[1][1])


@in_asyncio
async def test_ask_user_for_certain_people_and_for_some_time() -> None:
    tool = ask_user_tool(assignees=["user:ana"], timeout=60, name="ask_ana")
    fields = [{"name": "why", "question": "Why?", "required": False}]
    wanted = [calls(("ask_ana", {"message": f"{n}?", "fields": fields})) for n in (1, 2)]
    scene = Scene(wanted, tools=[tool])
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        (question,) = await scene.questions(env)
        assert question.assignees == ("user:ana",)
        await env.client.answer(question.id, None, user_id="ana")
        await env.sleep(61)
        assert [content for _, content, _ in await run.result()] == [
            "They did not want to answer.",
            "There was no answer in time.",
        ]
