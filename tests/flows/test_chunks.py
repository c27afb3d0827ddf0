"""Chunks: commits, failures, resources, and pauses."""

from __future__ import annotations

import asyncio
import functools
import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from signoff import RetryPolicy, Signoff
from signoff.errors import InvalidValue, RegistrationError, RunFailed, SignoffError
from signoff.flows import ChunkFailed, ChunkHeld, Data, Executions, Flow, MissingResource
from signoff.records import PromiseState, RunState
from signoff.testing import MemoryStore, after_step, at_pause, environment
from tests.flows.registered_flows import ended, new_flow, registered
from tests.support import in_asyncio

AT_ONCE = RetryPolicy(initial_seconds=0.0, max_attempts=3)


class Order(BaseModel):
    id: str
    cents: int


@dataclass
class Refund:
    order: Order
    cents: int


@in_asyncio
async def test_what_a_failed_attempt_wrote_and_emitted_is_not_there() -> None:
    flow, attempts = new_flow(), 0

    @flow.chunk(retry=AT_ONCE)
    async def write(data: Data[Any]) -> None:
        nonlocal attempts
        attempts += 1
        await data.set_state(f"attempt {attempts}", True)
        await data.append_state("list", attempts)
        await data.emit("told", attempts)
        if attempts < 3:
            raise ConnectionError

    @flow.chunk
    def told(data: Data[Any]) -> None:
        data.append_state("told", data.input)

    flow.to(write)
    flow.when("told").to(told)
    assert await ended(flow) == {"attempt 3": True, "list": [3], "told": [3]}


@in_asyncio
async def test_a_chunk_that_dies_before_its_record_is_written_leaves_nothing() -> None:
    flow = new_flow()

    @flow.chunk
    def write(data: Data[Any]) -> None:
        data.add_state("writes")
        data.emit("told")

    @flow.chunk
    def told(data: Data[Any]) -> None:
        data.add_state("told")

    flow.to(write)
    flow.when("told").to(told)
    async with environment(registered(flow)) as env:
        env.crash(at=after_step("write"))
        execution = await Executions(env.client, "f").start()
        assert await execution.result() == {"writes": 1, "told": 1}
        assert not env.pending_crashes


@in_asyncio
async def test_a_failing_chunk_fails_the_execution_by_name_and_keeps_questions() -> None:
    flow = new_flow()

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        return await data.pause_for("approval", {"question": "?"})

    @flow.chunk(retry=AT_ONCE)
    async def fail(data: Data[Any]) -> None:
        raise ConnectionError(f"no line to {data.input}")

    flow.to(ask)
    flow.when("go").to(fail)
    async with environment(registered(flow)) as env:
        execution = await Executions(env.client, "f").start("x")
        await env.idle()
        (asked,) = (await execution.get_pending_interrupts(wait_seconds=0)).values()
        await execution.emit("go", {"order": 7})
        with pytest.raises(ChunkFailed, match="no line to") as failed:
            await execution.result()
        assert (failed.value.chunk, failed.value.input) == ("fail", '{"order":7}')
        question = await env.client.promises.get(asked.question_id)
        assert question.state is PromiseState.PENDING
        run = await env.client.backend.get_run(execution.id)
        assert (run.state, run.retryable) == (RunState.FAILED, True)


@in_asyncio
async def test_a_chunk_of_a_sub_flow_is_named_with_its_flow() -> None:
    inner, flow = Flow("inner"), new_flow()

    @inner.chunk(retry=AT_ONCE)
    def fail(data: Data[Any]) -> None:
        raise ValueError("no")

    inner.to(fail)
    flow.to(inner)
    with pytest.raises(ChunkFailed) as failed:
        await ended(flow, 1)
    assert failed.value.chunk == "inner/fail"


