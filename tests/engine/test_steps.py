"""Steps: retried by their policy across crashes, timed, run where they belong, and journaled once."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import decimal
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import signoff
from signoff import Context, RetryPolicy, RunState, StepFailed, StepTimeout
from signoff.errors import NotSerializable, OutsideWorkflow, PayloadTooLarge, RegistrationError, ReplayFailed
from signoff.records import EntryKind
from signoff.testing import VirtualClock
from tests.support import (
    doomed_worker,
    fails,
    in_asyncio,
    journaled,
    new_app,
    opened,
    pauses,
    running,
    until,
)

ONCE = RetryPolicy(max_attempts=1)


class Flaky(Exception):
    """Comes from a service that is down now and then."""


class FlakyForGood(Flaky):
    """Will not get better."""


# Retries


@in_asyncio
async def test_attempts_and_their_back_off_survive_a_change_of_workers(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    attempts: list[tuple[int, str]] = []
    policy = RetryPolicy(initial_seconds=10, factor=3, max_seconds=60, max_attempts=4, jitter=False)

    def flaky() -> str:
        step = signoff.current_step()
        attempts.append((step.attempt, step.idempotency_key))
        if step.attempt < 4:
            raise Flaky(f"attempt {step.attempt}")
        return "at last"

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(flaky, retry=policy)

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        for attempt, wait in ((1, 10), (2, 30), (3, 60)):
            async with doomed_worker(app):
                paused = await until(app, lambda: _paused_after(app, attempt))  # noqa: B023
                assert paused.wake_at == clock.now() + wait
                clock.advance(wait - 0.5)
                await app.store.due()
                assert await run.status() is RunState.PAUSED
            clock.advance(0.5)
        async with app.worker():
            assert await run.result(10) == "at last"
    assert attempts == [(1, "r.1"), (2, "r.1"), (3, "r.1"), (4, "r.1")]


async def _paused_after(app: signoff.Signoff, attempt: int) -> Any:
    run = await app.store.get_run("r")
    failed = await journaled(app, "r", EntryKind.ATTEMPT_FAILED)
    return run if run.state is RunState.PAUSED and len(failed) == attempt else None


@in_asyncio
async def test_a_step_is_tried_eight_times_by_default_then_its_error_is_raised(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    def down() -> None:
        raise Flaky("down")

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(down)

    async with running(app) as client:
        run = await client.start(flow, id="r")
        for attempt in range(1, 8):
            wait = min(2 ** (attempt - 1), 60)
            entry = (await until(app, lambda: _failed_attempts(app, attempt)))[-1]  # noqa: B023
            assert wait / 2 <= entry.fact("next_at") - clock.now() <= wait
            clock.set(entry.fact("next_at"))
        with pytest.raises(Flaky, match="down"):
            await run.result(10)
        assert len(await journaled(app, "r", EntryKind.ATTEMPT_FAILED)) == 7


async def _failed_attempts(app: signoff.Signoff, count: int) -> Any:
    failed = await journaled(app, "r", EntryKind.ATTEMPT_FAILED)
    return failed if len(failed) == count else None


@pytest.mark.parametrize("error", [Flaky, FlakyForGood])
@in_asyncio
async def test_an_error_declared_non_retryable_ends_the_attempts_and_so_do_its_subclasses(
    tmp_path: Path, error: type[Exception]
) -> None:
    app = new_app(tmp_path)
    attempts: list[int] = []

    async def fail() -> None:
        attempts.append(1)
        raise error("no")

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(fail, non_retryable=(Flaky,))

    async with running(app) as client:
        with pytest.raises(error, match="no"):
            await (await client.start(flow)).result(10)
    assert attempts == [1]


@in_asyncio
async def test_a_step_in_back_off_does_not_keep_its_siblings_from_going_on(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    done: list[str] = []

    def flaky() -> str:
        if signoff.current_step().attempt == 1:
            raise Flaky
        return "flaky"

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        async def branch() -> str:
            await ctx.step("one", lambda: done.append("one"))
            await ctx.step("two", lambda: done.append("two"))
            return "branch"

        retry = RetryPolicy(initial_seconds=500, jitter=False)
        return await asyncio.gather(ctx.step(flaky, retry=retry), branch())

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await pauses(app, "r")
        assert done == ["one", "two"]
        clock.advance(500)
        assert await run.result(10) == ["flaky", "branch"]


# Timeouts


@in_asyncio
async def test_an_async_step_over_its_time_is_cancelled(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(endless, timeout=0.02, retry=ONCE)
        except StepTimeout as error:
            return f"{error.name} {error.seconds}"
        return "no timeout"

    async with running(app) as client:
        assert await (await client.start(flow)).result(10) == "endless 0.02"
    assert ended == ["cancelled"]


@in_asyncio
async def test_a_plain_step_over_its_time_is_given_up_and_its_late_value_dropped(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    let_go = threading.Event()

    def slow() -> str:
        let_go.wait(10)
        return "late"

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            return await ctx.step(slow, timeout=0.02, retry=ONCE)
        except StepTimeout:
            return await ctx.step("let go", lambda: let_go.set() or "timed out")

    async with running(app) as client:
        assert await (await client.start(flow)).result(10) == "timed out"


@in_asyncio
async def test_a_timeout_error_of_the_steps_own_is_not_a_step_timeout(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def own() -> None:
        raise TimeoutError("of its own")

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(own, timeout=10, retry=ONCE)
        except TimeoutError as error:
            return f"{type(error).__name__} {error}"
        return "no error"

    async with running(app) as client:
        assert await (await client.start(flow)).result(10) == "TimeoutError of its own"


# Where steps run and what they see


@in_asyncio
async def test_plain_steps_run_in_threads_and_async_ones_on_the_loop(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    here = threading.get_ident()
    loop = asyncio.get_running_loop()

    async def on_loop() -> list[bool]:
        return [threading.get_ident() == here, asyncio.get_running_loop() is loop]

    def in_thread() -> bool:
        return threading.get_ident() == here

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        made_by_lambda = await ctx.step("lambda", lambda: on_loop())  # noqa: PLW0108
        return [await ctx.step(on_loop), made_by_lambda, await ctx.step(in_thread)]

    async with running(app) as client:
        assert await (await client.start(flow)).result(10) == [[True, True], [True, True], False]


@in_asyncio
async def test_a_step_sees_itself_and_nothing_else_does(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    def plain() -> list[Any]:
        return list(dataclasses.astuple(signoff.current_step()))

    async def on_loop() -> list[Any]:
        await asyncio.sleep(0)
        return plain()

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        with pytest.raises(OutsideWorkflow):
            signoff.current_step()
        return await asyncio.gather(ctx.step(plain), ctx.step("b", on_loop), ctx.step("c", plain, key="mine"))

    async with running(app) as client:
        assert await (await client.start(flow, id="r")).result(10) == [
            ["r", 1, "plain", 1, "r.1"],
            ["r", 2, "b", 1, "r.2"],
            ["r", 3, "c", 1, "mine"],
        ]


tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


@in_asyncio
async def test_a_step_sees_the_context_variables_of_the_code_that_called_it(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def on_loop() -> str:
        mine = tenant.get()
        tenant.set("changed by a step")
        return mine

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        async def branch(name: str) -> list[str]:
            tenant.set(name)
            return [await ctx.step("thread", tenant.get), await ctx.step(on_loop), tenant.get()]

        both = await asyncio.gather(branch("ana"), branch("bob"))
        return [*both[0], *both[1], tenant.get()]

    async with running(app) as client:
        assert await (await client.start(flow)).result(10) == [*["ana"] * 3, *["bob"] * 3, "nobody"]


@in_asyncio
async def test_a_step_that_raises_stop_iteration_does_not_hang(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step("empty", lambda: next(iter([])), retry=ONCE)
        except Exception as error:
            return type(error).__name__
        return "no error"

    async with running(app) as client:
        assert await (await client.start(flow)).result(10) == "RuntimeError"


# Values and errors, live and at replay


class Order(BaseModel):
    id: uuid.UUID
    total: decimal.Decimal
    placed: datetime


@dataclasses.dataclass
class Line:
    sku: str
    tags: set[str]


def make_order() -> tuple[Order, Line]:
    placed = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return Order(id=uuid.UUID(int=7), total=decimal.Decimal("1.10"), placed=placed), Line("x", {"a", "b"})


@in_asyncio
async def test_values_are_the_same_live_and_at_replay(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    seen: list[Any] = []
    undeclared = {"tuple": (1, 2), "at": datetime(2026, 1, 1, tzinfo=UTC), "set": {3}}

    @app.workflow
    async def flow(ctx: Context) -> None:
        declared = await ctx.step(make_order)
        loose = await ctx.step("loose", lambda: undeclared)
        seen.append((declared, loose))
        await ctx.wait_for_signal("go")

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await pauses(app, "r")
        await run.signal("go")
        async with app.worker():
            await run.result(10)
    live, replayed = seen
    assert live == replayed
    assert live[0] == make_order()
    assert repr(live) == repr(replayed)
    assert live[1] != undeclared  # JSON, as at any replay


@pytest.mark.parametrize(
    "make", [lambda: Flaky("why"), lambda: KeyError("k"), lambda: FileNotFoundError(2, "gone", "f.txt")]
)
@in_asyncio
async def test_an_error_has_the_same_type_and_text_live_and_at_replay(tmp_path: Path, make: Any) -> None:
    app = new_app(tmp_path)
    seen: list[tuple[type, str, Any]] = []

    def fail() -> None:
        raise make()

    @app.workflow
    async def flow(ctx: Context) -> None:
        try:
            await ctx.step(fail, retry=ONCE)
        except Exception as error:
            seen.append((type(error), str(error), error.args))
        await ctx.wait_for_signal("go")

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await pauses(app, "r")
        await run.signal("go")
        async with app.worker():
            await run.result(10)
    assert seen == [(type(make()), str(make()), make().args)] * 2


@in_asyncio
async def test_an_error_of_an_unknown_class_is_a_step_failed_that_names_it(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    def fail() -> None:
        class Local(Exception):
            pass

        raise Local("why")

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(fail, retry=ONCE)
        except StepFailed as error:
            return error.type_name.rpartition(".")[2] + " " + error.message
        return "no error"

    async with running(app) as client:
        assert await (await client.start(flow)).result(10) == "Local why"


@in_asyncio
async def test_a_value_that_cannot_be_stored_fails_the_step_at_once_with_its_path(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    ran: list[int] = []

    def unfit() -> Any:
        ran.append(1)
        return {"order": {"client": object()}}

    @app.workflow
    async def flow(ctx: Context, large: bool) -> None:
        await (ctx.step("large", lambda: "x" * 2**21) if large else ctx.step(unfit))

    async with running(app) as client:
        with pytest.raises(NotSerializable, match=r"result of step 'unfit'.*order.*client"):
            await (await client.start(flow, False)).result(10)
        with pytest.raises(PayloadTooLarge, match="result of step 'large'"):
            await (await client.start(flow, True)).result(10)
    assert ran == [1]


# Steps that are not durable


@in_asyncio
async def test_a_step_that_is_not_durable_runs_again_at_replay_and_leaves_no_value(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    ran: list[str] = []

    def secret() -> str:
        ran.append("secret")
        return f"token {len(ran)}"

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        token = await ctx.step(secret, durable=False)
        await ctx.wait_for_signal("go")
        return [token, await ctx.step("use", lambda: token)]

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await pauses(app, "r")
        assert [entry.value for entry in await journaled(app, "r", EntryKind.COMPLETED)] == [None]
        await run.signal("go")
        async with app.worker():
            assert await run.result(10) == ["token 2", "token 2"]


@in_asyncio
async def test_a_step_that_is_not_durable_and_fails_at_replay_keeps_the_run(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    up = [True]

    def fetch() -> str:
        if not up[0]:
            raise Flaky("down")
        return "page"

    @app.workflow
    async def flow(ctx: Context) -> str:
        page = await ctx.step(fetch, durable=False, retry=ONCE)
        await ctx.wait_for_signal("go")
        return page

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await pauses(app, "r")
        await run.signal("go")
        up[0] = False
        async with app.worker():
            assert (await fails(app, "r")).retryable
            with pytest.raises(ReplayFailed, match="fetch"):
                await run.result(10)
            up[0] = True
            await client.retry("r")
            assert await run.result(10) == "page"


@pytest.mark.parametrize(
    "options",
    [
        {"effect": "once", "retry": RetryPolicy()},
        {"effect": "once", "durable": False},
        {"effect": "twice"},
        {"timeout": 0},
    ],
)
@in_asyncio
async def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("s", lambda: None, **options)

    async with running(app) as client:
        with pytest.raises(RegistrationError):
            await (await client.start(flow)).result(10)
