"""A run's calls besides steps: promises, timers, signals, children, generations, deadlines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from signoff import (
    AlreadySettled,
    Context,
    PromiseCancelled,
    PromiseRejected,
    PromiseTimeout,
    RunState,
    SignalTimeout,
    Signoff,
)
from signoff.engine.run.calls import PromiseCall
from signoff.errors import IdConflict, OutsideWorkflow, RegistrationError, SignoffError
from signoff.records import CallKind, EntryKind, PromiseState
from signoff.testing import VirtualClock
from tests.support import asked, in_asyncio, journaled, new_app, opened, opens, pauses, running, until

# Promises


@in_asyncio
async def test_a_promise_has_an_id_derived_from_its_call_and_gives_its_value(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> list[object]:
        first = await ctx.promise()
        second = await ctx.promise()
        return [first.id, second.id, await second, await first]

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await pauses(app, "r")
        await client.promises.resolve("r.1", {"a": 1})
        await client.promises.resolve("r.2", "two")
        assert await run.result(60) == ["r.1", "r.2", "two", {"a": 1}]


@in_asyncio
async def test_promises_of_a_chosen_id_are_shared(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await (await ctx.promise(id="door"))

    async with running(app) as client:
        runs = [await client.start(flow, id=f"r{n}") for n in range(3)]
        for run in runs:
            await pauses(app, run.id)
        await client.promises.resolve("door", "open")
        assert [await run.result(60) for run in runs] == ["open"] * 3
        with pytest.raises(AlreadySettled):
            await client.promises.resolve("door", "shut")


@in_asyncio
async def test_each_end_of_a_promise_is_an_error_of_its_own(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        names = []
        for timeout in (None, None, 3600):
            try:
                await (await ctx.promise(timeout_seconds=timeout))
            except (PromiseRejected, PromiseCancelled, PromiseTimeout) as error:
                names.append(f"{type(error).__name__} {getattr(error, 'value', None)}")
        return names

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await pauses(app, "r")
        await client.promises.reject("r.1", "no")
        await opens(app, "r.2")
        await client.promises.cancel("r.2")
        await opens(app, "r.3")
        clock.advance(3601)
        assert await run.result(60) == ["PromiseRejected no", "PromiseCancelled None", "PromiseTimeout None"]


@in_asyncio
async def test_an_abandoned_promise_cannot_be_settled(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.promise()

    async with running(app) as client:
        await (await client.start(flow, id="r")).result(60)
        with pytest.raises(AlreadySettled):
            await client.promises.resolve("r.1")
        assert (await client.promises.get("r.1")).state is PromiseState.CANCELLED


@in_asyncio
async def test_a_promise_of_a_chosen_id_stays_open_when_a_run_gives_it_up(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            return await asyncio.wait_for(await ctx.promise(id="door"), 60)
        except TimeoutError:
            return "later " + await (await ctx.promise(id="door"))

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await pauses(app, "r")
        clock.advance(61)
        await until(app, lambda: _opened(app, 2))
        assert (await client.promises.resolve("door", "open")).state is PromiseState.RESOLVED
        assert await run.result(60) == "later open"


async def _opened(app: Signoff, promises: int) -> bool:
    entries = await journaled(app, "r", EntryKind.OPENED)
    return [entry.call for entry in entries].count(CallKind.PROMISE) == promises


@in_asyncio
async def test_a_questions_deadline_is_the_one_its_options_changed_it_to(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.wait_for_user("ok?", timeout_seconds=10).options(timeout_seconds=3600)
        except SignalTimeout as error:
            return f"{error.seconds:.0f} s"
        return "answered"

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await pauses(app, "r")
        (question,) = await asked(client, "r")
        assert question.due_at == clock.now() + 3600
        clock.advance(3600)
        assert await run.result(60) == "3600 s"


# Timers and signals


@in_asyncio
async def test_a_timer_fires_at_its_time_and_not_before(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def flow(ctx: Context) -> float:
        began = ctx.now()
        await ctx.sleep(7 * 86_400)
        return (ctx.now() - began).total_seconds()

    async with running(app) as client:
        run = await client.start(flow, id="r")
        wake_at = (await pauses(app, "r")).wake_at
        assert wake_at == clock.now() + 7 * 86_400
        clock.advance(7 * 86_400 - 1)
        assert (await app.store.due()) == wake_at
        assert await run.status() is RunState.PAUSED
        clock.advance(1)
        assert await run.result(60) == 7 * 86_400


@in_asyncio
async def test_signals_are_received_in_order_before_and_after_the_wait(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> list[object]:
        return [await ctx.wait_for_signal("line") for _ in range(4)] + [await ctx.wait_for_signal("other")]

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        await run.signal("line", 1)
        await run.signal("other", "kept")
        await run.signal("line", 2)
        async with app.worker():
            await pauses(app, "r")
            await run.signal("line", 3)
            await run.signal("line", 4)
            assert await run.result(60) == [1, 2, 3, 4, "kept"]


@in_asyncio
async def test_a_repeated_signal_request_is_sent_once(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> list[object]:
        return [await ctx.wait_for_signal("line"), await ctx.wait_for_signal("line")]

    async with running(app) as client:
        run = await client.start(flow, id="r")
        assert await run.signal("line", 1, request_id="a")
        assert not await run.signal("line", 1, request_id="a")
        assert await run.signal("line", 2, request_id="b")
        assert await run.result(60) == [1, 2]


@in_asyncio
async def test_a_late_signal_times_out_and_the_next_wait_gets_it(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def flow(ctx: Context) -> list[object]:
        try:
            await ctx.wait_for_signal("late", timeout_seconds=60)
        except SignalTimeout as error:
            return [type(error).__name__, await ctx.wait_for_signal("late")]
        return []

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await pauses(app, "r")
        clock.advance(61)
        await until(app, lambda: journaled(app, "r", EntryKind.COMPLETED))
        await run.signal("late", "here")
        assert await run.result(60) == ["SignalTimeout", "here"]


# Misuse


@in_asyncio
async def test_a_call_inside_a_step_is_refused(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        async def step() -> None:
            await ctx.step("nested", lambda: None)

        await ctx.step("outer", step, non_retryable=(OutsideWorkflow,))

    async with running(app) as client:
        with pytest.raises(OutsideWorkflow, match="nested"):
            await (await client.start(flow)).result(60)


@pytest.mark.parametrize("call", ["step", "child", "question", "function"])
@in_asyncio
async def test_the_options_of_a_call_under_way_are_refused(tmp_path: Path, call: str) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def child(ctx: Context) -> None:
        await ctx.wait_for_signal("go on")

    @app.workflow
    async def flow(ctx: Context) -> str:
        if call == "step":
            under_way, options = ctx.step("s", lambda: None), {"timeout": 10}
        elif call == "child":
            under_way, options = ctx.rfc(child), {"timeout": 10}
        elif call == "function":
            under_way, options = ctx.lfc(child), {"timeout": 10}
        else:
            under_way, options = ctx.wait_for_user("ok?"), {"timeout_seconds": 10}
        task = asyncio.ensure_future(under_way)
        await asyncio.sleep(0)
        try:
            under_way.options(**options)
        except RegistrationError as error:
            return str(error)
        finally:
            task.cancel()
        return "taken"

    async with running(app) as client:
        run = await client.start(flow)
        assert "set options before the await" in await run.result(60)


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        ("ctx.progress({'done': 1})", "progress name: must be text, not dict"),
        ("ctx.progress('read\\0')", "progress name: has a NUL character"),
        ("ctx.step(5, dict)", "step name: must be text, not int"),
        ("ctx.step('\\ud800', dict)", "step name: has a lone surrogate"),
        ("ctx.wait_for_signal(None)", "signal name: must be text, not NoneType"),
        ("ctx.patched(7)", "patch id: must be text, not int"),
        ("ctx.wait_for_user(7)", "a question must be a text, not int"),
        ("ctx.wait_for_user('Pay?', timeout_seconds='5')", "timeout_seconds: '5' is not a number of seconds"),
        ("ctx.wait_for_signal('go', timeout_seconds=float('inf'))", "inf is not a number of seconds"),
        ("ctx.promise(id='')", "id: '' is not 1 to 256 printable characters"),
        ("ctx.promise(timeout_seconds=True)", "True is not a number of seconds"),
        ("ctx.step(dict, timeout=float('nan'))", "nan is not a number of seconds"),
        ("ctx.rfc('child').options(delay_seconds='1')", "delay_seconds: '1' is not a number of seconds"),
        ("ctx.rfc('child').options(id=' x')", "id: ' x' is not 1 to 256 printable characters"),
    ],
)
@in_asyncio
async def test_a_name_or_time_that_no_journal_can_keep_is_refused_at_the_call(
    tmp_path: Path, call: str, refused: str
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> str:
        with pytest.raises(SignoffError) as caught:
            await eval(call, {"ctx": ctx})
        return str(caught.value)

    async with running(app) as client:
        run = await client.start(flow, id="r")
        assert refused in await run.result(60)


@in_asyncio
async def test_an_id_that_comes_round_again_is_not_settled_by_its_first_outcome(tmp_path: Path) -> None:
    app, paid = new_app(tmp_path), list[int]()

    @app.workflow
    async def loan(ctx: Context) -> None:
        for n in range(3):
            if await (await ctx.promise(id="approval")):
                await ctx.step(paid.append, n)

    @app.workflow
    async def joins(ctx: Context) -> list[Any]:
        both = await asyncio.gather(await ctx.promise(id="both"), await ctx.promise(id="both"))
        return [*both, await (await ctx.promise(id="another"))]

    async with running(app) as client:
        run = await client.start(loan, id="r")
        other = await client.start(joins, id="s")
        for id in ("approval", "both", "another"):
            await opens(app, id)
            await client.promises.resolve(id, True, request_id=f"webhook-{id}")
        with pytest.raises(IdConflict, match="'approval'.*call 1.*'approval-2'"):
            await run.result(60)
        assert await other.result(60) == [True, True, True]
    assert paid == [0]


@in_asyncio
async def test_a_repeated_id_of_an_earlier_version_stays_as_journaled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        heard = [await (await ctx.promise(id="shared")) for _ in range(2)]
        await ctx.wait_for_signal("go")
        try:
            await ctx.promise(id="shared")
        except IdConflict as conflict:
            heard.append(conflict.id)
        await ctx.wait_for_signal("go")
        return heard

    with monkeypatch.context() as earlier:
        earlier.setattr(PromiseCall, "refusal", lambda call, known: None)
        async with running(app) as client:
            run = await client.start(flow, id="r")
            await opens(app, "shared")
            await client.promises.resolve("shared", 1)
            await pauses(app, "r")
    for _ in range(2):
        async with running(app) as client:  # a replay
            run = await client.get("r")
            await run.signal("go")
    async with running(app) as client:
        assert await (await client.get("r")).result(60) == [1, 1, "shared"]
