"""Questions of agents support the same policies as those of workflows: a table of policies, and one of ways to ask."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from signoff import BusinessHours, Context, Escalation, Quorum, Signoff
from signoff.agents import Durable, ToolCall, ask, ask_user_tool, pause
from signoff.errors import InvalidValue, NotAllowed, RegistrationError
from signoff.flows import Flow
from signoff.testing import MemoryStore, environment
from signoff.testing.environment import Environment
from tests.agents.scripts import Script, calls, returns, says
from tests.support import in_asyncio

OFFICE = BusinessHours(
    "Europe/Berlin", hours=[("09:00", "12:00"), ("13:00", "17:00")], holidays=[date(2026, 12, 25)]
)


class Scene:
    """An agent, started by ana, whose only tool asks a person before or while it runs.

    Attributes:
        ran: How often the tool did its work.
    """

    def __init__(self, **durable: Any) -> None:
        self.app = Signoff(MemoryStore())
        self.ran = 0
        wanted = ("ask_user", {"message": "Which?", "fields": [{"name": "x", "question": "X?"}]})
        self.script = Script(calls(("act", {})), says("done"))
        self.asking = Script(calls(wanted), says("done"))
        self.durable = Durable[Any](**durable)
        self.agent: Agent[Any, Any] = Agent(self.script.model, name="a", capabilities=[self.durable])

    def starts(self) -> Any:
        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            return returns((await self.agent.run("go")).all_messages())

        return work


def before_the_call(rules: dict[str, Any]) -> tuple[Scene, Any]:
    return _plain(Scene(approvals={"act": ask("May it?", **rules)}))


def said_by_a_function(rules: dict[str, Any]) -> tuple[Scene, Any]:
    def approvals(call: ToolCall) -> Any:
        return ask("May it?", **rules)

    return _plain(Scene(approvals=approvals))


def behind_a_barrier(rules: dict[str, Any]) -> tuple[Scene, Any]:
    return _plain(Scene(approvals={"act": ask("May it?", **rules)}, barrier=True))


def _plain(scene: Scene) -> tuple[Scene, Any]:
    @scene.agent.tool_plain
    async def act() -> str:  # pyright: ignore[reportUnusedFunction]
        scene.ran += 1
        return "acted"

    return scene, scene.starts()


def in_the_middle(rules: dict[str, Any]) -> tuple[Scene, Any]:
    scene = Scene()

    @scene.agent.tool_plain
    async def act() -> str:  # pyright: ignore[reportUnusedFunction]
        if (await pause("approval_required", prompt="May it?", **rules)).approved:
            scene.ran += 1
            return "acted"
        return "not acted"

    return scene, scene.starts()


def in_a_flow(rules: dict[str, Any]) -> tuple[Scene, Any]:
    scene, flow = Scene(), Flow("f")

    @flow.chunk
    async def act(data: Any) -> Any:
        return await data.pause_for("approval", {"question": "May it?"}, **_of_questions(rules))

    @flow.chunk
    async def then(data: Any) -> None:
        scene.ran += bool(data.input["approved"])

    flow.to(act).to(then)
    scene.app.register(flow)
    return scene, "f"


def by_a_model(rules: dict[str, Any]) -> tuple[Scene, Any]:
    scene = Scene()
    scene.agent = Agent(
        scene.asking.model, name="a", tools=[ask_user_tool(**rules)], capabilities=[scene.durable]
    )
    return scene, scene.starts()


def _of_questions(rules: dict[str, Any]) -> dict[str, Any]:
    return {{"timeout": "timeout_seconds"}.get(name, name): value for name, value in rules.items()}


Way = Callable[[dict[str, Any]], tuple[Scene, Any]]

APPROVALS: list[Way] = [before_the_call, said_by_a_function, behind_a_barrier, in_the_middle, in_a_flow]
ALL: list[Way] = [*APPROVALS, by_a_model]


async def _begin(env: Environment, work: Any, by: str = "user:ana") -> tuple[Any, Any]:
    """Start it and return the handle, and the question that it asks."""
    handle = await env.client.start(work, *_input(work), started_by=by)
    await env.idle()
    (question,) = (await env.client.questions()).items
    return handle, question


def _input(work: Any) -> list[Any]:
    return [{}] if isinstance(work, str) else []


def _policy(question: Any) -> dict[str, Any]:
    return json.loads(question.data)["policy"]


@pytest.mark.parametrize("way", ALL)
@in_asyncio
async def test_four_eyes(way: Way) -> None:
    scene, work = way({"exclude_requester": True, "assignees": ["group:finance"]})
    async with environment(scene.app) as env:
        _, question = await _begin(env, work)
        assert list(question.assignees) == ["group:finance"]
        with pytest.raises(NotAllowed):
            await env.client.answer(question.id, True, user_id="ana", groups=["finance"])
        assert scene.ran == 0


@pytest.mark.parametrize("way", ALL)
@in_asyncio
async def test_four_eyes_for_another_requester(way: Way) -> None:
    scene, work = way({"exclude_requester": True, "requester": "user:ben"})
    async with environment(scene.app) as env:
        _, question = await _begin(env, work)
        assert _policy(question)["excluded"] == ["user:ben"]


@pytest.mark.parametrize("quorum", [2, Quorum(2, of=3)])
@pytest.mark.parametrize("way", APPROVALS)
@in_asyncio
async def test_a_quorum(way: Way, quorum: Any) -> None:
    scene, work = way({"quorum": quorum})
    async with environment(scene.app) as env:
        handle, question = await _begin(env, work)
        votes = [True, True] if quorum == 2 else [True, False, True]
        for user, vote in zip(["ben", "cleo", "dan"], votes, strict=False):
            assert scene.ran == 0
            await env.client.answer(question.id, vote, user_id=user)
            await env.idle()
        await handle.result()
        assert scene.ran == 1


@pytest.mark.parametrize("way", ALL)
@in_asyncio
async def test_reminders_and_escalations_in_working_time(way: Way) -> None:
    rules = {
        "assignees": ["group:desk"],
        "remind_every": 3600.0,
        "escalations": [Escalation(7 * 3600, ["group:leads"], replace=True)],
        "hours": OFFICE,
        "timeout": 14 * 3600,
    }
    scene, work = way(rules)
    async with environment(scene.app) as env:
        friday = datetime(2026, 7, 3, 14, tzinfo=UTC).timestamp()  # 16:00 in Berlin
        env.clock.set(max(friday, env.clock.now()))
        _, question = await _begin(env, work)
        hour = 3600.0
        assert _policy(question)["reminders"][0] == hour
        assert _policy(question)["escalations"][0]["after_seconds"] == 72 * hour  # Monday, 16:00
        await env.sleep(72 * hour)
        (question,) = (await env.client.questions()).items
        assert list(question.assignees) == ["group:leads"]
        with pytest.raises(NotAllowed):
            await env.client.answer(question.id, True, user_id="ben", groups=["desk"])


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("way", APPROVALS)
@in_asyncio
async def test_a_timeout_answer_applies_without_an_answer(way: Way, answer: bool) -> None:
    scene, work = way({"timeout": 60, "timeout_answer": answer})
    async with environment(scene.app) as env:
        handle, _ = await _begin(env, work)
        await handle.result()
        assert scene.ran == int(answer)


SENSELESS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"quorum": 0}, InvalidValue, "quorum"),
    ({"quorum": True}, InvalidValue, "quorum"),
    ({"remind_every": float("nan")}, InvalidValue, "remind_every"),
    ({"assignees": ["ana"]}, InvalidValue, "assignees"),
    ({"escalations": Escalation(5, ["user:ana"])}, InvalidValue, "escalations"),
    ({"timeout": 5, "escalations": [Escalation(9, ["user:x"])]}, RegistrationError, "never escalates"),
    ({"assignees": ["user:x"], "quorum": 2}, RegistrationError, "cannot give 2 approvals"),
    (
        {"quorum": 2, "escalations": [Escalation(9, ["user:x"], replace=True)]},
        RegistrationError,
        "once Escalation",
    ),
    (
        {"exclude_requester": True, "requester": "user:x", "assignees": ["user:X"]},
        RegistrationError,
        "four eyes",
    ),
    ({"timeout_answer": True}, RegistrationError, "needs timeout_seconds"),
    ({"exclude_requester": "false"}, InvalidValue, "neither True nor False"),
    ({"hours": "9-17"}, InvalidValue, "pass BusinessHours"),
    ({"timeout": 60, "hours": OFFICE, "remind_every": 1e12}, InvalidValue, "working time"),
]

REFUSALS = [
    (way, *each)
    for way in (before_the_call, by_a_model)
    for each in SENSELESS
    if way is before_the_call or not {"quorum", "timeout_answer"} & set(each[0])  # a form has neither
]


@pytest.mark.parametrize(("way", "rules", "error", "words"), REFUSALS)
def test_a_policy_that_makes_no_sense_is_refused_where_it_is_written(
    way: Way, rules: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        way(rules)


@pytest.mark.parametrize(
    "rules",
    [
        {"assignees": ["user:x"], "quorum": 2},
        {"quorum": 2, "escalations": [Escalation(9, ["user:x"], replace=True)]},
    ],
)
@pytest.mark.parametrize("way", [in_the_middle, in_a_flow])
@in_asyncio
async def test_a_pause_that_too_few_could_answer_fails_at_its_line(way: Way, rules: dict[str, Any]) -> None:
    scene, work = way(rules)
    async with environment(scene.app) as env:
        with pytest.raises(Exception, match="cannot give 2 approvals"):
            await (await env.client.start(work, *_input(work), started_by="user:ana")).result()
        assert not (await env.client.questions()).items


@in_asyncio
async def test_a_quorum_of_a_pause_that_is_no_approval_is_refused() -> None:
    scene = Scene()

    @scene.agent.tool_plain
    async def act() -> str:  # pyright: ignore[reportUnusedFunction]
        return str((await pause("await_input", quorum=2)).value)

    work = scene.starts()
    async with environment(scene.app) as env:
        with pytest.raises(Exception, match="a quorum is for approvals, not for text"):
            await env.run(work)


class Amount(BaseModel):
    cents: int


@pytest.mark.parametrize("declared", [int, Amount])
@in_asyncio
async def test_a_typed_pause_has_an_answer_that_stands(declared: Any) -> None:
    scene, answers = Scene(), list[Any]()
    standing = 7 if declared is int else {"cents": 7}

    @scene.agent.tool_plain
    async def act() -> str:  # pyright: ignore[reportUnusedFunction]
        answer = await pause("await_input", answer_type=declared, timeout=60, timeout_answer=standing)
        answers.append((answer.value, answer.timed_out))
        return "acted"

    work = scene.starts()
    async with environment(scene.app) as env:
        await env.run(work)
    assert answers == [(7 if declared is int else Amount(cents=7), True)]


@in_asyncio
async def test_a_result_from_outside_follows_the_policy_and_may_stand_by_itself() -> None:
    script = Script(calls(("scan", {})), says("done"))
    external = ExternalToolset(
        [ToolDefinition(name="scan", parameters_json_schema={"type": "object"})], id="x"
    )
    rules: dict[str, Any] = {"timeout": 60, "timeout_answer": "clean", "exclude_requester": True}
    durable = Durable[Any](approvals={"scan": ask(**rules)})
    agent: Agent[Any, Any] = Agent(script.model, name="a", toolsets=[external], capabilities=[durable])
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        return returns((await agent.run("go")).all_messages())

    async with environment(app) as env:
        handle, question = await _begin(env, work)
        with pytest.raises(NotAllowed):
            await env.client.answer(question.id, {"result": "x"}, user_id="ana")
        assert await handle.result() == [["scan", "clean", "success"]]


def test_approvers_and_quorum_say_the_same() -> None:
    assert ask(approvers=2) == ask(quorum=2)
    with pytest.raises(RegistrationError, match="give one of them"):
        ask(approvers=2, quorum=3)


@in_asyncio
async def test_options_of_a_pause_in_a_flow_may_be_none() -> None:
    scene, work = in_a_flow({"timeout": None, "remind_every": None, "hours": None, "requester": None})
    async with environment(scene.app) as env:
        handle, question = await _begin(env, work)
        await env.client.answer(question.id, True, user_id="ben")
        await handle.result()
        assert scene.ran == 1


@pytest.mark.parametrize("way", ALL)
@in_asyncio
async def test_four_eyes_without_a_requester_fail_the_run_and_nothing_runs(way: Way) -> None:
    scene, work = way({"exclude_requester": True})
    async with environment(scene.app) as env:
        with pytest.raises(Exception, match="exclude_requester needs to know the requester"):
            await (await env.client.start(work, *_input(work))).result()
        assert scene.ran == 0