@in_asyncio
async def test_a_pause_in_a_task_group_leaves_the_chunk_though_errors_are_caught() -> None:
    flow = new_flow()

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pausing(data))
        except Exception:
            return "not reached"
        finally:
            await asyncio.sleep(0)  # cleaning up is fine
        return "not reached"

    flow.to(ask).to(_keeps(flow))
    async with environment(registered(flow)) as env:
        execution = await Executions(env.client, "f").start()
        await env.idle()
        (asked,) = await execution.get_pending_interrupts(wait_seconds=0)
        await execution.continue_with(asked, "answer")
        assert await execution.result() == {"kept": "answer"}


async def _pausing(data: Data[Any]) -> None:
    await data.pause_for("text", "why?")


def _keeps(flow: Flow) -> str:
    def keep(data: Data[Any]) -> None:
        data.set_state("kept", data.input)

    flow.chunk(keep)
    return "keep"


@in_asyncio
async def test_a_plain_function_pauses_by_returning_the_pause() -> None:
    flow = new_flow()

    @flow.chunk
    def ask(data: Data[Any]) -> Any:
        return data.pause_for("select", {"question": "which?", "options": ["a", "b"]})

    flow.to(ask).to(_keeps(flow))
    async with environment(registered(flow)) as env:
        env.people.answer("which?", "b")
        assert await (await Executions(env.client, "f").start()).result() == {"kept": "b"}


@in_asyncio
async def test_an_error_after_a_pause_was_asked_for_is_the_chunks_error() -> None:
    flow = new_flow()

    @flow.chunk(retry=AT_ONCE)
    def ask(data: Data[Any]) -> Any:
        data.pause_for("text", "?")
        raise ValueError("broken")

    flow.to(ask)
    with pytest.raises(ChunkFailed, match="broken"):
        await ended(flow)


@in_asyncio
async def test_what_fails_beside_a_pause_is_the_chunks_error() -> None:
    flow = new_flow()

    @flow.chunk(retry=AT_ONCE)
    async def ask(data: Data[Any]) -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pausing(data))
            group.create_task(_failing())

    flow.to(ask)
    with pytest.raises(ChunkFailed, match="broken"):
        await ended(flow)


async def _failing() -> None:
    raise ValueError("broken")


@in_asyncio
async def test_a_payload_is_shown_as_it_was_given() -> None:
    for payload in ({"interrupt": 1, "payload": 2, "id": 3}, ["a"], "text", None, {}):
        flow = new_flow()
        flow.chunk(name="ask")(_asking_with(payload))
        flow.to("ask")
        async with environment(registered(flow)) as env:
            execution = await Executions(env.client, "f").start()
            await env.idle()
            (asked,) = (await execution.get_pending_interrupts(wait_seconds=0)).values()
            assert asked.payload == payload


def _asking_with(payload: Any) -> Callable[[Data[Any]], Any]:
    async def ask(data: Data[Any]) -> Any:
        return await data.pause_for("text", payload)

    return ask


@in_asyncio
async def test_a_chunk_that_resumes_to_itself_too_often_fails_by_name() -> None:
    for max_resumes, resumed in ((1, 1), (3, 3)):
        flow, seen = new_flow(), list[int]()
        flow.chunk(name="again")(_again(seen, max_resumes))
        flow.to("again")
        async with environment(registered(flow)) as env:
            execution = await Executions(env.client, "f").start()
            for _ in range(resumed):
                await env.idle()
                (asked,) = await execution.get_pending_interrupts(wait_seconds=0)
                await execution.continue_with(asked, "no")
            with pytest.raises(ChunkFailed, match=f"was resumed {max_resumes} times and pauses again"):
                await execution.result()
            assert seen == list(range(1, resumed + 1))


def _again(seen: list[int], max_resumes: int | None) -> Callable[[Data[Any]], Any]:
    async def again(data: Data[Any]) -> Any:
        if data.resume is not None:
            seen.append(data.resume.count)
            assert data.is_resume
            if data.resume.value == "yes":
                return data.resume.value
        return await data.pause_for("text", "again?", resume_to="self", max_resumes=max_resumes)

    return again


