"""Events: their listeners, answers to interrupts, and executions of an environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signoff import NotFound, Signoff, WrongAnswer
from signoff.errors import NotAllowed, RegistrationError, RequestConflict
from signoff.flows import AmbiguousEvent, Data, Execution, Executions, Flow
from signoff.records import EntryKind, PromiseState
from signoff.testing import MemoryStore, environment
from tests.flows.worlds import WORLDS, world
from tests.support import comes, in_asyncio, new_app, opened


def deciding(*ids: str, **options: Any) -> Flow:
    """A flow that asks for decisions, each of which becomes the event ``decided``."""
    flow = Flow("deciding", auto_close_timeout=None)

    @flow.chunk
    async def note(data: Data[Any]) -> None:
        await data.append_state("decided", data.input)

    for id in ids:

        def ask(data: Data[Any], id: str = id) -> Any:
            return data.pause_for(
                "approval", {"question": "Pay?"}, interrupt_id=id, resume_event="decided", **options
            )

        flow.chunk(name=f"ask {id}")(_of_data(ask))
        flow.to(f"ask {id}")
    flow.when("decided").to("note")
    return flow


def _of_data(function: Any) -> Any:
    def chunk(data: Data[Any]) -> Any:
        return function(data)

    return chunk


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_an_event_answers_the_interrupt_that_waits_for_it_once(tmp_path: Path, kind: str) -> None:
    async with world(kind, tmp_path, deciding("pay")) as executions:
        execution = await executions.start(id="e")
        (asked,) = (await execution.get_pending_interrupts()).values()
        with pytest.raises(WrongAnswer):
            await execution.emit("decided", "yes")
        assert await execution.emit("decided", {"approved": True}, user_id="ana", request_id="w")
        assert not await execution.emit("decided", {"approved": True}, user_id="ana", request_id="w")
        with pytest.raises(RequestConflict):
            await execution.emit("decided", {"approved": False}, request_id="w")
        assert await execution.get_pending_interrupts() == {}
        assert await execution.emit("decided", "later")  # no interrupt waits for it any more: it is an event
        assert await execution.close() == {"decided": [{"approved": True}, "later"]}
        assert asked.id == "pay"


@in_asyncio
async def test_an_event_answers_only_for_those_who_are_asked() -> None:
    app = Signoff(MemoryStore())
    app.register(deciding("pay", assignees=["user:ana"]))
    async with environment(app) as env:
        execution = await Executions(env.client, "deciding").start(id="e")
        await env.idle()
        with pytest.raises(NotAllowed):
            await execution.emit("decided", {"approved": True}, user_id="bob")
        await execution.emit("decided", {"approved": True}, user_id="ana")
        (question,) = [
            each for each in env.store.model.tables.promises.values() if each.state is PromiseState.RESOLVED
        ]
        assert question.settled_by == "ana"
        assert await execution.close() == {"decided": [{"approved": True}]}


@in_asyncio
async def test_an_event_that_several_interrupts_wait_for_answers_none_of_them() -> None:
    app = Signoff(MemoryStore())
    app.register(deciding("a", "b"))
    async with environment(app) as env:
        execution = await Executions(env.client, "deciding").start(id="e")
        await env.idle()
        with pytest.raises(AmbiguousEvent, match="waited for by a, b"):
            await execution.emit("decided", {"approved": True})
        assert set(await execution.get_pending_interrupts(wait_seconds=0)) == {"a", "b"}
        await execution.continue_with("a", {"approved": False})
        await env.idle()
        await execution.emit("decided", {"approved": True})
        assert await execution.close() == {"decided": [{"approved": False}, {"approved": True}]}


def deciding_when_asked() -> Flow:
    """A flow that asks for a decision for each event ``ask``; each becomes the event ``decided``."""
    flow = Flow("deciding", auto_close_timeout=None)

    @flow.chunk
    async def ask(data: Data[str]) -> Any:
        return await data.pause_for(
            "approval", {"question": "Pay?"}, interrupt_id=data.input, resume_event="decided"
        )

    @flow.chunk
    async def note(data: Data[Any]) -> None:
        await data.append_state("decided", data.input)

    flow.when("ask").to(ask)
    flow.when("decided").to(note)
    return flow


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_an_event_that_is_emitted_again_answers_no_later_interrupt(tmp_path: Path, kind: str) -> None:
    yes = {"approved": True}
    async with world(kind, tmp_path, deciding_when_asked()) as executions:
        execution = await executions.start(id="e")
        assert await execution.emit("decided", yes, request_id="early")  # no interrupt waits for it yet
        await execution.emit("ask", "a")
        await comes(lambda: _pending(execution, "a"))
        assert not await execution.emit("decided", yes, request_id="early")
        with pytest.raises(RequestConflict):
            await execution.emit("decided", {"approved": False}, request_id="early")
        assert await execution.emit("decided", yes, request_id="w", user_id="ana")
        for id in ("b", "c"):
            await execution.emit("ask", id)
        await comes(lambda: _pending(execution, "b", "c"))
        assert not await execution.emit("decided", yes, request_id="w", user_id="ana")
        with pytest.raises(RequestConflict):
            await execution.emit("decided", {"approved": False}, request_id="w")
        with pytest.raises(AmbiguousEvent):
            await execution.emit("decided", yes, request_id="new")
        assert await _pending(execution, "b", "c")


async def _pending(execution: Execution, *ids: str) -> bool:
    return set(await execution.get_pending_interrupts()) == set(ids)


def test_a_line_that_emits_what_no_line_begins_with_is_refused() -> None:
    flow = Flow("f")
    flow.to(_of_data(lambda data: None)).emit("payd")
    flow.when("paid").to("chunk")
    with pytest.raises(RegistrationError, match=r"'payd', which no line begins with.*lines begin with: paid"):
        Signoff(MemoryStore()).register(flow)


@in_asyncio
async def test_an_execution_notes_once_that_an_event_is_heard_by_no_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flow, app = Flow("f", auto_close_timeout=None), Signoff(MemoryStore())

    @flow.chunk
    def pay(data: Data[Any]) -> None:
        data.emit("payd")
        data.emit("payd")

    flow.to(pay)
    flow.when("paid").to("pay")
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "f").start(id="e")
        await env.idle()
        await execution.emit("payd", 1)
        assert await execution.close() == {}
        noted = [
            json.loads(entry.value or "{}")
            for entry in await env.client.backend.read_journal("e")
            if entry.kind is EntryKind.PROGRESSED
        ]
        assert noted == [{"event": "payd", "lines_begin_with": ["paid"]}]
        assert caplog.text.count("event 'payd' starts no line of the flow; lines start with paid") == 1


@in_asyncio
async def test_an_empty_event_is_refused() -> None:
    app = Signoff(MemoryStore())
    app.register(deciding("pay"))
    async with environment(app) as env:
        execution = await Executions(env.client, "deciding").start(id="e")
        for empty in ("", "  "):
            with pytest.raises(RegistrationError, match="not empty"):
                await execution.emit(empty)


@in_asyncio
async def test_a_flow_started_in_an_environment_lets_time_pass(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = Flow("f", auto_close_timeout=3600.0)

    @flow.chunk
    def keep(data: Data[Any]) -> None:
        data.set_state("kept", data.input)

    flow.to(keep)
    app.register(flow)
    async with environment(app) as env:
        execution = await flow.start("x", id="e")
        assert (await env.client.backend.get_run("e")).workflow == "f"
        assert await execution.result() == {"kept": "x"}
        assert await (await flow.attach("e")).result() == {"kept": "x"}
    async with opened(app):
        with pytest.raises(NotFound):
            await flow.attach("e")
        await flow.start("x", id="outside")
        assert (await app.store.get_run("outside")).id == "outside"
