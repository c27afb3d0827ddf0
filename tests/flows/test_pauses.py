"""A pause that is not awaited, or where pausing is impossible, is an error: nothing continues unanswered."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, RetryPolicy, Signoff
from signoff.errors import RegistrationError
from signoff.flows import ChunkFailed, ChunkHeld, Data, Executions, Flow
from signoff.flows.pauses import OPTIONS
from signoff.people.questions.business_hours import BusinessHours
from signoff.records import RunState
from signoff.testing import MemoryStore, environment
from tests.flows.worlds import WORLDS, world
from tests.support import in_asyncio

PAY = {"question": "Pay?"}


async def forgotten(data: Data[Any]) -> str:
    data.pause_for("approval", PAY)
    return "paid"


def forgotten_in_a_plain_function(data: Data[Any]) -> str:
    data.pause_for("approval", PAY)
    return "paid"


async def kept_in_a_variable(data: Data[Any]) -> str:
    kept = [data.pause_for("approval", PAY)]
    return f"paid {len(kept)}"


def kept_in_a_list(data: Data[Any]) -> Any:
    return [data.pause_for("approval", PAY)]


async def subscripted(data: Data[Any]) -> str:
    return "paid" if data.pause_for("approval", PAY)["approved"] else "refused"  # type: ignore[index]


async def asked_whether_it_is_true(data: Data[Any]) -> str:
    return "paid" if data.pause_for("approval", PAY) else "refused"


async def forgotten_in_the_second_turn(data: Data[Any]) -> str:
    data.pause_for("approval", PAY, resume_to="self", max_resumes=None)
    return "paid"


async def bare_except(data: Data[Any]) -> str:
    try:
        await data.pause_for("approval", PAY)
    except:  # noqa: E722
        return "paid"
    return "not reached"


async def except_base_exception(data: Data[Any]) -> str:
    with contextlib.suppress(BaseException):
        await data.pause_for("approval", PAY)
    return "paid"


async def returning_in_finally(data: Data[Any]) -> str:
    try:
        await data.pause_for("approval", PAY)
    finally:
        return "paid"  # noqa: B012


async def gathered(data: Data[Any]) -> str:
    await asyncio.gather(data.pause_for("approval", PAY), return_exceptions=True)
    return "paid"


async def in_a_task_that_is_dropped(data: Data[Any]) -> str:
    async def ask() -> None:
        await data.pause_for("approval", PAY)

    task = asyncio.create_task(ask())
    await asyncio.wait([task])
    return "paid"


async def in_a_caught_group(data: Data[Any]) -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_ask(data))
    except BaseException:
        return "paid"
    return "not reached"


async def _ask(data: Data[Any]) -> None:
    await data.pause_for("approval", PAY)


async def in_a_task_that_nobody_awaits(data: Data[Any]) -> str:
    in_a_task_that_nobody_awaits.task = asyncio.create_task(_ask(data))  # type: ignore[attr-defined]
    return "paid"


async def paying_after_it_caught_it(data: Data[Any]) -> str:
    with contextlib.suppress(BaseException):
        await data.pause_for("approval", PAY)
    raise ConnectionError("paid, and the line broke")


async def waited_for_as_a_task(data: Data[Any]) -> str:
    await asyncio.wait([asyncio.create_task(data.pause_for("approval", PAY))])
    return "paid"


async def shielded_and_caught(data: Data[Any]) -> str:
    with contextlib.suppress(BaseException):
        await asyncio.shield(data.pause_for("approval", PAY))
    return "paid"


async def a_coroutine_that_is_returned(data: Data[Any]) -> Any:
    return _ask(data)


def a_coroutine_of_a_plain_function(data: Data[Any]) -> Any:
    return _ask(data)


IGNORED = [
    forgotten,
    forgotten_in_a_plain_function,
    kept_in_a_variable,
    kept_in_a_list,
    subscripted,
    asked_whether_it_is_true,
    forgotten_in_the_second_turn,
    bare_except,
    except_base_exception,
    returning_in_finally,
    gathered,
    in_a_task_that_is_dropped,
    in_a_caught_group,
    in_a_task_that_nobody_awaits,
    paying_after_it_caught_it,
    waited_for_as_a_task,
    shielded_and_caught,
]


async def in_a_task(data: Data[Any]) -> Any:
    return await asyncio.create_task(data.pause_for("approval", PAY))


async def awaited_in_a_gather(data: Data[Any]) -> Any:
    return await asyncio.gather(data.pause_for("approval", PAY), asyncio.sleep(0))


async def in_time(data: Data[Any]) -> Any:
    async with asyncio.timeout(3600):
        return await asyncio.wait_for(data.pause_for("approval", PAY), 3600)


async def in_a_group(data: Data[Any]) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(_ask(data))


def in_a_loop_of_its_own(data: Data[Any]) -> Any:
    return asyncio.run(_ask(data))


async def raising_its_own(data: Data[Any]) -> Any:
    try:
        return await data.pause_for("approval", PAY)
    except BaseException as error:
        raise RuntimeError("it did not work") from error


ASKED = [in_a_task, awaited_in_a_gather, in_time, in_a_group, in_a_loop_of_its_own, raising_its_own]


@pytest.mark.parametrize("chunk", ASKED, ids=lambda chunk: chunk.__name__)
@in_asyncio
async def test_a_pause_is_asked_however_it_is_awaited(chunk: Callable[[Data[Any]], Any]) -> None:
    flow, came = refunding(chunk)
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "f").start("x")
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert "{'approved': True}" not in came
        await env.client.answer(question.id, True, user_id="ana")
        await env.idle()
        assert await execution.status() is RunState.PAUSED
    assert "{'approved': True}" in came


def refunding(chunk: Callable[[Data[Any]], Any]) -> tuple[Flow, list[str]]:
    """A flow with a chunk that writes and emits, and what came behind it."""
    flow, came = Flow("f", auto_close_timeout=None), list[str]()

    def plain(data: Data[Any]) -> Any:
        data.set_state("paid", True)
        data.emit("paid")
        return chunk(data)

    async def asynchronous(data: Data[Any]) -> Any:
        return await plain(data)

    def later(data: Data[Any]) -> None:
        came.append(str(data.input))

    flow.chunk(name="refund")(asynchronous if inspect.iscoroutinefunction(chunk) else plain)
    flow.chunk(later)
    flow.to("refund").to("later")
    flow.when("paid").to("later")
    flow.when({"state": "paid"}).to("later")
    return flow, came


@pytest.mark.parametrize("chunk", IGNORED, ids=lambda chunk: chunk.__name__)
@in_asyncio
async def test_a_chunk_that_ignores_its_pause_fails_once_with_the_line(
    chunk: Callable[[Data[Any]], Any],
) -> None:
    flow, came = refunding(chunk)
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "f").start("x")
        await env.idle()
        assert await execution.status() is RunState.FAILED
        assert (await env.client.questions()).items == ()
        with pytest.raises(ChunkFailed, match=rf"chunk .refund. .*{__file__}:\d+") as failed:
            await execution.result()
        assert failed.value.chunk == "refund"
        assert came == []
        assert (
            sum((place.when, place.what, place.name) == ("before", "step", "refund") for place in env.places)
            == 1
        )


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_a_pause_is_not_ignored_anywhere(tmp_path: Path, kind: str) -> None:
    flow, came = refunding(bare_except)
    async with world(kind, tmp_path, flow) as executions:
        execution = await executions.start("x", id="e")
        with pytest.raises(ChunkFailed, match="went on unanswered"):
            await execution.result(60)
        assert await execution.get_pending_interrupts() == {}
        assert came == []


@pytest.mark.parametrize("chunk", [a_coroutine_that_is_returned, a_coroutine_of_a_plain_function])
@in_asyncio
async def test_a_chunk_that_returns_an_unawaited_pause_fails(chunk: Callable[[Data[Any]], Any]) -> None:
    flow, came = refunding(chunk)
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        with pytest.raises(ChunkFailed, match="returned coroutine _ask, which no code awaits"):
            await (await Executions(env.client, "f").start("x")).result()
        assert came == []


@in_asyncio
async def test_what_a_chunk_does_after_it_has_ended_is_refused() -> None:
    flow, app, refused = Flow("f", auto_close_timeout=0.0), Signoff(MemoryStore()), list[str]()

    @flow.chunk
    async def hasty(data: Data[Any]) -> None:
        async def later() -> None:
            await ended.wait()
            for leave in (
                lambda: data.pause_for("approval", PAY),
                lambda: data.set_state("a", 1),
                lambda: data.emit("e"),
            ):
                with pytest.raises(RegistrationError, match="after it has ended") as caught:
                    leave()
                refused.append(str(caught.value))

        tasks.append(asyncio.create_task(later()))

    tasks, ended = list[asyncio.Task[None]](), asyncio.Event()
    flow.to(hasty)
    app.register(flow)
    async with environment(app) as env:
        assert await (await Executions(env.client, "f").start("x")).result() == {}
        ended.set()
        await asyncio.gather(*tasks)
    assert len(refused) == 3


class Refund:
    """A chunk, and a condition, that is an object."""

    async def __call__(self, data: Data[Any]) -> Any:
        await asyncio.sleep(0)
        return data.input == "x"


@in_asyncio
async def test_partials_of_async_functions_and_async_callables_are_chunks() -> None:
    async def refund(order: str, data: Data[Any]) -> str:
        await asyncio.sleep(0)
        return f"{order} {data.input}"

    async def keep(data: Data[Any]) -> None:
        data.append_state("kept", data.input)

    flow, app = Flow("f", auto_close_timeout=0.0), Signoff(MemoryStore())
    flow.chunk(name="object")(Refund())
    flow.chunk(name="partial")(functools.partial(refund, "o-1"))
    flow.chunk(keep)
    flow.to("partial").to("keep")
    flow.to("object").to("keep")
    app.register(flow)
    async with environment(app) as env:
        state = await (await Executions(env.client, "f").start("x")).result()
        assert sorted(map(str, state["kept"])) == ["True", "o-1 x"]


def test_a_generator_function_is_no_chunk() -> None:
    def plain(data: Data[Any]) -> Any:
        yield data

    async def asynchronous(data: Data[Any]) -> Any:
        yield data

    for function in (plain, asynchronous):
        with pytest.raises(RegistrationError, match="generator function"):
            Flow("f").chunk(function)


def test_every_option_of_a_question_comes_through_a_pause() -> None:
    given = inspect.signature(Context.wait_for_user).parameters
    assert set(given) - {"self", "question", "input_type", "answer_type", "metadata"} == set(OPTIONS)


HOURS = [
    BusinessHours("Europe/Berlin"),
    BusinessHours("Europe/Berlin", "mon-thu", ("08:00", "16:00"), [date(2026, 12, 25), date(2027, 1, 1)]),
    BusinessHours("Asia/Tokyo", ["mon", "wed"], [("09:00", "12:00"), ("13:00", "17:00")]),
]


@pytest.mark.parametrize("hours", HOURS)
@in_asyncio
async def test_business_hours_count_for_a_pause_as_for_any_question(hours: BusinessHours) -> None:
    def asking() -> Signoff:
        app, flow = Signoff(MemoryStore()), Flow("f", auto_close_timeout=None)

        @flow.chunk
        async def ask(data: Data[Any]) -> Any:
            return await data.pause_for(
                "approval", PAY, hours=hours, timeout_seconds=10 * 3600, remind_every=3600
            )

        @app.workflow
        async def plain(ctx: Context) -> None:
            await ctx.wait_for_user("Pay?", hours=hours, timeout_seconds=10 * 3600, remind_every=3600)

        flow.to(ask)
        app.register(flow)
        return app

    async with environment(asking()) as env:
        await env.client.start("plain", id="plain")
        await Executions(env.client, "f").start(id="flow")
        await env.idle()
        policies = {
            question.run_id: (json.loads(question.data or "{}")["policy"], question.act_at, question.due_at)
            for question in (await env.client.questions()).items
        }
        assert policies["flow"] == policies["plain"]
        assert policies["flow"][0]


@in_asyncio
async def test_an_interrupt_says_how_often_its_chunk_was_resumed() -> None:
    flow, app = Flow("f", auto_close_timeout=0.0), Signoff(MemoryStore())

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        if data.resume is None or data.resume.count < 2:
            await data.pause_for("text", {"question": "?"}, resume_to="self", max_resumes=3, interrupt_id="q")

    flow.to(ask)
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "f").start()
        for count in range(2):
            await env.idle()
            asked = (await execution.get_pending_interrupts(wait_seconds=0))["q"]
            assert (asked.resume_count, asked.max_resumes) == (count, 3)
            await execution.continue_with("q", "again")
        await execution.result()


@in_asyncio
async def test_a_resume_event_is_an_event_that_the_answer_becomes() -> None:
    flow, app = Flow("f", auto_close_timeout=0.0), Signoff(MemoryStore())

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        return await data.pause_for("text", {"question": "?"}, resume_event="told")

    def keep(data: Data[Any]) -> None:
        data.set_state("told", data.input)

    flow.to(ask)
    flow.when("told").to(keep)
    app.register(flow)
    async with environment(app) as env:
        env.people.answer("?", "yes")
        assert await (await Executions(env.client, "f").start()).result() == {"told": "yes"}


@in_asyncio
async def test_a_resume_event_and_another_target_are_refused_together() -> None:
    flow, app = Flow("f", auto_close_timeout=0.0), Signoff(MemoryStore())

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        return await data.pause_for("text", {"question": "?"}, resume_to="self", resume_event="told")

    flow.to(ask)
    flow.when("told").to(ask)
    app.register(flow)
    async with environment(app) as env:
        with pytest.raises(ChunkFailed, match="resume_to or resume_event"):
            await (await Executions(env.client, "f").start()).result()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"hours": "9-17"}, "hours: pass BusinessHours"),
        ({"hours": 3}, "hours: pass BusinessHours"),
        ({"exclude_requester": "false"}, "exclude_requester: 'false' is neither True nor False"),
    ],
)
@in_asyncio
async def test_a_policy_of_another_type_is_refused_by_its_name(options: Any, why: str) -> None:
    app, flow = Signoff(MemoryStore()), Flow("f")

    @flow.chunk(retry=RetryPolicy(max_attempts=1))
    async def asks(data: Data[Any]) -> Any:
        return await data.pause_for("approval", {"question": "Pay?"}, **options)

    flow.to(asks)
    app.register(flow)
    async with environment(app):
        with pytest.raises(ChunkHeld, match=why):
            await (await flow.start(1)).result(10)
