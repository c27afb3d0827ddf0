"""Approvals of tool calls: the people who must agree, the arguments that run, and the model's view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, ToolOutput
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry
from pydantic_ai.messages import ToolReturnPart, UserPromptPart
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from signoff import Alike, Context, Signoff, WrongAnswer
from signoff.agents import Durable, ToolCall, approve, ask, deny, pause, tool_options
from signoff.errors import InvalidValue, NotAllowed, RegistrationError
from signoff.testing import MemoryStore, after_step, environment
from signoff.testing.environment import Environment
from tests.agents.scripts import Script, asked, calls, returns, says
from tests.support import doomed_worker, in_asyncio, new_app, opened

REMOVE = ("remove", {"path": "a"})


class Scene:
    """An app with an agent that may remove paths, and what was removed."""

    def __init__(self, *turns: Any, is_gated: bool = True, **options: Any) -> None:
        self.app = Signoff(MemoryStore())
        self.script = Script(*turns)
        self.removed: list[str] = []
        self.agent = Agent(self.script.model, name="tidy", deps_type=Any, capabilities=[Durable(**options)])

        @self.agent.tool_plain(requires_approval=is_gated)
        async def remove(path: str) -> str:  # pyright: ignore[reportUnusedFunction]
            """Remove what is there."""
            if not path:
                raise ModelRetry("which?")
            self.removed.append(path)
            return f"removed {path}"

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            result = await self.agent.run("tidy up", deps={"tenant": "t1"})
            self.messages = result.all_messages()
            return returns(self.messages)

        self.work = work

    async def questions(self, env: Environment) -> dict[str, str]:
        """The ids of what is asked, by the path that it is about."""
        await env.idle()
        found = (await env.client.questions()).items
        return {asked(each)["action"]["arguments"]["path"]: each.id for each in found}


@in_asyncio
async def test_an_approval_shows_tool_arguments_and_conversation_before_it_runs() -> None:
    scene = Scene(calls(REMOVE), says("done"))
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        shown = asked(question)
        assert shown["text"] == "tidy wants to call remove"
        assert shown["action"] == {"tool": "remove", "arguments": {"path": "a"}}
        assert shown["help"] == "Remove what is there."
        assert shown["metadata"]["conversation"] == [
            {"who": "user", "text": "tidy up"},
            {"who": "agent", "text": 'remove({"path":"a"})'},
        ]
        assert scene.removed == []
        await env.client.answer(question.id, True, user_id="ana")
        assert await run.result() == [["remove", "removed a", "success"]]
        assert scene.removed == ["a"]


@in_asyncio
async def test_the_model_reads_why_a_call_was_denied_and_it_is_not_made() -> None:
    scene = Scene(calls(REMOVE), says("done"))
    async with environment(scene.app) as env:
        env.people.answer("tidy*", approved=False, note="it is still needed")
        assert await env.run(scene.work) == [["remove", "it is still needed", "denied"]]
        assert scene.removed == []


@in_asyncio
async def test_a_missing_answer_and_a_withdrawn_question_are_denials() -> None:
    scene = Scene(calls(REMOVE), calls(REMOVE), says("done"), approvals={"remove": ask(timeout=60)})
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.sleep(61)
        (again,) = (await scene.questions(env)).values()
        await env.client.inbox.cancel(again, by="ana")
        late, withdrawn = await run.result()
        assert (late[2], withdrawn[2]) == ("denied", "denied")
        assert "in time" in late[1]
        assert "withdrawn" in withdrawn[1]


@in_asyncio
async def test_an_edited_call_runs_as_edited_and_history_and_model_say_so() -> None:
    scene = Scene(calls(REMOVE), says("done"))
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        (question,) = (await scene.questions(env)).values()
        for wrong in ({"path": 7}, {}, {"path": "b", "force": True}):
            with pytest.raises(WrongAnswer):
                await env.client.answer(question, {"approved": True, "edited": wrong})
        await env.client.answer(question, {"approved": True, "edited": {"path": "b"}}, user_id="ana")
        await run.result()
        assert scene.removed == ["b"]
        (request,) = [each for each in scene.messages if each.kind == "request"][1:]
        returned, told = request.parts
        assert isinstance(returned, ToolReturnPart)
        assert returned.metadata == {"signoff": {"arguments": {"path": "b"}, "edited_by": "ana"}}
        assert isinstance(told, UserPromptPart)
        assert '{"path": "b"}' in str(told.content)


@in_asyncio
async def test_edits_that_only_the_tool_refuses_are_asked_about_again() -> None:
    app, script, moved = (
        Signoff(MemoryStore()),
        Script(calls(("move", {"to": "b"})), says("done")),
        list[str](),
    )

    def is_free(ctx: RunContext[None], to: str) -> None:
        if to == "taken":
            raise ModelRetry("that place is taken")

    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain(requires_approval=True, args_validator=is_free)
    async def move(to: str) -> None:
        moved.append(to)

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        run = await env.start(work)
        await env.idle()
        (first,) = (await env.client.questions()).items
        await env.client.answer(first.id, {"approved": True, "edited": {"to": "taken"}})
        await env.idle()
        (second,) = (await env.client.questions()).items
        assert "that place is taken" in asked(second)["help"]
        assert moved == []
        await env.client.answer(second.id, {"approved": True, "edited": {"to": "c"}})
        assert await run.result() == "done"
        assert moved == ["c"]


@in_asyncio
async def test_a_responses_approvals_are_open_at_once_and_start_separately() -> None:
    scene = Scene(calls(("remove", {"path": "a"}), ("remove", {"path": "b"})), says("done"))
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        questions = await scene.questions(env)
        assert set(questions) == {"a", "b"}
        await env.client.answer(questions["b"], True)
        await env.idle()
        assert scene.removed == ["b"]
        await env.client.answer(questions["a"], True)
        await run.result()
        assert scene.removed == ["b", "a"]


@in_asyncio
async def test_behind_a_barrier_no_approved_tool_starts_before_all_are_answered() -> None:
    scene = Scene(
        calls(("remove", {"path": "a"}), ("remove", {"path": "b"}), ("remove", {"path": "c"})),
        says("done"),
        barrier=True,
    )
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        questions = await scene.questions(env)
        await env.client.answer(questions["b"], {"approved": True, "edited": {"path": "b2"}}, user_id="ana")
        await env.client.answer(questions["c"], False, note="no")
        await env.idle()
        assert scene.removed == []
        await env.client.answer(questions["a"], True)
        assert [outcome for _, _, outcome in await run.result()] == ["success", "success", "denied"]
        assert sorted(scene.removed) == ["a", "b2"]
        assert "ana" in str(scene.messages)


def by_call(call: ToolCall) -> Any:
    path = call.arguments["path"]
    return {"ok": approve(), "no": deny("never"), "who": ask("Really?", assignees=["user:ana"])}.get(path)


async def by_call_later(call: ToolCall) -> Any:
    assert (call.deps, call.agent, call.run_id) == ({"tenant": "t1"}, "tidy", "r")
    await asyncio.sleep(0)
    return by_call(call)


@pytest.mark.parametrize("policy", [by_call, by_call_later, {"remove": by_call}])
@pytest.mark.parametrize("is_gated", [True, False])
@in_asyncio
async def test_a_policy_approves_denies_asks_or_leaves_it_to_the_tool(policy: Any, is_gated: bool) -> None:
    wanted = calls(*(("remove", {"path": path}) for path in ("ok", "no", "who", "else")))
    scene = Scene(wanted, says("done"), is_gated=is_gated, approvals=policy)
    async with environment(scene.app) as env:
        run = await env.start(scene.work, id="r")
        questions = await scene.questions(env)
        assert set(questions) == ({"who", "else"} if is_gated else {"who"})
        assert set(scene.removed) == ({"ok"} if is_gated else {"ok", "else"})
        for path, question in questions.items():
            shown = asked(await env.client.promises.get(question))
            assert shown["text"] == ("Really?" if path == "who" else "tidy wants to call remove")
            await env.client.answer(question, True, user_id="ana")
        outcomes = [(content, outcome) for _, content, outcome in await run.result()]
        assert outcomes == [
            ("removed ok", "success"),
            ("never", "denied"),
            ("removed who", "success"),
            ("removed else", "success"),
        ]


@pytest.mark.parametrize("policy", [["remove"], {"remove": True}, lambda call: call.tool == "remove"])
@in_asyncio
async def test_a_policy_may_name_tools_or_be_a_predicate(policy: Any) -> None:
    scene = Scene(calls(REMOVE), says("done"), is_gated=False, approvals=policy)
    async with environment(scene.app) as env:
        await env.start(scene.work)
        assert set(await scene.questions(env)) == {"a"}


@pytest.mark.parametrize("policy", ["remove", 7, [7], {"remove": "yes"}, {"remove": {"verdict": "banana"}}])
def test_what_is_no_policy_is_refused_where_it_is_written(policy: Any) -> None:
    with pytest.raises(RegistrationError, match="approvals"):
        Durable(approvals=policy)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"assignees": "user:ana"}, "assignees"),
        ({"assignees": ["ana:x"]}, "assignees"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"approvers": 0}, "approvers"),
        ({"approvers": True}, "approvers"),
    ],
)
def test_invalid_assignees_and_times_are_refused(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue, match=field):
        ask(**wrong)


def test_operators_are_named_one_by_one() -> None:
    with pytest.raises(InvalidValue, match="operators"):
        Durable(operators="role:operator")


async def says_yes(call: ToolCall) -> bool:
    return False


def fails(call: ToolCall) -> bool:
    return call.arguments["cents"] > 100


def raising(kind: type[BaseException]) -> Callable[[ToolCall], bool]:
    def policy(call: ToolCall) -> bool:
        raise kind

    return policy


@pytest.mark.parametrize(
    "policy",
    [
        lambda call: "yes",
        lambda call: 0,
        lambda call: "",
        lambda call: {"verdict": "banana"},
        lambda call: {"verdict": "ask", "assignees": "ana"},
        lambda call: {"verdict": "approve", "details": object()},
        lambda call: lambda: False,
        lambda call: (each for each in ()),
        lambda call: says_yes,
        fails,
        {"remove": lambda call: 7},
        {"remove": fails},
        raising(SystemExit),
        raising(KeyboardInterrupt),
        raising(GeneratorExit),
    ],
)
@in_asyncio
async def test_a_policy_that_fails_or_says_nothing_sensible_has_people_asked(policy: Any) -> None:
    scene = Scene(calls(REMOVE), is_gated=False, approvals=policy, operators=["user:olga"])
    async with environment(scene.app) as env:
        await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert question.assignees == ("user:olga",)
        assert "policy_failed" in asked(question)["metadata"]
        assert scene.removed == []


@in_asyncio
async def test_a_model_that_reuses_a_call_id_or_changes_an_argument_asks_again() -> None:
    scene = Scene(
        calls(("remove", {"path": "a"}, "call-1")),
        calls(("remove", {"path": "a"}, "call-1")),
        calls(("remove", {"path": "b"}, "call-1")),
        says("done"),
    )
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        seen: list[str] = []
        for path in ("a", "a", "b"):
            questions = await scene.questions(env)
            assert set(questions) == {path}
            seen.append(questions[path])
            await env.client.answer(questions[path], True, request_id=f"r-{len(seen)}")
        await run.result()
        assert len(set(seen)) == 3
        assert scene.removed == ["a", "a", "b"]


@in_asyncio
async def test_a_rule_for_the_session_approves_later_calls_of_it_and_of_no_other() -> None:
    turns = (calls(REMOVE), says("one"), calls(REMOVE), says("two"), calls(REMOVE), says("three"))
    scene = Scene(*turns)
    async with environment(scene.app) as env:
        first = await env.start(scene.work, session_id="s1")
        (question,) = (await scene.questions(env)).values()
        await env.client.answer(question, True, user_id="ana", alike=Alike(session=True))
        await first.result()
        await env.run(scene.work, session_id="s1")
        assert scene.removed == ["a", "a"]
        await env.start(scene.work, session_id="s2")
        assert set(await scene.questions(env)) == {"a"}


@in_asyncio
async def test_a_rule_approves_no_call_that_shows_other_details() -> None:
    risks = iter(["low", "low", "high"])

    def by_risk(call: ToolCall) -> Any:
        return ask(details={"risk": next(risks)})

    scene = Scene(*[calls(REMOVE), says("done")] * 3, is_gated=False, approvals=by_risk)
    async with environment(scene.app) as env:
        first = await env.start(scene.work, session_id="s1")
        (question,) = (await scene.questions(env)).values()
        await env.client.answer(question, True, user_id="ana", alike=Alike(session=True))
        await first.result()
        await env.run(scene.work, session_id="s1")
        assert scene.removed == ["a", "a"]
        await env.start(scene.work, session_id="s1")
        assert set(await scene.questions(env)) == {"a"}
    assert scene.removed == ["a", "a"]


@in_asyncio
async def test_a_gate_rule_answers_no_pause_and_a_pause_rule_only_equal_pauses() -> None:
    app, warning, paid = Signoff(MemoryStore()), "it would be overdrawn", list[str]()
    script = Script(*[calls(("pay", {"cents": 900})), says("done")] * 4)
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain(requires_approval=True)
    async def pay(cents: int) -> str:
        answer = await pause("approval_required", {"warning": warning}, prompt="Pay all the same?")
        paid.append(f"{warning}: {answer.approved} by {answer.user_id}")
        return "paid"

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:

        async def asks(text: str) -> str:
            await env.idle()
            (question,) = (await env.client.questions()).items
            assert (asked(question)["text"], asked(question)["action"]["tool"]) == (text, "pay")
            return question.id

        first = await env.start(work, session_id="s")
        gate = await asks("a wants to call pay")
        await env.client.answer(gate, True, user_id="ana", alike=Alike(session=True))
        await env.client.answer(await asks("Pay all the same?"), False, user_id="bob")
        await first.result()
        second = await env.start(work, session_id="s")
        paused = await asks("Pay all the same?")
        await env.client.answer(paused, True, user_id="cid", alike=Alike(session=True))
        await second.result()
        assert await env.run(work, session_id="s") == "done"
        warning = "it is stolen"
        await env.start(work, session_id="s")
        await asks("Pay all the same?")
        overdrawn = [f"it would be overdrawn: {by}" for by in ("False by bob", *["True by cid"] * 2)]
        assert paid == overdrawn


@in_asyncio
async def test_a_tool_may_ask_itself_in_its_body() -> None:
    app, script, sent = (
        Signoff(MemoryStore()),
        Script(calls(("pay", {"cents": 900})), says("done")),
        list[int](),
    )
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool
    async def pay(ctx: RunContext[None], cents: int) -> str:
        if cents > 500 and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"limit": 500})
        sent.append(cents)
        return "paid"

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        return returns((await agent.run("go")).all_messages())

    async with environment(app) as env:
        run = await env.start(work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert asked(question)["metadata"]["limit"] == 500
        await env.client.answer(question.id, {"approved": True, "edited": {"cents": 800}})
        assert (await run.result())[0][1:] == ["paid", "success"]
        assert sent == [800]


@in_asyncio
async def test_an_external_calls_result_is_asked_for_and_returned_to_the_model() -> None:
    app = Signoff(MemoryStore())
    script = Script(calls(("scan", {"page": 1}), ("ship", {"order": "o-1"})), says("done"))
    scan = ToolDefinition(
        name="scan",
        parameters_json_schema={"type": "object", "properties": {"page": {"type": "integer"}}},
        return_schema={"type": "string"},
    )
    agent = Agent(
        script.model, name="a", toolsets=[ExternalToolset([scan], id="desk")], capabilities=[Durable()]
    )

    @agent.tool_plain
    async def ship(order: str) -> str:
        raise CallDeferred(metadata={"carrier": "dhl"})

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        return returns((await agent.run("go")).all_messages())

    async with environment(app) as env:
        run = await env.start(work)
        await env.idle()
        by_tool = {asked(each)["metadata"]["tool"]: each for each in (await env.client.questions()).items}
        assert asked(by_tool["ship"])["metadata"]["carrier"] == "dhl"
        shown = {tool: asked(each)["metadata"]["arguments"] for tool, each in by_tool.items()}
        assert shown == {"scan": {"page": 1}, "ship": {"order": "o-1"}}
        with pytest.raises(WrongAnswer):
            await env.client.answer(by_tool["scan"].id, {"result": 7})
        await env.client.answer(by_tool["scan"].id, {"result": "a letter"})
        await env.client.answer(by_tool["ship"].id, {"result": "parcel 12"})
        assert await run.result() == [["scan", "a letter", "success"], ["ship", "parcel 12", "success"]]


@pytest.mark.parametrize("hot_runs", [0, 100])
@pytest.mark.parametrize("is_approved", [False, True])
@in_asyncio
async def test_behind_a_barrier_an_external_call_holds_the_others_back(
    is_approved: bool, hot_runs: int
) -> None:
    scene = Scene(calls(REMOVE, ("ship", {"order": "o-1"})), says("done"), barrier=True)

    @scene.agent.tool_plain(requires_approval=is_approved)
    def ship(order: str) -> str:  # pyright: ignore[reportUnusedFunction]
        raise CallDeferred(metadata={"carrier": "dhl"})

    async with environment(scene.app, hot_runs=hot_runs) as env:
        run = await env.start(scene.work)
        await env.idle()
        told: list[Any] = []
        while questions := (await env.client.questions()).items:
            shown = asked(questions[-1])
            if shown["input_type"] == "form":
                about = shown["metadata"]
                told.append((about["tool"], about["arguments"], about["carrier"], list(scene.removed)))
                await env.client.answer(questions[-1].id, {"result": "parcel 12"})
            else:
                assert scene.removed == []
                arguments = shown["action"]["arguments"]
                edited = {"order": "o-2"} if "order" in arguments else arguments
                await env.client.answer(questions[-1].id, {"approved": True, "edited": edited})
            await env.idle()
        found = [(tool, content) for tool, content, _ in await run.result()]
    order = {"order": "o-2" if is_approved else "o-1"}
    assert told == [("ship", order, "dhl", ["a"] if is_approved else [])]
    assert sorted(found) == [("remove", "removed a"), ("ship", "parcel 12")]
    assert scene.removed == ["a"]
    assert ("changed its arguments" in str(scene.messages)) == is_approved


@in_asyncio
async def test_behind_a_barrier_all_that_people_are_asked_is_to_be_seen_at_once() -> None:
    app, removed = Signoff(MemoryStore()), list[str]()
    script = Script(calls(REMOVE, ("ship", {}), ("scan", {})), says("done"))
    scan = ToolDefinition(name="scan", parameters_json_schema={"type": "object", "properties": {}})
    agent = Agent(
        script.model,
        name="a",
        toolsets=[ExternalToolset([scan], id="desk")],
        capabilities=[Durable(barrier=True)],
    )

    @agent.tool_plain(requires_approval=True)
    async def remove(path: str) -> str:
        removed.append(path)
        return f"removed {path}"

    @agent.tool_plain
    def ship() -> str:
        raise CallDeferred

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        return returns((await agent.run("go")).all_messages())

    async with environment(app, hot_runs=0) as env:
        run = await env.start(work)
        await env.idle()
        found = (await env.client.questions()).items
        texts = {asked(each)["text"]: each.id for each in found}
        assert sorted(texts) == [
            "a needs the result of scan",
            "a needs the result of ship",
            "a wants to call remove",
        ]
        await env.client.answer(texts["a wants to call remove"], True)
        await env.idle()
        assert removed == []
        for name in ("scan", "ship"):
            await env.client.answer(texts[f"a needs the result of {name}"], {"result": name})
        returned = await run.result()
    assert returned == [
        ["remove", "removed a", "success"],
        ["ship", "ship", "success"],
        ["scan", "scan", "success"],
    ]


@in_asyncio
async def test_an_edited_call_behind_a_barrier_without_a_result_is_denied() -> None:
    scene = Scene(calls(("ship", {"order": "o-1"})), says("done"), barrier=True)

    @scene.agent.tool_plain(requires_approval=True)
    def ship(order: str) -> str:  # pyright: ignore[reportUnusedFunction]
        raise CallDeferred

    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        await env.client.answer(question.id, {"approved": True, "edited": {"order": "o-2"}})
        await env.idle()
        (question,) = (await env.client.questions()).items
        await env.client.inbox.cancel(question.id, by="ana")
        ((_, content, outcome),) = await run.result()
        assert outcome == "denied"
        assert "withdrawn" in content


@pytest.mark.parametrize("barrier", [False, True])
@in_asyncio
async def test_as_many_must_approve_as_the_policy_says(barrier: bool) -> None:
    scene = Scene(calls(REMOVE), says("done"), barrier=barrier, approvals={"remove": ask(approvers=2)})
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        (question,) = (await scene.questions(env)).values()
        await env.client.answer(question, True, user_id="ana")
        await env.idle()
        assert scene.removed == []
        assert set(await scene.questions(env)) == {"a"}
        await env.client.answer(question, True, user_id="ben")
        assert await run.result() == [["remove", "removed a", "success"]]


@pytest.mark.parametrize("operators", [[], ["user:olga", "group:ops"]])
@in_asyncio
async def test_operators_are_asked_about_an_interrupted_call(operators: list[str]) -> None:
    scene = Scene(calls(REMOVE), says("done"), approvals={"remove": approve()}, operators=operators)
    async with environment(scene.app) as env:
        env.crash(at=after_step("tidy.remove"))
        run = await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert asked(question)["metadata"]["step"] == "tidy.remove"
        assert list(question.assignees) == operators
        done = {"action": "done", "result": "removed"}
        if operators:
            with pytest.raises(NotAllowed):
                await env.client.answer(question.id, done, user_id="ana")
        await env.client.answer(question.id, done, user_id="olga")
        assert await run.result() == [["remove", "removed", "success"]]


@in_asyncio
async def test_a_policy_runs_once_and_its_change_does_not_affect_old_decisions() -> None:
    verdicts = [ask("first")]
    scene = Scene(calls(REMOVE), says("done"), approvals=lambda call: verdicts[0])
    async with environment(scene.app, hot_runs=0) as env:
        run = await env.start(scene.work)
        (question,) = (await scene.questions(env)).values()
        verdicts[0] = deny("not any more")
        await env.sleep(timedelta(days=30))
        await env.client.answer(question, True)
        assert await run.result() == [["remove", "removed a", "success"]]


# What was asked about is not done twice


def by_name(call: ToolCall) -> Any:
    return ask("May it?") if call.tool == "send" else None


@pytest.mark.parametrize(
    ("options", "asks_itself"),
    [
        ({"approvals": ["send"]}, False),
        ({"approvals": {"send": ask("May it?")}}, False),
        ({"approvals": by_name}, False),
        ({"approvals": by_name, "barrier": True}, False),
        ({}, True),
    ],
    ids=["name", "ask", "function", "barrier", "body"],
)
@pytest.mark.parametrize("says_read", [False, True])
@in_asyncio
async def test_a_tool_that_a_person_was_asked_about_is_not_tried_again_by_itself(
    options: dict[str, Any], asks_itself: bool, says_read: bool
) -> None:
    app, begun = Signoff(MemoryStore()), list[str]()
    script = Script(calls(("send", {}), ("look", {})), says("done"))
    agent = Agent(script.model, name="a", capabilities=[Durable(**options)])

    @agent.tool(metadata=tool_options(side_effects="read") if says_read else None)
    async def send(ctx: RunContext[Any]) -> str:  # pyright: ignore[reportUnusedFunction]
        if asks_itself and not ctx.tool_call_approved:
            raise ApprovalRequired
        begun.append("send")
        if begun.count("send") < 3:
            raise RuntimeError("it broke after it was sent")
        return "sent"

    @agent.tool_plain
    async def look() -> str:  # pyright: ignore[reportUnusedFunction]
        begun.append("look")
        if begun.count("look") < 3:
            raise RuntimeError("it is not there yet")
        return "seen"

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        env.people.answer("*", approved=True)
        run = await env.start(work)
        if says_read:
            assert await run.result() == "done"
        else:
            with pytest.raises(RuntimeError, match="after it was sent"):
                await run.result()
    assert begun.count("send") == (3 if says_read else 1)
    assert begun.count("look") <= 3


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("operators", [[], ["group:ops"]], ids=["", "operators"])
@in_asyncio
async def test_the_approvers_of_an_interrupted_call_decide_its_outcome(
    tmp_path: Path, barrier: bool, operators: list[str]
) -> None:
    app, begun = new_app(tmp_path, operators=["group:app"]), list[str]()
    both = asyncio.Event()
    script = Script(calls(("pay", {"order": "o-1"}), ("pay", {"order": "o-2"})), says("done"))
    policy = {"pay": ask(assignees=["group:finance"])}
    durable = Durable[None](approvals=policy, barrier=barrier, operators=operators)
    agent = Agent(script.model, name="a", capabilities=[durable])

    @agent.tool_plain
    async def pay(order: str, currency: str = "EUR") -> str:  # pyright: ignore[reportUnusedFunction]
        begun.append(order)
        if len(begun) == 2:
            both.set()
        return await asyncio.Event().wait() or "never"

    app.register(agent)
    async with opened(app) as client:
        await client.start("a", {"prompt": "go"}, id="r")
        async with doomed_worker(app):
            while len(found := (await client.questions()).items) < 2:
                await asyncio.sleep(0.01)
            for each in found:
                await client.answer(each.id, True, user_id="ana", groups=["finance"])
            await both.wait()
        async with app.worker():
            while len(found := (await client.questions()).items) < 2:
                await asyncio.sleep(0.01)
            shown = [asked(each)["metadata"] for each in found]
            assert sorted(each["arguments"]["order"] for each in shown) == ["o-1", "o-2"]
            assert {each["tool"] for each in shown} == {"pay"}
            assert {each["agent"] for each in shown} == {"a"}
            (who,) = operators or ["group:finance"]
            assert {each.assignees for each in found} == {(who,)}
            for each in found:
                done = {"action": "done", "result": "paid"}
                with pytest.raises(NotAllowed):
                    await client.answer(each.id, done, user_id="mallory", groups=["app"])
                await client.answer(each.id, done, user_id="olga", groups=[who.removeprefix("group:")])
            chat = await (await client.get("r")).result(60)
    assert [each["content"] for each in chat["messages"][2]["parts"]] == ["paid", "paid"]
    assert sorted(begun) == ["o-1", "o-2"]


@in_asyncio
async def test_a_name_in_approvals_that_is_no_tools_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene(calls(REMOVE), calls(REMOVE), says("done"), is_gated=False, approvals=["remvoe", "remove"])
    async with environment(scene.app) as env:
        env.people.answer("*", approved=True)
        await env.run(scene.work)
    (warned,) = [each for each in caplog.messages if "approvals" in each]
    assert warned.startswith("agent 'tidy': approvals= names 'remvoe', but it has no such tool: no call")
    assert warned.endswith("Its tools: remove")


@pytest.mark.parametrize("approvals", [["transfer"], {"transfer": True}])
@in_asyncio
async def test_an_approval_of_an_output_tool_is_refused_since_it_could_not_ask(approvals: Any) -> None:
    paid: list[int] = []

    def transfer(cents: int) -> int:
        paid.append(cents)
        return cents

    script = Script(calls(("transfer", {"cents": 7})))
    output = ToolOutput(transfer, name="transfer")
    agent = Agent(script.model, name="a", output_type=output, capabilities=[Durable(approvals=approvals)])
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> Any:
        return (await agent.run("go")).output

    async with environment(app) as env:
        with pytest.raises(RegistrationError, match="the output tool 'transfer', which needs no approval"):
            await env.run(work)
    assert paid == []
