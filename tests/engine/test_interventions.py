"""Poison runs are set aside, and operators suspend, resume, terminate and retry runs that a worker holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from signoff import AsyncClient, Context, RunState, RunTerminated, Signoff, current_step
from signoff.engine.steps.retry import NO_RETRY
from signoff.errors import InvalidState, QuestionCancelled, SignalTimeout
from signoff.records import EntryKind, MessageKind, Run, WorkerInfo
from signoff.service import interventions
from tests.places import NewStore
from tests.support import comes, in_asyncio, journaled, opened, reaches, until


@asynccontextmanager
async def working(app: Signoff, **options: Any) -> AsyncIterator[AsyncClient]:
    async with opened(app) as client, app.worker(beat_seconds=0.05, grace_seconds=0, **options):
        yield client


async def die(app: Signoff, run_id: str = "r") -> None:
    """Have a run's worker found dead. It is on the register: a worker key frees no runs of others."""
    holder = (await app.store.get_run(run_id)).worker_id
    assert holder is not None
    await app.store.enlist(WorkerInfo(holder, "host", 1, 0.0, "default"))
    await app.store.release(holder, dead=True)
    await asyncio.Event().wait()


async def suspended(app: Signoff, run_id: str = "r") -> Run:
    async def look() -> Run | None:
        run = await app.store.get_run(run_id)
        return run if run.is_suspended and run.state is RunState.PAUSED else None

    found = await until(app, look)
    assert found is not None
    return found


@pytest.mark.parametrize("limit", [1, 3])
@in_asyncio
async def test_a_step_that_ends_its_workers_is_set_aside_for_an_operator(
    new_store: NewStore, limit: int
) -> None:
    app, begun, is_mended = Signoff(new_store()), 0, False

    @app.workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("before", lambda: 1)
        return await ctx.step("deadly", deadly)

    async def deadly() -> str:
        nonlocal begun
        begun += 1
        if not is_mended:
            await die(app)
        return "done"

    async with working(app, max_takeovers=limit) as client:
        run = await client.start(flow, id="r")
        found = await suspended(app)
        assert begun == limit
        assert found.suspended_by is None
        assert "after entry 1 (completed step 'before')" in (found.suspended_reason or "")
        is_mended = True
        await interventions.retry(app.store, "r", by="user:ana")
        assert await run.result(60) == "done"


@in_asyncio
async def test_progress_resets_the_count_of_takeovers(new_store: NewStore) -> None:
    app, fatal = Signoff(new_store()), set(range(8))

    @app.workflow
    async def flow(ctx: Context) -> int:
        for number in range(8):
            await ctx.step(f"s{number}", step, number)
        return 8

    async def step(number: int) -> None:
        if number in fatal:
            fatal.remove(number)
            await die(app)

    async with working(app, max_takeovers=2) as client:
        assert await (await client.start(flow, id="r")).result(60) == 8


