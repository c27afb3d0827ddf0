"""Executions from outside: answers, events, closing, and refusals."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from signoff import AlreadySettled, AsyncClient, IdConflict, NotFound, Signoff, WrongAnswer
from signoff.errors import RequestConflict
from signoff.flows import (
    Data,
    Execution,
    ExecutionClosed,
    Executions,
    Flow,
    PendingInterrupts,
    UnknownInterrupt,
)
from signoff.records import EntryKind, PromiseState
from signoff.testing import Environment, MemoryStore, environment
from tests.server.conftest import serving
from tests.support import in_asyncio, new_app, opened, until


def asking(*names: str, auto_close_timeout: float | None = None, **options: Any) -> Flow:
    """A flow that asks side by side, under chosen ids, and notes each answer; ``told`` notes an event."""
    flow = Flow("asking", auto_close_timeout=auto_close_timeout)
    for name in names:

        async def ask(data: Data[Any], name: str = name) -> Any:
            return await data.pause_for("text", {"question": f"{name}?"}, interrupt_id=name, **options)

        async def note(data: Data[Any], name: str = name) -> None:
            await data.set_state(name, data.input)

        # a chunk takes its data only
        flow.chunk(name=name)(_only_data(ask))
        flow.to(name).to(flow.chunk(name=f"note {name}")(_only_data(note)))

    def told(data: Data[Any]) -> None:
        data.append_state("told", data.input)

    flow.when("told").to(flow.chunk(told))
    return flow


def _only_data(function: Any) -> Any:
    async def chunk(data: Data[Any]) -> Any:
        return await function(data)

    return chunk


async def started(env: Environment, flow: Flow) -> Execution:
    execution = await Executions(env.client, flow.name).start("x", id="e")
    await env.idle()
    return execution


def registered(flow: Flow, **options: Any) -> Signoff:
    app = Signoff(MemoryStore())
    app.register(flow, **options)
    return app


async def pending(execution: Execution) -> list[str]:
    return list(await execution.get_pending_interrupts(wait_seconds=0))


@in_asyncio
async def test_of_two_answers_to_one_interrupt_the_second_gets_the_winner() -> None:
    async with environment(registered(asking("a"))) as env:
        execution = await started(env, asking("a"))
        await execution.continue_with("a", "first", user_id="ana")
        with pytest.raises(AlreadySettled, match="ana"):
            await execution.continue_with("a", "second", user_id="bob")
        await env.idle()
        assert await execution.close() == {"a": "first"}


@in_asyncio
async def test_a_request_id_answers_once_and_is_refused_for_another_value() -> None:
    async with environment(registered(asking("a"))) as env:
        execution = await started(env, asking("a"))
        for _ in range(3):
            await execution.continue_with("a", "yes", request_id="webhook-42")
        with pytest.raises(RequestConflict):
            await execution.continue_with("a", "no", request_id="webhook-42")
        await env.idle()
        await execution.continue_with("a", "yes", request_id="webhook-42")
        assert await execution.close() == {"a": "yes"}
        await execution.continue_with("a", "yes", request_id="webhook-42")


@in_asyncio
async def test_an_unknown_interrupt_is_refused_with_those_that_are_pending() -> None:
    async with environment(registered(asking("a", "b"))) as env:
        execution = await started(env, asking("a", "b"))
        for unknown in ("c", "e.77", "other.1", "", "a b\x00"):
            with pytest.raises(UnknownInterrupt, match="pending are a, b"):
                await execution.continue_with(unknown, "x")
        assert await pending(execution) == ["a", "b"]


@in_asyncio
async def test_the_interrupt_of_another_execution_is_unknown_here() -> None:
    async with environment(registered(asking("a"))) as env:
        execution = await started(env, asking("a"))
        other = await Executions(env.client, "asking").start("x", id="other")
        await env.idle()
        (question,) = [each.question_id for each in (await other.get_pending_interrupts()).values()]
        with pytest.raises(UnknownInterrupt):
            await execution.continue_with(question, "x")
        assert await pending(other) == ["a"]


@in_asyncio
async def test_a_wrong_answer_changes_nothing() -> None:
    async with environment(registered(asking("a"))) as env:
        execution = await started(env, asking("a"))
        for wrong in (None, 7, "", {"approved": True}):
            with pytest.raises(WrongAnswer):
                await execution.continue_with("a", wrong)
        assert await pending(execution) == ["a"]


@in_asyncio
async def test_closing_is_refused_while_a_question_is_open_and_loses_nothing() -> None:
    async with environment(registered(asking("a", "b"))) as env:
        execution = await started(env, asking("a", "b"))
        closing = asyncio.create_task(execution.close())
        await env.idle()
        with pytest.raises(PendingInterrupts, match="a, b"):
            await closing
        await execution.continue_with("a", "1")
        await execution.continue_with("b", "2")
        await env.idle()
        assert await execution.close() == {"a": "1", "b": "2"}


@in_asyncio
async def test_closing_may_cancel_what_is_asked_which_stays_on_record() -> None:
    async with environment(registered(asking("a", "b"))) as env:
        execution = await started(env, asking("a", "b"))
        asked = await execution.get_pending_interrupts(wait_seconds=0)
        await execution.continue_with("a", "1")
        await env.idle()
        assert await execution.close(pending_interrupts="cancel") == {"a": "1"}
        cancelled = await env.client.promises.get(asked["b"].question_id)
        assert cancelled.state is PromiseState.CANCELLED
        with pytest.raises(AlreadySettled, match="cancelled"):
            await execution.continue_with("b", "too late")
        assert await execution.close() == {"a": "1"}


@in_asyncio
async def test_an_answer_accepted_before_the_close_counts_whatever_it_cancels() -> None:
    async with environment(registered(asking("a", "b"))) as env:
        execution = await started(env, asking("a", "b"))
        await execution.continue_with("a", "1")
        assert await execution.close(pending_interrupts="cancel") == {"a": "1"}


def gated(gate: asyncio.Event) -> Flow:
    """A flow whose first chunk is at work until the gate opens, and asks then; ``told`` notes an event."""
    flow = asking(auto_close_timeout=None)

    @flow.chunk
    async def work(data: Data[Any]) -> Any:
        await gate.wait()
        return await data.pause_for("text", "after all?", interrupt_id="late")

    flow.to(work).to("told")
    return flow


@in_asyncio
async def test_an_event_during_a_close_is_accepted_if_the_close_is_refused() -> None:
    gate = asyncio.Event()
    app = registered(gated(gate))
    async with environment(app) as env:
        execution = await Executions(env.client, "asking").start("x", id="e")
        closing = [asyncio.create_task(execution.close()) for _ in range(2)]
        await until(AppOf(env), lambda: journal_has(execution, "signoff.flow", 2))
        await execution.emit("told", "meanwhile")
        await until(AppOf(env), lambda: journal_has(execution, "signoff.flow", 3))
        gate.set()
        for each in closing:
            with pytest.raises(PendingInterrupts, match="late"):
                await each
        await execution.continue_with("late", "answer")
        await env.idle()
        assert sorted((await execution.close())["told"]) == ["answer", "meanwhile"]


@in_asyncio
async def test_a_cancelling_close_stays_one_despite_other_closes() -> None:
    gate = asyncio.Event()
    app = registered(gated(gate))
    async with environment(app) as env:
        execution = await Executions(env.client, "asking").start("x", id="e")
        first = asyncio.create_task(execution.close(pending_interrupts="cancel"))
        await until(AppOf(env), lambda: journal_has(execution, "signoff.flow", 1))
        second = asyncio.create_task(execution.close())
        await until(AppOf(env), lambda: journal_has(execution, "signoff.flow", 2))
        gate.set()
        assert await asyncio.gather(first, second) == [{}, {}]


@dataclass
class AppOf:
    """What ``until`` needs of an app."""

    env: Environment

    @property
    def store(self) -> Any:
        return self.env.store


async def journal_has(execution: Execution, signal: str, times: int) -> bool:
    entries = await execution._client.backend.read_journal(execution.id)
    return sum(entry.name == signal and entry.kind is EntryKind.SIGNALLED for entry in entries) >= times


@in_asyncio
async def test_items_that_have_not_begun_do_not_begin_after_a_close_that_cancels() -> None:
    flow, begun = Flow("asking", auto_close_timeout=None), list[int]()

    @flow.chunk
    async def ask(data: Data[int]) -> Any:
        begun.append(data.input)
        return await data.pause_for("text", f"{data.input}?")

    flow.for_each(concurrency=1).to(ask).end_for_each()
    async with environment(registered(flow)) as env:
        execution = await Executions(env.client, "asking").start([1, 2, 3], id="e")
        await env.idle()
        assert await execution.close(pending_interrupts="cancel") == {}
        assert begun == [1]


@in_asyncio
async def test_signals_sent_by_hand_do_no_harm() -> None:
    async with environment(registered(asking("a"))) as env:
        execution = await started(env, asking("a"))
        for odd in (
            None,
            1,
            "close",
            [],
            {},
            {"close": "banana", "id": "x"},
            {"close": "refuse"},
            {"emit": 1},
        ):
            await env.client.signal("e", "signoff.flow", odd)
        await env.idle()
        assert await pending(execution) == ["a"]


@in_asyncio
async def test_over_http_an_execution_is_the_same(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    app.register(asking("a"))
    async with serving(app) as server, AsyncClient(server.url) as client:
        executions = Executions(client, "asking")
        execution = await executions.start("x", id="e/1")
        assert list(await execution.get_pending_interrupts(wait_seconds=60)) == ["a"]
        with pytest.raises(PendingInterrupts):
            await execution.close(timeout_seconds=60)
        with pytest.raises(UnknownInterrupt):
            await execution.continue_with("b", "no")
        with pytest.raises(WrongAnswer):
            await execution.continue_with("a", 7)
        for _ in range(2):
            await (await executions.attach("e/1")).continue_with("a", "yes", user_id="ana", request_id="r")
        with pytest.raises(AlreadySettled, match="ana"):
            await execution.continue_with("a", "no")
        await execution.emit("told", {"n": 1})
        assert await execution.close(timeout_seconds=60) == {"a": "yes", "told": [{"n": 1}]}
        with pytest.raises(ExecutionClosed):
            await execution.emit("told", 2)
        with pytest.raises(NotFound):
            await executions.attach("none")


@in_asyncio
async def test_a_closed_execution_takes_no_events() -> None:
    async with environment(registered(asking())) as env:
        flow = asking()
        execution = await started(env, flow)
        assert await execution.emit("told", 1, request_id="r")
        assert not await execution.emit("told", 1, request_id="r")
        with pytest.raises(RequestConflict):
            await execution.emit("told", 2, request_id="r")
        assert await execution.emit("nobody listens", 1)
        await env.idle()
        assert await execution.close() == {"told": [1]}
        with pytest.raises(ExecutionClosed):
            await execution.emit("told", 3)


@in_asyncio
async def test_what_was_emitted_before_the_close_is_done_before_the_end() -> None:
    async with environment(registered(asking())) as env:
        execution = await started(env, asking())
        for number in range(50):
            await execution.emit("told", number)
        assert sorted((await execution.close())["told"]) == list(range(50))


@in_asyncio
async def test_an_idle_execution_closes_but_never_with_an_open_question() -> None:
    async with environment(registered(asking("a", auto_close_timeout=60.0))) as env:
        execution = await started(env, asking("a"))
        await env.sleep(86_400)
        assert await pending(execution) == ["a"]
        await execution.continue_with("a", "yes")
        await env.sleep(59)
        assert not (await execution.status()).is_final
        await execution.emit("told", 1)
        await env.sleep(59)
        assert not (await execution.status()).is_final
        await env.sleep(2)
        assert await execution.result() == {"a": "yes", "told": [1]}


@in_asyncio
async def test_without_a_timeout_an_execution_stays_open() -> None:
    async with environment(registered(asking())) as env:
        execution = await started(env, asking())
        await env.sleep(365 * 86_400)
        assert not (await execution.status()).is_final
        assert await execution.close() == {}


@in_asyncio
async def test_an_unanswered_interrupt_fails_its_chunk_by_name() -> None:
    flow = asking("a", timeout_seconds=3600)
    async with environment(registered(flow)) as env:
        execution = await started(env, flow)
        with pytest.raises(Exception, match="chunk 'a' failed.*SignalTimeout"):
            await execution.result()


@in_asyncio
async def test_a_timeout_answer_applies_at_the_deadline() -> None:
    flow = asking("a", timeout_seconds=3600, timeout_answer="nobody", auto_close_timeout=0.0)
    async with environment(registered(flow)) as env:
        execution = await started(env, flow)
        assert await execution.result() == {"a": "nobody"}


@in_asyncio
async def test_an_execution_started_twice_with_one_id_is_started_once(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = asking("a")
    app.register(flow)
    async with opened(app), app.worker():
        first, second = await asyncio.gather(flow.start("x", id="e"), flow.start("x", id="e"))
        assert first.id == second.id
        assert list(await first.get_pending_interrupts()) == ["a"]
        with pytest.raises(IdConflict):
            await flow.start("y", id="e")


@in_asyncio
async def test_only_an_execution_of_the_flow_can_be_attached_to(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = asking("a")
    app.register(flow)

    @app.workflow
    async def other(ctx: object) -> None: ...

    async with opened(app) as client:
        await client.start(other, id="run")
        for unknown in ("run", "nothing"):
            with pytest.raises(NotFound):
                await flow.attach(unknown)
