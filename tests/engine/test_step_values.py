"""Results and errors of steps are the same live and at replay; non-durable steps run again."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from signoff import Context, RetryPolicy, StepFailed, current_step
from signoff.errors import NotSerializable, OutsideWorkflow, PayloadTooLarge, RegistrationError, ReplayFailed
from signoff.records import EntryKind
from tests.support import doomed_worker, fails, in_asyncio, journaled, new_app, opened, pauses, running

ONCE = RetryPolicy(max_attempts=1)


class Flaky(Exception):
    """Comes from a service that is down now and then."""


class FlakyForGood(Flaky):
    """Will not get better."""


class Mode(enum.StrEnum):
    FAST = "fast"


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
    undeclared = {"tuple": (1, 2), "mode": Mode.FAST}

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
            await run.result(60)
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
            await run.result(60)
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
        assert await (await client.start(flow)).result(60) == "Local why"


@in_asyncio
async def test_a_value_that_cannot_be_stored_fails_the_step_with_its_path(tmp_path: Path) -> None:
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
            await (await client.start(flow, False)).result(60)
        with pytest.raises(PayloadTooLarge, match="result of step 'large'"):
            await (await client.start(flow, True)).result(60)
    assert ran == [1]


# Steps that are not durable


@in_asyncio
async def test_a_non_durable_step_runs_again_at_replay_and_leaves_no_value(tmp_path: Path) -> None:
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
            assert await run.result(60) == ["token 2", "token 2"]


@in_asyncio
async def test_a_run_is_not_in_a_step_after_one_that_ran_again_at_its_replay(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context, is_first: bool = True) -> str:
        if is_first:
            await ctx.step("read", lambda: 1, durable=False)
            await ctx.wait_for_signal("go")
            await ctx.continue_as_new(False)
        with pytest.raises(OutsideWorkflow):
            current_step()
        return await ctx.step("name", lambda: current_step().name)

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await pauses(app, "r")
        await run.signal("go")
        async with app.worker():
            assert await run.result(60) == "name"


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
                await run.result(60)
            up[0] = True
            await client.retry("r")
            assert await run.result(60) == "page"


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
            await (await client.start(flow)).result(60)


@in_asyncio
async def test_a_value_that_is_not_journaled_may_be_larger_than_one_that_is(tmp_path: Path) -> None:
    app, ran = new_app(tmp_path), list[int]()

    def download() -> dict[str, str]:
        ran.append(1)
        return {"body": "x" * 2**21}

    @app.workflow
    async def flow(ctx: Context) -> int:
        page = await ctx.step(download, durable=False)
        await ctx.wait_for_signal("go")
        return len(page["body"])

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await pauses(app, "r")
        await run.signal("go")
        async with app.worker():
            assert await run.result(60) == 2**21
    assert ran == [1, 1]
