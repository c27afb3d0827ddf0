"""Turns: messages during a waiting or running turn, budgets, forks, sub-agents, events."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from signoff import AlreadySettled, AsyncClient, RetryPolicy, RunCancelled, Signoff
from signoff.agents import Approve, Budget, Conversation, Durable, Finished, Paused, agent_tool, tool_options
from signoff.agents.conversations.turn_workflow import OnMessage
from signoff.agents.steps.budgets import Stopwatch
from signoff.agents.steps.turn_record import STEER
from signoff.errors import IdConflict, InvalidState, InvalidValue, NotFound, RegistrationError
from signoff.people.links.resume_tokens import CONTEXT
from signoff.records import EntryKind
from signoff.testing import MemoryStore, VirtualClock, after_step, environment
from tests.agents.chats import Chats, ObedientModel, returns_of, texts_of
from tests.places import NewStore
from tests.support import in_asyncio, new_app, opened, running

ONCE = RetryPolicy(max_attempts=1)

# Registering


def test_an_agent_that_is_not_durable_or_has_no_name_is_refused(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    with pytest.raises(RegistrationError, match="not durable"):
        app.register(Agent("test", name="a"))
    with pytest.raises(RegistrationError, match="name"):
        app.register(Agent("test", capabilities=[Durable(name="x")]))
    with pytest.raises(RegistrationError, match="on_message"):
        app.register(Agent("test", name="a", capabilities=[Durable()]), on_message="drop")  # pyright: ignore[reportArgumentType]


# While a turn waits


@in_asyncio
async def test_a_message_is_queued_while_a_question_is_open(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        first = await chat.run("rm a")
        assert isinstance(first, Paused)
        second = await chat.run("hello")
        assert isinstance(second, Paused)
        assert (second.reason, [each.id for each in second.pending]) == ("queued", [first.pending[0].id])
        assert isinstance(await chat.respond(first.pending[0].id, Approve()), Finished)
        turn = await chat.wait(second.run_id)
    assert isinstance(turn, Finished)
    assert chats.model.seen[-1] == ["rm a", "did: removed a", "hello"]


@in_asyncio
async def test_a_queued_turn_goes_on_by_its_own_token(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        await chat.run("rm a")
        second = await chat.run("hello")
        assert isinstance(second, Paused)
        turn = await chat.resume(second.resume_token, "approved")
    assert isinstance(turn, Finished)
    assert turn.output == "heard hello"


@in_asyncio
async def test_a_message_cancels_the_open_turn_if_the_agent_says_so(tmp_path: Path) -> None:
    async with Chats(tmp_path, on_message="cancel").running() as chats:
        chat = chats.conversation("c")
        first = await chat.run("rm a")
        turn = await chat.run("hello")
        assert isinstance(turn, Finished)
        with pytest.raises(RunCancelled, match="a new message came"):
            await chat.wait(first.run_id)
    assert chats.removed == []


@in_asyncio
async def test_a_message_answers_the_open_question_if_the_agent_says_so(tmp_path: Path) -> None:
    async with Chats(tmp_path, on_message="answer").running() as chats:
        chat = chats.conversation("c")
        await chat.run("rm a")
        assert isinstance(await chat.run("yes"), Finished)
        await chat.run("rm b")
        turn = await chat.run("no, keep that one")
        assert isinstance(turn, Finished)
    assert chats.removed == ["a"]
    (returned,) = returns_of(turn.messages)
    assert (returned.outcome, returned.content) == ("denied", "no, keep that one")


@pytest.mark.parametrize("text", ["yes", "no, keep that one"])
@in_asyncio
async def test_a_message_that_has_answered_answers_nothing_else_when_repeated(
    new_store: NewStore, text: str
) -> None:
    first = Chats(new_store(), on_message="answer")
    async with first.running():
        chat = first.conversation("c")
        await chat.run("rm a")
        answered = await chat.run(text, id="m-1")
        assert isinstance(answered, Finished)
        assert await chat.run(text, id="m-1") == answered, "nothing is asked any more"
        assert isinstance(await chat.run("rm b"), Paused)
    second = Chats(new_store(), on_message="answer")
    async with second.running():  # another process
        chat = second.conversation("c")
        repeated = await asyncio.gather(*(chat.run(text, id="m-1") for _ in range(3)))
        assert repeated == [answered] * 3
        assert [each.arguments for each in await chat.pending()] == [{"path": "b"}]
        other = second.conversation("d")
        await other.run("rm d")
        await other.run("yes", id="m-1")  # ids of messages are those of their sessions
        assert isinstance(await chat.run("yes", id="m-2"), Finished)
    assert (first.removed, second.removed) == (["a"] if text == "yes" else [], ["d", "b"])


@in_asyncio
async def test_a_message_whose_process_died_still_answers_its_first_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*args: Any, **said: Any) -> None:
        raise ConnectionError("gone")

    async with Chats(tmp_path, on_message="answer").running() as chats:
        chat = chats.conversation("c")
        waiting = await chat.run("rm a")
        with monkeypatch.context() as patched:
            patched.setattr(AsyncClient, "answer", dies)
            with pytest.raises(ConnectionError):
                await chat.run("yes", id="m-1")
        assert await chats.conversation("c").run("yes", id="m-1") == await chat.wait(waiting.run_id)
    assert chats.removed == ["a"]


@in_asyncio
async def test_a_message_that_came_too_late_answers_nothing_else_when_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Chats(tmp_path, on_message="answer").running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a")
        assert isinstance(turn, Paused)
        answer = AsyncClient.answer

        async def overtaken(self: AsyncClient, id: str, *args: Any, **said: Any) -> Any:
            await answer(self, id, False, user_id="bob")
            return await answer(self, id, *args, **said)

        with monkeypatch.context() as patched:
            patched.setattr(AsyncClient, "answer", overtaken)
            with pytest.raises(AlreadySettled):
                await chat.run("yes", id="m-1")
        await chat.wait(turn.run_id)
        assert isinstance(await chat.run("rm b"), Paused)
        with pytest.raises(AlreadySettled):
            await chat.run("yes", id="m-1")
        assert len(await chat.pending()) == 1
    assert chats.removed == []


@in_asyncio
async def test_a_message_said_again_does_not_cancel_its_own_turn(tmp_path: Path) -> None:
    async with Chats(tmp_path, on_message="cancel").running() as chats:
        chat = chats.conversation("c")
        turns = [await chat.run("rm a", id="m-1") for _ in range(2)]
        assert all(isinstance(turn, Paused) for turn in turns)
        assert len(await chat.pending()) == 1


# While a turn runs


@in_asyncio
async def test_what_is_said_to_a_running_turn_is_read_with_its_next_request(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        first = await chat.run("rm a")
        assert isinstance(first, Paused)
        await chat.steer("and be brief")
        turn = await chat.respond(first.pending[0].id, Approve())
        assert isinstance(turn, Finished)
        assert texts_of(turn.messages) == ["rm a", "and be brief", "did: removed a; and be brief"]
        with pytest.raises(InvalidState):
            await chat.steer("too late")


@in_asyncio
async def test_what_is_no_text_is_not_said_to_a_running_turn(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        first = await chat.run("rm a")
        assert isinstance(first, Paused)
        for wrong in (5, None, ["be brief"], b"be brief"):
            with pytest.raises(InvalidValue, match="^text: expected a string"):
                await chat.steer(wrong)  # pyright: ignore[reportArgumentType]
        turn = await chat.respond(first.pending[0].id, Approve())
    assert isinstance(turn, Finished)
    assert turn.output == "did: removed a"


@pytest.mark.parametrize("name", [STEER, CONTEXT])
@in_asyncio
async def test_a_turn_survives_outside_signals_with_invalid_content(tmp_path: Path, name: str) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        first = await chat.run("rm a", context={"tenant": "t1"})
        assert isinstance(first, Paused)
        for wrong in (5, None, ["be brief"]):
            await chats.client.signal(first.run_id, name, wrong)
        await chat.steer("and be brief")
        turn = await chat.respond(first.pending[0].id, Approve())
    assert isinstance(turn, Finished)
    assert turn.output == "did: removed a; and be brief"
    assert chats.deps == [{"tenant": "t1"}]


@in_asyncio
async def test_a_follow_up_said_meanwhile_is_the_next_turn(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        chats.model.gate.clear()
        first = asyncio.create_task(chat.run("one"))
        await chats.model.asked.wait()
        second = asyncio.create_task(chat.run("two"))
        chats.model.gate.set()
        one, two = await asyncio.gather(first, second)
    assert (one.output, two.output) == ("heard one", "heard two")  # pyright: ignore[reportAttributeAccessIssue]
    assert chats.model.seen[-1] == ["one", "heard one", "two"]


@in_asyncio
async def test_a_message_said_twice_with_one_id_is_said_once(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        turns = [await chat.run("hello", id="m-1") for _ in range(2)]
        assert turns[0] == turns[1]
        assert len(chats.model.seen) == 1


@pytest.mark.parametrize("on_message", ["queue", "cancel", "answer"])
@in_asyncio
async def test_another_message_with_the_id_of_one_is_refused_and_changes_nothing(
    tmp_path: Path, on_message: OnMessage
) -> None:
    async with Chats(tmp_path, on_message=on_message).running() as chats:
        chat = chats.conversation("c")
        first = await chat.run("hello", context={"tenant": "t1"}, id="m-1")
        assert isinstance(await chats.conversation("d").run("hello", id="m-2"), Finished)
        other = await chats.client.start("support", {"fork": "m-2"}, id="m-3")
        await other.result(timeout=20)
        waiting = await chat.run("rm a")
        assert isinstance(waiting, Paused)
        for prompt, context, id, differs in (
            ("b", {"tenant": "t1"}, "m-1", "other arguments"),
            ("hello", {"tenant": "t2"}, "m-1", "other arguments"),
            ("hello", None, "m-1", "other arguments"),
            ("hello", None, "m-2", "another session"),
            ("yes", None, "m-3", "other arguments"),
        ):
            with pytest.raises(IdConflict, match=f"{id}.*{differs}"):
                await chat.run(prompt, context=context, id=id)
        assert await chat.run("hello", context={"tenant": "t1"}, id="m-1") == first
        assert [each.id for each in await chat.pending()] == [each.id for each in waiting.pending]
    assert chats.removed == []


# Budgets


@in_asyncio
@pytest.mark.parametrize(
    "budget",
    [
        Budget(requests=1),
        Budget(tool_calls=0),
        Budget(tokens=1),
        Budget(seconds=0),
    ],
)
async def test_over_budget_a_turn_fails_and_the_next_one_goes_on(tmp_path: Path, budget: Budget) -> None:
    async with Chats(tmp_path, budget=budget).running() as chats:
        chat = chats.conversation("c")
        with pytest.raises(UsageLimitExceeded):
            await chat.run("cat a")
        history = await chat.messages()
    assert "UsageLimitExceeded" in texts_of(history)[-1]
    later = Chats(tmp_path)
    async with later.running():
        assert isinstance(await later.conversation("c").run("hello"), Finished)


@pytest.mark.parametrize(("seconds", "is_enough"), [(2.0, False), (4.0, True)])
@in_asyncio
async def test_time_at_work_is_counted(tmp_path: Path, seconds: float, is_enough: bool) -> None:
    clock = VirtualClock()
    chats = Chats(
        tmp_path, clock=clock, while_reading=lambda: clock.advance(3), budget=Budget(seconds=seconds)
    )
    async with chats.running():
        turn = asyncio.ensure_future(chats.conversation("c").run("cat a"))
        if is_enough:
            assert isinstance(await turn, Finished)
        else:
            with pytest.raises(UsageLimitExceeded, match=r"at work for 3\.0 s"):
                await turn


@in_asyncio
async def test_waiting_for_people_costs_no_time(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with Chats(tmp_path, clock=clock, budget=Budget(seconds=60)).running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a")
        assert isinstance(turn, Paused)
        clock.advance(24 * 3600)
        assert isinstance(await chat.respond(turn.pending[0].id, Approve()), Finished)


@in_asyncio
async def test_a_deploy_may_change_the_budget_of_a_turn_that_waits(tmp_path: Path) -> None:
    async with Chats(tmp_path, budget=Budget(requests=5)).running() as chats:
        turn = await chats.conversation("c").run("rm a")
        assert isinstance(turn, Paused)
    async with Chats(tmp_path, budget=Budget(requests=9)).running() as later:
        assert isinstance(await later.conversation("c").respond(turn.pending[0].id, Approve()), Finished)
        assert later.removed == ["a"]


@pytest.mark.parametrize("field", ["requests", "tool_calls", "tokens", "cost", "seconds"])
@pytest.mark.parametrize("limit", [-1, "x", "5", True, float("nan"), float("inf"), [5]], ids=repr)
def test_what_is_no_limit_is_refused_where_a_budget_is_made(field: str, limit: Any) -> None:
    with pytest.raises(InvalidValue, match=f"^{field}: ") as refused:
        Budget(**{field: limit})
    assert refused.value.path == field


@pytest.mark.parametrize("field", ["requests", "tool_calls", "tokens"])
def test_what_is_counted_has_whole_limits(field: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{field}: expected a whole number"):
        Budget(**{field: 1.5})


def test_what_is_no_budget_is_refused_when_an_agent_is_registered(tmp_path: Path) -> None:
    agent = Agent("test", name="a", capabilities=[Durable()])
    for budget in (5, 0, {"requests": 5}):
        with pytest.raises(RegistrationError, match="^budget: expected"):
            new_app(tmp_path).register(agent, budget=budget)  # pyright: ignore[reportArgumentType, reportCallIssue]
    new_app(tmp_path).register(agent, budget=Budget(requests=0, cost=Decimal("0.5"), seconds=0.5))


@pytest.mark.parametrize("hot_runs", [0, 100])
@pytest.mark.parametrize(("action", "seconds"), [("done", 10), ("retry", 30)])
@in_asyncio
async def test_only_attempts_cost_time_not_outcome_questions_or_back_off(
    action: str, seconds: int, hot_runs: int
) -> None:
    app, attempts = Signoff(MemoryStore()), list[str]()

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        attempts.append("model")
        env.clock.advance(5)
        if len(attempts) == 1:
            raise ModelHTTPError(429, "m", retry_after=7200)
        return ModelResponse([ToolCallPart("send", {}) if len(messages) == 1 else TextPart("sent")])

    agent = Agent(FunctionModel(respond), name="support", capabilities=[Durable[None]()])

    @agent.tool_plain(metadata=tool_options(side_effects="external"))
    async def send() -> None:  # pyright: ignore[reportUnusedFunction]
        env.clock.advance(20)

    app.register(agent, budget=Budget(seconds=seconds))
    async with environment(app, hot_runs=hot_runs) as env:
        env.crash(at=after_step("support.send"))
        env.people.answer("Step 'support.send'*", {"action": action, "result": None}, after=86_400)
        with pytest.raises(
            UsageLimitExceeded, match=f"at work for {seconds}.0 s, and its budget is {seconds} s"
        ):
            await env.run("support", {"prompt": "go"})
        assert attempts == ["model", "model"]


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([(0, 10), (20, 30)], 20),
        ([(0, 10), (5, 15)], 15),
        ([(5, 15), (0, 30)], 30),
        ([(0, 10), (10, 20), (5, 6)], 20),
        ([(20, 30), (0, 5), (4, 21)], 30),
    ],
    ids=["one after the other", "beside", "within", "at once", "out of order"],
)
def test_time_in_which_several_things_are_at_work_counts_once(
    times: list[tuple[int, int]], seconds: float
) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    watch = Stopwatch(7)
    for each in times:
        watch.add([(begin + timedelta(seconds=each[0]), begin + timedelta(seconds=each[1]))])
    assert watch.seconds == 7 + seconds


def test_a_budget_of_money_is_kept_exactly() -> None:
    assert Budget(cost=0.1).limits.cost_limit == Decimal("0.1")


@pytest.mark.parametrize(("cost", "is_enough"), [(0.19, False), (0.2, True)])
@in_asyncio
async def test_a_turn_fails_that_costs_more_than_its_budget(
    tmp_path: Path, cost: float, is_enough: bool
) -> None:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        spent = RequestUsage(input_tokens=1, cost=Decimal("0.1"))
        last = TextPart("done") if len(messages) > 1 else ToolCallPart("look", {})
        return ModelResponse([last], usage=spent)

    app = new_app(tmp_path)
    agent = Agent(FunctionModel(respond), name="support", capabilities=[Durable[None]()])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    app.register(agent, budget=Budget(cost=cost))
    async with running(app):
        turn = asyncio.ensure_future(app.conversation("support", session_id="c").run("go"))
        if is_enough:
            assert isinstance(await turn, Finished)
        else:
            with pytest.raises(UsageLimitExceeded, match="cost_limit"):
                await turn


# Failures


@in_asyncio
async def test_a_turn_that_fails_says_why_and_the_next_one_reads_it(tmp_path: Path) -> None:
    async with Chats(tmp_path, durable={"retry": ONCE}).running() as chats:
        chat = chats.conversation("c")
        with pytest.raises(ValueError, match="the model is broken"):
            await chat.run("break")
        turn = await chat.run("hello")
    assert isinstance(turn, Finished)
    assert chats.model.seen[-1] == [
        "break",
        "[This turn failed: ValueError]",
        "hello",
    ]


# Forks


@in_asyncio
async def test_a_fork_goes_on_from_any_turn_and_leaves_the_session_alone(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        one = await chat.run("one")
        await chat.run("two")
        forked = await chat.fork(session_id="d", at=one.run_id)
        turn = await forked.run("three")
        assert isinstance(turn, Finished)
        assert chats.model.seen[-1] == ["one", "heard one", "three"]
        await chat.run("four")
        assert chats.model.seen[-1] == ["one", "heard one", "two", "heard two", "four"]
        await forked.run("five")
        assert chats.model.seen[-1] == ["one", "heard one", "three", "heard three", "five"]


@in_asyncio
async def test_a_fork_goes_on_from_an_aborted_turn_a_failed_one_and_another_fork(tmp_path: Path) -> None:
    async with Chats(tmp_path, durable={"retry": ONCE}).running() as chats:
        chat = chats.conversation("c")
        aborted = await chat.run("rm a")
        await chat.abort("not now")
        with pytest.raises(ValueError, match="broken"):
            await chat.run("break", id="failed")
        await chat.run("later")
        told = ["rm a", "[This turn was aborted: not now]"]
        after_abort = await chat.fork("d", at=aborted.run_id)
        assert isinstance(await after_abort.run("one"), Finished)
        assert chats.model.seen[-1] == [*told, "one"]
        (returned,) = returns_of(await after_abort.messages())
        assert returned.outcome == "denied"
        told += ["break", "[This turn failed: ValueError]"]
        after_failure = await chat.fork("e", at="failed")
        assert isinstance(await after_failure.run("two"), Finished)
        assert chats.model.seen[-1] == [*told, "two"]
        again = await after_failure.fork("f")
        assert isinstance(await again.run("three"), Finished)
        assert chats.model.seen[-1] == [*told, "two", "heard two", "three"]


@in_asyncio
async def test_a_fork_that_no_worker_has_looked_at_yet_has_what_it_begins_with(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        await chats.conversation("c").run("one")
    async with opened(Chats(tmp_path).app) as client:  # no worker
        forked = await Conversation(client, "support", session_id="c").fork("d")
        again = await forked.fork("e")
        assert texts_of(await forked.messages()) == texts_of(await again.messages()) == ["one", "heard one"]
        with pytest.raises(NotFound):
            await Conversation(client, "support", session_id="none").fork("f")
    async with Chats(tmp_path).running() as chats:
        assert isinstance(await chats.conversation("e").run("two"), Finished)
        assert chats.model.seen[-1] == ["one", "heard one", "two"]
        assert texts_of(await chats.conversation("d").messages()) == ["one", "heard one"]


@in_asyncio
async def test_only_an_ended_turn_of_the_session_is_forked_into_a_new_session(
    tmp_path: Path,
) -> None:
    async with Chats(tmp_path).running() as chats:
        chat, other = chats.conversation("c"), chats.conversation("d")
        foreign = await other.run("hello")
        with pytest.raises(NotFound):
            await chat.fork("e", at=foreign.run_id)
        waiting = await chat.run("rm a")
        with pytest.raises(InvalidState):
            await chat.fork("e", at=waiting.run_id)
        with pytest.raises(InvalidValue):
            await other.fork("c")


# Sub-agents


def with_sub_agent(chats: Chats) -> None:
    planner = Agent(
        FunctionModel(ObedientModel(["support"], argument="task")),
        name="planner",
        tools=[agent_tool("support")],
        capabilities=[Durable()],
    )
    chats.app.register(planner)


@in_asyncio
async def test_a_sub_agent_asks_and_its_question_is_answered_in_the_turn(tmp_path: Path) -> None:
    chats = Chats(tmp_path)
    with_sub_agent(chats)
    async with chats.running():
        chat = chats.app.conversation("planner", session_id="c")
        chats.model.prefix = "rm "
        turn = await chat.run("support x", context={"tenant": "t1"})
        assert isinstance(turn, Paused)
        assert (turn.payload["tool"], turn.pending[0].run_id != turn.run_id) == ("rm", True)
        assert chats.removed == []
        turn = await chat.respond(turn.pending[0].id, Approve())
        assert isinstance(turn, Finished)
    assert chats.removed == ["x"]
    assert chats.deps == [{"tenant": "t1"}]
    assert turn.output == "did: did: removed x"


@in_asyncio
async def test_aborting_a_turn_ends_its_sub_agents(tmp_path: Path) -> None:
    chats = Chats(tmp_path)
    with_sub_agent(chats)
    async with chats.running():
        chat = chats.app.conversation("planner", session_id="c")
        chats.model.prefix = "rm "
        turn = await chat.run("support x")
        assert isinstance(turn, Paused)
        await chat.abort()
        with pytest.raises(RunCancelled):
            await (await chats.client.get(turn.pending[0].run_id)).result(timeout=60)
        (returned,) = returns_of(await chat.messages())
        assert returned.outcome in ("denied", "interrupted")
    assert chats.removed == []


@in_asyncio
async def test_what_a_sub_agent_fails_with_is_read_by_the_model(tmp_path: Path) -> None:
    chats = Chats(tmp_path, durable={"retry": ONCE})
    with_sub_agent(chats)
    async with chats.running():
        chats.model.prefix = "break "
        turn = await chats.app.conversation("planner", session_id="c").run("support x")
    assert isinstance(turn, Finished)
    (returned,) = returns_of(turn.messages)
    assert returned.outcome == "failed"
    assert "the model is broken" in str(returned.content)


# Events


@in_asyncio
async def test_events_cover_all_turns_in_order_and_continue_after_a_known_one(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        one = await chat.run("one")
        two = await chat.run("two")
        events = [event async for event in chat.events()]
        assert [event.run_id for event in events] == sorted(
            (event.run_id for event in events), key=[one.run_id, two.run_id].index
        )
        assert [event.id for event in events] == sorted({event.id for event in events})
        ends = [event.run_id for event in events if event.entry.kind is EntryKind.SUCCEEDED]
        assert ends == [one.run_id, two.run_id]
        for place in (0, 3, len(events) - 1):
            rest = [event async for event in chat.events(after=events[place].id)]
            assert rest == events[place + 1 :]