@in_asyncio
async def test_without_max_resumes_a_chunk_may_ask_without_limit() -> None:
    flow, seen = new_flow(), list[int]()
    flow.chunk(name="again")(_again(seen, None))
    flow.to("again").to(_keeps(flow))
    async with environment(registered(flow)) as env:
        execution = await Executions(env.client, "f").start()
        for round in range(30):
            await env.idle()
            (asked,) = await execution.get_pending_interrupts(wait_seconds=0)
            await execution.continue_with(asked, "no" if round < 29 else "yes")
        assert await execution.result() == {"kept": "yes"}
        assert seen == list(range(1, 31))


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"resume_to": "nxt"}, RegistrationError, "'next', 'self' or"),
    ({"resume_to": {"event": "nobody"}}, RegistrationError, "which no line begins with"),
    ({"resume_to": {"event": ""}}, RegistrationError, "not empty"),
    ({"resume_to": {"event": "go", "and": 1}}, RegistrationError, "'next', 'self' or"),
    ({"max_resumes": 0}, InvalidValue, "at least 1"),
    ({"type": ""}, RegistrationError, "not empty"),
    ({"type": "review", "schema": {"type": "banana"}}, RegistrationError, "not a JSON Schema"),
    ({"type": "approval", "schema": {"type": "object"}}, RegistrationError, "belongs to a form"),
    ({"type": "select"}, RegistrationError, "required for select"),
    ({"assignee": "ana"}, RegistrationError, "no option 'assignee'"),
    ({"payload": len}, SignoffError, "payload"),
    ({"interrupt_id": ""}, InvalidValue, "id"),
    ({"payload": {"signoff.interrupt": 1}}, RegistrationError, "is reserved"),
    ({"skippable": True, "type": "text", "min_length": "x"}, SignoffError, ""),
]