@in_asyncio
async def test_a_suspended_run_finishes_its_steps_and_begins_nothing(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, begun, go_on, later = Signoff(new_store()), asyncio.Event(), asyncio.Event(), 0

    @app.workflow
    async def flow(ctx: Context) -> str:
        first = await ctx.step("first", slow)
        return first + await ctx.step("second", count)

    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "a"

    async def count() -> str:
        nonlocal later
        later += 1
        return "b"

    noticed, read = asyncio.Event(), app.store.read_messages

    async def read_messages(run_ids: Any) -> Any:
        found = await read(run_ids)
        if any(message.kind is MessageKind.SUSPEND for message, _ in found):
            asyncio.get_running_loop().call_later(0.05, noticed.set)
        return found

    monkeypatch.setattr(app.store, "read_messages", read_messages)
    async with working(app) as client:
        run = await client.start(flow, id="r")
        await begun.wait()
        await interventions.suspend(app.store, "r", by="user:ana", reason="look at it")
        await noticed.wait()
        go_on.set()
        await suspended(app)
        assert [entry.name for entry in await journaled(app, "r", EntryKind.COMPLETED)] == ["first"]
        await client.signal("r", "wake up", 1)
        assert later == 0
        await interventions.resume(app.store, "r", by="user:ana")
        assert await run.result(60) == "ab"
        assert later == 1


@in_asyncio
async def test_a_run_whose_clean_up_never_ends_is_terminated(new_store: NewStore) -> None:
    app, begun, stopped = Signoff(new_store()), asyncio.Event(), asyncio.Event()

    @app.workflow
    async def child(ctx: Context) -> None:
        try:
            await ctx.step("work", work)
        finally:
            await ctx.step("clean up", clean_up)

    @app.workflow
    async def parent(ctx: Context) -> str:
        try:
            await ctx.rfc(child).options(id="r")
        except RunTerminated as error:
            return str(error)
        return "no"

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def clean_up() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(app) as client:
        run = await client.start(parent, id="p")
        await begun.wait()
        begun.clear()
        await client.cancel("r")
        await begun.wait()
        await interventions.terminate(app.store, "r", by="user:ana", reason="hangs")
        assert await run.result(60) == "run 'r' was terminated: hangs"
        await asyncio.wait_for(stopped.wait(), 60)


@in_asyncio
async def test_a_run_that_failed_for_good_goes_on_from_where_it_failed(new_store: NewStore) -> None:
    app, done, is_mended = Signoff(new_store()), list[str](), False

    @app.workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("charge", done.append, "charge")
        try:
            await ctx.step("ship", ship, retry=NO_RETRY)
        except ValueError:
            await ctx.step("refund", done.append, "refund")
            raise
        return await ctx.step("tell", lambda: "shipped")

    def ship() -> None:
        if not is_mended:
            raise ValueError("no stock")

    async with working(app) as client:
        run = await client.start(flow, id="r")
        with pytest.raises(ValueError, match="no stock"):
            await run.result(60)
        await interventions.retry(app.store, "r")
        with pytest.raises(ValueError, match="no stock"):
            await run.result(60)
        is_mended = True
        await interventions.retry(app.store, "r")
        assert await run.result(60) == "shipped"
        assert done == ["charge", "refund", "refund"]

    async with working(app) as client:  # and it replays
        entries = await app.store.read_journal("r")
        assert [entry.seq for entry in entries] == list(range(len(entries)))


SHORT = 3.0
"""Seconds: a deadline that passes soon, and leaves a slow machine the time to do something before it."""


async def answered(client: AsyncClient, run_id: str, user: str = "ana") -> None:
    """Answer an open question of a run, once there is one."""

    async def open_question() -> Any:
        found = [each for each in (await client.questions()).items if each.run_id == run_id]
        return found[0] if found else None

    question = await comes(open_question)
    await client.answer(question.id, True, user_id=f"user:{user}")


@pytest.mark.parametrize("end", ["timeout", "cancelled", "another error"])
@in_asyncio
async def test_a_retry_asks_an_unanswered_question_anew(new_store: NewStore, end: str) -> None:
    app, done = Signoff(new_store()), list[str]()

    @app.workflow
    async def flow(ctx: Context) -> bool:
        await ctx.step("charge", done.append, "charge")
        try:
            answer = await ctx.wait_for_user("Pay?", timeout_seconds=0.2 if end != "cancelled" else None)
        except SignalTimeout as error:
            if end == "another error":
                raise RuntimeError("too late") from error
            raise
        return answer.approved

    async with working(app) as client:
        run = await client.start(flow, id="r")
        for _ in range(2):  # it may be retried again and again
            if end == "cancelled":
                question = await comes(lambda: first_question(client))
                await client.backend.cancel_question(question.id, by=None, reason=None, request_id=None)
            with pytest.raises((SignalTimeout, QuestionCancelled, RuntimeError)):
                await run.result(60)
            if _ == 0:
                await interventions.retry(app.store, "r")
        assert done == ["charge"]

    slow = Signoff(app.store)  # the code that is deployed then waits for longer

    @slow.workflow(name="flow")
    async def patient(ctx: Context) -> bool:
        await ctx.step("charge", done.append, "charge")
        return (await ctx.wait_for_user("Pay?", timeout_seconds=600)).approved

    async with working(slow) as client:
        await interventions.retry(slow.store, "r")
        await answered(client, "r")
        assert await (await client.get("r")).result(60) is True
    async with working(slow):  # and it replays
        entries = await slow.store.read_journal("r")
        assert [entry.seq for entry in entries] == list(range(len(entries)))
    assert done == ["charge"]


async def first_question(client: AsyncClient) -> Any:
    return next(iter((await client.questions()).items), None)


@in_asyncio
async def test_a_retry_asks_again_what_its_failure_closed_and_keeps_an_answer(new_store: NewStore) -> None:
    app, is_mended = Signoff(new_store()), False

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        signal = ctx.wait_for_signal("go", timeout_seconds=SHORT)
        asked = [ctx.wait_for_user("Ship?"), ctx.wait_for_user("Pay?")]
        shipped, went, *answers = await asyncio.gather(ctx.step("ship", ship, retry=NO_RETRY), signal, *asked)
        return [shipped, went, *(each.user_id for each in answers)]

    async def ship() -> str:
        if not is_mended:
            await is_answered.wait()
            raise ValueError("no stock")
        return "shipped"

    async with working(app) as client:
        run, is_answered = await client.start(flow, id="r"), asyncio.Event()
        await answered(client, "r", "bob")
        is_answered.set()
        with pytest.raises(ValueError, match="no stock"):
            await run.result(60)
        is_mended = True
        await asyncio.sleep(SHORT)
        await interventions.retry(app.store, "r")
        await run.signal("go", 1)
        await answered(client, "r", "ana")
        shipped, went, *users = await run.result(60)
        assert (shipped, went, sorted(users)) == ("shipped", 1, ["user:ana", "user:bob"])


@pytest.mark.parametrize("wait", ["signal", "question"])
@in_asyncio
async def test_what_is_waited_for_anew_has_a_deadline_from_the_retry(new_store: NewStore, wait: str) -> None:
    app = Signoff(new_store())

    @app.workflow
    async def flow(ctx: Context) -> Any:
        if wait == "signal":
            return await ctx.wait_for_signal("go", timeout_seconds=SHORT, returns=bool)
        return (await ctx.wait_for_user("Pay?", timeout_seconds=SHORT)).approved

    async with working(app) as client:
        run = await client.start(flow, id="r")
        with pytest.raises(SignalTimeout):
            await run.result(60)
        await interventions.retry(app.store, "r")
        deadline = await comes(lambda: deadline_after_retry(app))
        [retried] = [each for each in await run.journal() if each.kind is EntryKind.RETRIED]
        assert deadline == retried.at + SHORT
    async with working(app) as client:  # another worker rebuilds the run, with the same deadline
        await (run.signal("go", True) if wait == "signal" else answered(client, "r"))
        assert await run.result(60) is True


async def deadline_after_retry(app: Signoff) -> float | None:
    """Return the deadline of the call that was opened last, once that was after a retry."""
    journal = await app.store.read_journal("r")
    opened = [each for each in journal if each.kind is EntryKind.OPENED]
    return opened[-1].fact("due_at") if len(opened) > 1 else None


@pytest.mark.parametrize("way", ["promise", "callback"])
@in_asyncio
async def test_a_retry_replaces_no_promise_whose_id_was_passed_on(new_store: NewStore, way: str) -> None:
    app, sent = Signoff(new_store(), public_url="https://signoff.example.com"), list[str]()

    @app.workflow
    async def flow(ctx: Context) -> None:
        if way == "promise":
            promise = await ctx.promise(timeout_seconds=0.1)
            await ctx.step("send", sent.append, promise.id)
            await promise
        else:
            await (await ctx.callback("paid?", timeout_seconds=0.1))

    async with working(app) as client:
        run = await client.start(flow, id="r")
        with pytest.raises(TimeoutError):
            await run.result(60)
        await interventions.retry(app.store, "r")
        with pytest.raises(TimeoutError, match=r"timed out|nothing arrived"):
            await run.result(60)


@pytest.mark.parametrize("how", ["another error", "a task group"])
@in_asyncio
async def test_a_run_goes_on_from_the_call_that_its_error_was_made_of(new_store: NewStore, how: str) -> None:
    app, is_mended = Signoff(new_store()), False

    @app.workflow
    async def flow(ctx: Context) -> str:
        if how == "a task group":
            async with asyncio.TaskGroup() as group:
                shipped = [group.create_task(shipping(ctx, number)) for number in range(2)]
            return shipped[0].result()
        try:
            return await shipping(ctx, 0)
        except ValueError as error:
            raise RuntimeError("the order failed") from error

    async def shipping(ctx: Context, number: int) -> str:
        return await ctx.step(f"ship {number}", ship, number, retry=NO_RETRY)

    def ship(number: int) -> str:
        if not is_mended:
            raise ValueError(f"no stock of {number}")
        return "shipped"

    async with working(app) as client:
        run = await client.start(flow, id="r")
        with pytest.raises((RuntimeError, ExceptionGroup)):
            await run.result(60)
        is_mended = True
        await interventions.retry(app.store, "r")
        assert await run.result(60) == "shipped"


@in_asyncio
async def test_a_retry_keeps_steps_that_succeeded_beside_the_failed_one(
    new_store: NewStore,
) -> None:
    app, done, is_mended, failed = Signoff(new_store()), list[str](), False, list[str]()

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        pay = ctx.step("pay", pay_later)
        once = ctx.step("once", pay_once, effect="once")
        results = await asyncio.gather(shipping(ctx), pay, once, return_exceptions=True)
        for error in results:
            if isinstance(error, Exception):
                await ctx.step("refund", done.append, "refund")
                raise error
        return [await ctx.step("tell", lambda: "told"), *map(str, results)]

    async def shipping(ctx: Context) -> str:
        try:
            return await ctx.step("ship", ship, retry=NO_RETRY)
        except ValueError:
            failed.append("ship")
            raise

    def ship() -> str:
        if not is_mended:
            raise ValueError("no stock")
        return "shipped"

    async def pay_later() -> str:
        await comes(lambda: asyncio.sleep(0, failed))
        done.append("pay")
        return "paid"

    async def pay_once() -> str:
        await comes(lambda: asyncio.sleep(0, failed))
        done.append("once")
        return "once"

    async with working(app) as client:
        run = await client.start(flow, id="r")
        for _ in range(2):
            with pytest.raises(ValueError, match="no stock"):
                await run.result(60)
            await interventions.retry(app.store, "r")
        with pytest.raises(ValueError, match="no stock"):
            await run.result(60)
        is_mended = True
        await interventions.retry(app.store, "r")
        assert await run.result(60) == ["told", "shipped", "paid", "once"]
    assert sorted(done) == ["once", "pay", "refund", "refund", "refund"]


@in_asyncio
async def test_no_retry_repeats_an_effect_that_happens_once(new_store: NewStore) -> None:
    app, done = Signoff(new_store()), list[str]()

    @app.workflow
    async def flow(ctx: Context) -> None:
        results = await asyncio.gather(ctx.step("ship", ship, retry=NO_RETRY), return_exceptions=True)
        await ctx.step("refund", done.append, "refund", effect="once")
        for error in results:
            if isinstance(error, Exception):
                raise error

    def ship() -> None:
        raise ValueError("no stock")

    async with working(app) as client:
        run = await client.start(flow, id="r")
        with pytest.raises(ValueError, match="no stock"):
            await run.result(60)
        with pytest.raises(InvalidState, match="effect='once' step 'refund', which cannot be undone"):
            await interventions.retry(app.store, "r")
        assert done.count("refund") == 1


@in_asyncio
async def test_an_operators_retry_runs_a_failed_step_of_effect_once_again(
    new_store: NewStore,
) -> None:
    app, keys = Signoff(new_store()), list[str]()

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step("pay", pay, effect="once")

    def pay() -> str:
        keys.append(current_step().idempotency_key)
        if len(keys) == 1:
            raise ValueError("declined")
        return "paid"

    async with working(app) as client:
        run = await client.start(flow, id="r")
        with pytest.raises(ValueError, match="declined"):
            await run.result(60)
        await interventions.retry(app.store, "r", by="user:ana")
        assert await run.result(60) == "paid"
        assert keys == ["r.1"] * 2


@in_asyncio
async def test_a_parent_goes_on_once_its_child_was_retried(new_store: NewStore) -> None:
    app, is_mended = Signoff(new_store()), False

    @app.workflow
    async def child(ctx: Context) -> str:
        return await ctx.step("work", work, retry=NO_RETRY)

    @app.workflow
    async def parent(ctx: Context) -> str:
        answer = asyncio.ensure_future(ctx.wait_for_user("ok?"))
        done = await ctx.rfc(child).options(id="c")
        return f"{done} {(await answer).approved}"

    def work() -> str:
        if not is_mended:
            raise ValueError("not yet")
        return "done"

    async with working(app) as client:
        run = await client.start(parent, id="p")
        with pytest.raises(ValueError, match="not yet"):
            await run.result(60)
        is_mended = True
        await interventions.retry(app.store, "c")
        assert (await reaches(app, "c", RunState.SUCCEEDED)).result == '"done"'
        await interventions.retry(app.store, "p")
        await answered(client, "p")  # the question that was closed when it failed is asked anew
        assert await run.result(60) == "done True"