@pytest.mark.parametrize(("arguments", "error", "said"), WRONG, ids=[str(each[0]) for each in WRONG])
@in_asyncio
async def test_a_wrong_pause_is_refused_where_it_is_written(
    arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    flow, seen = new_flow(), list[Exception]()

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        try:
            return await data.pause_for(**arguments)
        except Exception as refused:
            seen.append(refused)
            raise

    @flow.chunk
    def go(data: Data[Any]) -> None: ...

    flow.to(ask)
    flow.when("go").to(go)
    with pytest.raises(ChunkFailed, match="chunk 'ask' failed"):
        await ended(flow)
    (refused,) = seen
    assert isinstance(refused, error)
    assert said in str(refused)


@in_asyncio
async def test_an_interrupt_id_is_taken_once_while_it_is_open() -> None:
    flow = new_flow()

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        return await data.pause_for("text", f"{data.input}?", interrupt_id="mine")

    flow.to(ask).to(ask)
    flow.when("again").to(ask)
    async with environment(registered(flow)) as env:
        execution = await Executions(env.client, "f").start("x")
        await env.idle()
        await execution.continue_with("mine", "once")
        await env.idle()
        assert list(await execution.get_pending_interrupts(wait_seconds=0)) == ["mine"]
        await execution.emit("again", "y")
        with pytest.raises(ChunkFailed, match="'mine' is already open"):
            await execution.result()


@in_asyncio
async def test_resources_are_provided_by_the_worker_and_never_saved() -> None:
    class Service:
        def approve(self, ticket: str) -> str:
            return f"approved {ticket}"

    flow = new_flow().requires("service")

    @flow.chunk
    def use(data: Data[str]) -> None:
        data.set_state("said", data.require("service").approve(data.input))

    flow.to(use)
    assert await ended(flow, "t-1", resources={"service": Service()}) == {"said": "approved t-1"}


@in_asyncio
async def test_without_a_resource_no_chunk_runs_and_the_run_can_be_retried() -> None:
    flow, ran = new_flow().requires("service", "clock"), list[object]()

    @flow.chunk
    def use(data: Data[Any]) -> None:
        ran.append(data.require("service"))

    flow.to(use)
    async with environment(registered(flow, resources={"clock": 1})) as env:
        execution = await Executions(env.client, "f").start(id="e")
        with pytest.raises((MissingResource, RunFailed), match="requires service, which this worker"):
            await execution.result()
        run = await env.client.backend.get_run("e")
        assert (run.state, run.retryable, ran) == (RunState.FAILED, True, [])
    with pytest.raises(RegistrationError, match="does not require 'other'"):
        registered(flow, resources={"other": 1})


@in_asyncio
async def test_a_chunk_may_use_only_what_the_flow_says_that_it_requires() -> None:
    flow = new_flow()

    @flow.chunk
    def use(data: Data[Any]) -> None:
        data.require("service")

    flow.to(use)
    with pytest.raises(ChunkFailed, match="which the flow does not require"):
        await ended(flow)


@in_asyncio
async def test_a_chunk_gets_what_its_data_declares() -> None:
    flow = new_flow(input=Order)

    @flow.chunk
    def refund(data: Data[Order]) -> Refund:
        return Refund(data.input, data.input.cents // 2)

    @flow.chunk
    def pay(data: Data[Refund]) -> None:
        data.set_state("paid", data.input.order.cents - data.input.cents)

    flow.to(refund).to(pay)
    assert await ended(flow, {"id": "o-1", "cents": 500}) == {"paid": 250}
    flow.bind(Signoff(MemoryStore()))
    with pytest.raises(InvalidValue, match="cents"):
        await flow.start({"id": "o-1", "cents": "many"})


@in_asyncio
async def test_the_state_at_the_end_must_be_what_the_flow_declares() -> None:
    class Decision(BaseModel):
        approved: bool

    async def of(value: Any) -> Any:
        flow = new_flow(output=Decision)

        @flow.chunk
        def decide(data: Data[Any]) -> None:
            data.set_state("approved", value)

        flow.to(decide)
        return await ended(flow)

    assert await of(True) == {"approved": True}
    with pytest.raises(InvalidValue, match="approved"):
        await of("banana")


@in_asyncio
async def test_adding_and_appending_lose_nothing_beside_others() -> None:
    flow = new_flow()

    @flow.chunk
    async def note(data: Data[int]) -> None:
        await data.append_state("all", data.input)
        await data.add_state("sum", data.input)

    flow.for_each().to(note).end_for_each()
    state = await ended(flow, list(range(40)))
    assert (sorted(state["all"]), state["sum"]) == (list(range(40)), sum(range(40)))
    with pytest.raises(ChunkFailed, match="not a number"):
        await ended(_adds_to_text())


def _adds_to_text() -> Flow:
    flow = new_flow()

    @flow.chunk(retry=AT_ONCE)
    def add(data: Data[Any]) -> None:
        data.set_state("text", "x")
        data.add_state("text")

    flow.to(add)
    return flow


@in_asyncio
async def test_a_once_chunk_that_was_interrupted_is_a_persons_affair() -> None:
    flow = new_flow()

    @flow.chunk(effect="once")
    def pay(data: Data[Any]) -> str:
        return "paid"

    flow.to(pay).to(_keeps(flow))
    async with environment(registered(flow)) as env:
        env.crash(at=after_step("pay"))
        env.people.answer("Step 'pay' was interrupted*", {"action": "done", "result": "paid by hand"})
        assert await (await Executions(env.client, "f").start()).result() == {"kept": "paid by hand"}


class Price(BaseModel):
    cents: int

    @field_validator("cents", mode="before")
    @classmethod
    def from_euros(cls, euros: int) -> int:
        return euros * 100


class Parcel(BaseModel):
    id: str


class Gift(Parcel):
    card: str = "with love"


def price(data: Data[int]) -> Price:
    return Price(cents=data.input)


def parcel(data: Data[int]) -> Parcel:
    return Gift(id="o-1")


@pytest.mark.parametrize("make", [price, parcel])
@in_asyncio
async def test_an_output_that_would_come_back_changed_is_refused(make: Callable[[Data[int]], Any]) -> None:
    flow, seen, made = Flow("f", auto_close_timeout=0.0), list[object](), list[int]()

    @functools.wraps(make)
    def once(data: Data[int]) -> Any:
        made.append(data.input)
        return make(data)

    @flow.chunk
    def see(data: Data[Any]) -> None:
        seen.append(data.input)

    flow.to(flow.chunk(once)).to(see)
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        await Executions(env.client, "f").start(7, id="e")
        await env.idle()
        run = await env.client.backend.get_run("e")
    assert (run.state, run.retryable, seen, made) == (RunState.FAILED, True, [], [7])


numbers = itertools.count(1)


class Numbered(BaseModel):
    cents: int
    id: uuid.UUID = Field(default_factory=uuid.uuid4)


@dataclass
class Counted:
    cents: int
    number: int = field(default_factory=lambda: next(numbers))


@pytest.mark.parametrize("type", [Numbered, Counted])
@in_asyncio
async def test_what_a_type_makes_of_an_input_is_made_once(type: Any) -> None:
    flow, seen = new_flow(), list[Any]()

    async def pay(data: Data[Any]) -> Any:
        seen.append(data.input)
        if len(seen) == 1:
            raise ValueError("once more")
        if data.resume is None:
            return await data.pause_for("approval", {"question": "Pay?"}, resume_to="self", interrupt_id="q")
        return None

    pay.__annotations__["data"] = Data[type]
    flow.chunk(retry=AT_ONCE)(pay)
    flow.to("pay")
    async with environment(registered(flow)) as env:
        env.crash(at=at_pause())
        execution = await Executions(env.client, "f").start({"cents": 5}, id="e")
        await execution.continue_with("q", {"approved": True})
        await execution.result()
        first, *others = seen
        assert others == [first, first]
        steps = [entry.name for entry in await env.store.read_journal("e")]
        assert steps.count("pay: input") == 1


@in_asyncio
async def test_an_input_that_says_all_is_journaled_once() -> None:
    flow = new_flow()

    @flow.chunk
    async def pay(data: Data[Numbered]) -> None:
        data.set_state("cents", data.input.cents)

    flow.to(pay)
    async with environment(registered(flow)) as env:
        execution = await Executions(env.client, "f").start({"cents": 5, "id": str(uuid.uuid4())}, id="e")
        assert await execution.result() == {"cents": 5}
        assert "pay: input" not in [entry.name for entry in await env.store.read_journal("e")]


UNFIT: list[tuple[Callable[[Data[Any]], Any], Any, Any]] = [
    (lambda data: data.append_state("key", 1), "text", [1]),
    (lambda data: data.add_state("key", 2), "text", 2),
    (lambda data: data.append_state("key", 1), ["text"], ["text", 1]),
    (lambda data: data.add_state("key", 1e308), 1.7e308, 1e308),
    (lambda data: data.add_state("key", 0.5), 10**400, 0.5),
]


@pytest.mark.parametrize(("write", "first", "last"), UNFIT)
@in_asyncio
async def test_of_chunks_side_by_side_whose_writes_do_not_fit_the_last_one_wins(
    write: Callable[[Data[Any]], Any], first: Any, last: Any
) -> None:
    flow, has_written = Flow("f", auto_close_timeout=0.0), asyncio.Event()

    @flow.chunk
    def early(data: Data[Any]) -> None:
        data.set_state("key", first)

    @flow.chunk
    def then(data: Data[Any]) -> None:
        has_written.set()

    @flow.chunk
    async def late(data: Data[Any]) -> None:
        write(data)
        await has_written.wait()

    flow.batch(late, early=flow.branch().to(early).to(then))
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        assert await (await Executions(env.client, "f").start()).result() == {"key": last}


@in_asyncio
async def test_a_sum_that_json_does_not_have_is_refused_where_it_is_written() -> None:
    flow = Flow("f", auto_close_timeout=0.0)

    @flow.chunk
    def add(data: Data[Any]) -> None:
        data.add_state("key", 1e308)

    flow.to(add).to("add")
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "f").start(id="e")
        with pytest.raises(ChunkHeld, match="'add#2' failed .*state.key"):
            await execution.result()
