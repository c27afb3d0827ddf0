"""A context call that is built and never awaited fails its run, with the line that built it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Generator
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.errors import NotAwaited
from signoff.testing import MemoryStore, environment
from tests.places import NewStore
from tests.support import asked, in_asyncio, pauses, running


async def inner(ctx: Context) -> None: ...


def step() -> str:
    return "stepped"


BUILDING: dict[str, Callable[[Context], Any]] = {
    "question": lambda ctx: ctx.wait_for_user("Pay?"),
    "step": lambda ctx: ctx.step(step),
    "sleep": lambda ctx: ctx.sleep(5),
    "local call": lambda ctx: ctx.lfc(inner),
    "plain local call": lambda ctx: ctx.lfc(lambda ctx: None),
    "local invocation": lambda ctx: ctx.lfi(inner),
    "child": lambda ctx: ctx.rfc("other"),
    "child invocation": lambda ctx: ctx.rfi("other"),
    "detached run": lambda ctx: ctx.detached("other"),
    "promise": lambda ctx: ctx.promise(),
    "signal": lambda ctx: ctx.wait_for_signal("go"),
    "callback": lambda ctx: ctx.callback("Paid?"),
    "progress": lambda ctx: ctx.progress("half"),
    "with options": lambda ctx: ctx.wait_for_user("Pay?").options(timeout_seconds=5),
}

kept: list[Any] = []


class Scene:
    """An app, and what its steps have done."""

    def __init__(self) -> None:
        self.app = Signoff(MemoryStore())
        self.done: list[str] = []

    def pay(self) -> None:
        self.done.append("paid")

    async def refusal(self, work: Any) -> NotAwaited:
        """Run code that is refused; returns why."""
        self.app.workflow(work)
        async with environment(self.app) as env:
            run = await env.start(work)
            with pytest.raises(NotAwaited) as refused:
                await run.result()
            assert (await env.client.backend.get_run(run.id)).retryable
            assert not (await env.client.questions()).items
        assert re.search(r"test_unawaited_context_calls.py:\d+ in ", refused.value.where)
        return refused.value


@pytest.mark.parametrize("build", BUILDING.values(), ids=BUILDING)
@in_asyncio
async def test_what_is_dropped_fails_the_run_before_anything_else_happens(build: Any) -> None:
    scene = Scene()

    async def work(ctx: Context) -> None:
        build(ctx)
        await ctx.step(scene.pay)

    await scene.refusal(work)
    assert scene.done == []


@pytest.mark.parametrize("build", BUILDING.values(), ids=BUILDING)
@in_asyncio
async def test_what_a_generator_builds_and_does_not_yield_fails_it(build: Any) -> None:
    scene = Scene()

    def work(ctx: Context) -> Generator[Any, Any, None]:
        build(ctx)
        yield ctx.lfc(lambda ctx: scene.pay())

    await scene.refusal(work)
    assert scene.done == []


@pytest.mark.parametrize("build", BUILDING.values(), ids=BUILDING)
@in_asyncio
async def test_what_is_kept_to_the_end_fails_the_run(build: Any) -> None:
    async def work(ctx: Context) -> str:
        answer = build(ctx)
        kept.append(answer)
        return "done"

    try:
        await Scene().refusal(work)
    finally:
        kept.clear()


@pytest.mark.parametrize("kind", ["async", "generator"])
@in_asyncio
async def test_what_is_dropped_does_not_happen_in_any_store(new_store: NewStore, kind: str) -> None:
    app, paid = Signoff(new_store()), list[str]()

    @app.workflow(name="async")
    async def asynchronous(ctx: Context) -> None:
        ctx.wait_for_user("Pay?")
        await ctx.step("pay", paid.append, "paid")

    @app.workflow(name="generator")
    def generator(ctx: Context) -> Generator[Any, Any, None]:
        ctx.wait_for_user("Pay?")
        yield ctx.step("pay", paid.append, "paid")

    async with running(app) as client:
        with pytest.raises(NotAwaited, match="question 'Pay.'"):
            await (await client.start(kind, id="r")).result(60)
        assert (await app.store.get_run("r")).retryable
        assert not await asked(client, "r")
    assert paid == []


@in_asyncio
async def test_what_is_in_a_variable_at_the_end_fails_the_run() -> None:
    async def work(ctx: Context) -> str:
        answer = ctx.wait_for_user("Pay?")
        await ctx.step(step)
        return "done" if answer is not None else "not done"

    refused = await Scene().refusal(work)
    assert refused.what == "question 'Pay?'"


@in_asyncio
async def test_what_is_returned_without_an_await_fails_the_run() -> None:
    async def work(ctx: Context) -> Any:
        return ctx.step(step)

    def generated(ctx: Context) -> Generator[Any, Any, Any]:
        yield ctx.lfc(lambda ctx: None)
        return ctx.lfc(lambda ctx: None)

    await Scene().refusal(work)
    await Scene().refusal(generated)


@in_asyncio
async def test_what_a_function_of_the_run_builds_fails_it_as_well() -> None:
    scene = Scene()

    async def helper(ctx: Context) -> None:
        ctx.wait_for_user("Pay?")

    async def work(ctx: Context) -> None:
        await ctx.lfc(helper)
        await ctx.step(scene.pay)

    await scene.refusal(work)
    assert scene.done == []


@in_asyncio
async def test_a_run_that_waits_after_that_does_not_wait() -> None:
    async def work(ctx: Context) -> None:
        event = asyncio.Event()
        ctx.wait_for_user("Pay?")
        await event.wait()

    await Scene().refusal(work)


@pytest.mark.parametrize("build", BUILDING.values(), ids=BUILDING)
@pytest.mark.parametrize(
    "look",
    [bool, lambda call: call == True, lambda call: call != "no", lambda call: call in ("yes", "no")],  # noqa: E712
    ids=["truth", "equality", "difference", "membership"],
)
@in_asyncio
async def test_what_is_not_awaited_is_neither_true_nor_equal_to_anything(build: Any, look: Any) -> None:
    scene = Scene()

    async def work(ctx: Context) -> None:
        if look(build(ctx)):
            await ctx.step(scene.pay)
        await ctx.step(scene.pay)

    refused = await scene.refusal(work)
    assert scene.done == []
    assert re.search("tested for truth|compared with", str(refused))


LABELS = {
    "local invocation": "the concurrent call of function 'inner'",
    "child invocation": "the concurrent call of child 'other'",
    "detached run": "detached run 'other'",
    "promise": "ctx.promise()",
    "callback": "callback 'Paid?'",
    "progress": "progress 'half'",
}


@pytest.mark.parametrize("name", LABELS)
@in_asyncio
async def test_the_error_names_the_call_and_not_a_class_of_signoff(name: str) -> None:
    async def work(ctx: Context) -> None:
        bool(BUILDING[name](ctx))

    assert (await Scene().refusal(work)).what == LABELS[name]


@in_asyncio
async def test_a_question_that_was_answered_is_not_its_answer() -> None:
    scene = Scene()

    async def work(ctx: Context) -> None:
        question = ctx.wait_for_user("Pay?")
        await question
        if question:
            await ctx.step(scene.pay)

    scene.app.workflow(work)
    async with environment(scene.app) as env:
        env.people.answer("Pay?", approved=False)
        with pytest.raises(NotAwaited, match="question 'Pay.'.*tested for truth"):
            await env.run(work)
    assert scene.done == []


def _unpacked(call: Any) -> Any:
    one, two = call
    return one, two


USES: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda call: call.approved,
    "item": lambda call: call["approved"],
    "comparison": lambda call: call > 100,
    "reversed comparison": lambda call: call >= 100,
    "sum": lambda call: 1 + call,
    "sum of several": lambda call: sum([call, call]),
    "text": lambda call: "approved: " + call,
    "iteration": lambda call: [*call],
    "member": lambda call: "approved" in call,
    "unpacked": _unpacked,
    "length": len,
    "number": lambda call: int(call) + round(call),
    "least": lambda call: min(call, 1),
    "union": lambda call: {"a": 1} | call,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("build", ["question", "step", "local invocation", "callback", "child"])
@in_asyncio
async def test_what_is_used_as_its_value_fails_the_run_retryably(use: Any, build: str) -> None:
    scene = Scene()
    scene.app = Signoff(MemoryStore(), public_url="https://signoff.example")

    async def work(ctx: Context) -> None:
        if use(BUILDING[build](ctx)):
            await ctx.step(scene.pay)

    refusal = await scene.refusal(work)
    assert "used as a value" in refusal.how or "attribute 'approved'" in refusal.how
    assert scene.done == []


@in_asyncio
async def test_what_is_not_awaited_may_be_asked_whether_it_has_something() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        call = ctx.step(step)
        found = [hasattr(call, "approved"), getattr(call, "approved", "none"), hasattr(call, "__fspath__")]
        return [*found, await call]

    async with environment(app) as env:
        assert await env.run(work) == [False, "none", False, "stepped"]


OPENED: dict[str, Callable[[Context], Any]] = {
    "promise": lambda ctx: ctx.promise(id="approval"),
    "callback": lambda ctx: ctx.callback("Paid?"),
    "local handle": lambda ctx: ctx.lfi(inner),
    "handle of a child": lambda ctx: ctx.rfi(agreed),
}


async def agreed(ctx: Context) -> bool:
    return False


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
@pytest.mark.parametrize("style", ["async", "generator"])
@in_asyncio
async def test_what_is_under_way_is_not_its_value(opened: Any, style: str) -> None:
    scene = Scene()
    scene.app = Signoff(MemoryStore(), public_url="https://signoff.example")
    scene.app.workflow(agreed)

    async def work(ctx: Context) -> None:
        if await opened(ctx):
            await ctx.step(scene.pay)

    def generated(ctx: Context) -> Generator[Any, Any, None]:
        if (yield opened(ctx)):
            yield ctx.lfc(lambda ctx: scene.pay())

    which: Any = work if style == "async" else generated
    scene.app.workflow(which)
    async with environment(scene.app) as env:
        with pytest.raises(NotAwaited, match="tested for truth"):
            await (await env.start(which)).result()
    assert scene.done == []


# what is right


@in_asyncio
async def test_calls_that_are_built_early_and_awaited_later_are_fine() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        first, second, last = ctx.step(step), ctx.lfc(inner), ctx.sleep(1)
        several = [ctx.step(f"s{n}", step) for n in range(3)]
        assert await first == "stepped"
        found: list[Any] = list(await asyncio.gather(second, *several))
        async with asyncio.TaskGroup() as group:
            group.create_task(last)
        await asyncio.wait_for(ctx.sleep(1), 5)
        assert first in [first, second]
        assert first != second
        assert first is not None
        return found

    async with environment(app) as env:
        assert await env.run(work) == [None, "stepped", "stepped", "stepped"]


@in_asyncio
async def test_an_error_on_the_way_excuses_what_was_to_be_awaited_after_it() -> None:
    app = Signoff(MemoryStore())

    def fail() -> None:
        raise ValueError("no")

    async def both(ctx: Context) -> None:
        first, second = ctx.step(fail).options(non_retryable=(ValueError,)), ctx.step(step)
        await first
        await second

    @app.workflow
    async def work(ctx: Context) -> str:
        try:
            await both(ctx)
        except ValueError as error:
            return str(error)
        return "both"

    @app.workflow
    async def failing(ctx: Context) -> None:
        await both(ctx)

    async with environment(app) as env:
        with pytest.warns(RuntimeWarning, match="step 'step'.*never awaited"):
            assert await env.run(work) == "no"
        with pytest.raises(ValueError, match="no"):
            await env.run(failing)


async def cancelled(ctx: Context) -> None:
    task: asyncio.Task[Any] = asyncio.create_task(ctx.step(step))  # pyright: ignore[reportArgumentType]
    task.cancel()
    await asyncio.wait([task])


async def without_time(ctx: Context) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ctx.step(step), 0)


async def group_that_fails(ctx: Context) -> None:
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(step))  # pyright: ignore[reportArgumentType]
            raise ValueError("no")


async def given_to_another(ctx: Context) -> None:
    async def later(call: Any) -> Any:
        return await call

    task = asyncio.create_task(later(ctx.step(step)))
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("give_up", [cancelled, without_time, group_that_fails, given_to_another])
@pytest.mark.filterwarnings("error")
@in_asyncio
async def test_the_call_of_a_task_that_is_cancelled_before_it_begins_is_given_up(give_up: Any) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> str:
        await give_up(ctx)
        await ctx.sleep(1)
        return "went on"

    async with environment(app) as env:
        assert await env.run(work) == "went on"


@in_asyncio
async def test_an_error_of_use_is_not_hidden_by_what_was_built_before_it() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> None:
        await asyncio.gather(ctx.step(step), ctx.step(step, timeout=-1))

    async with environment(app) as env:
        with pytest.raises(ValueError, match="timeout"):
            await env.run(work)


@in_asyncio
async def test_a_mended_run_asks_when_it_is_retried(new_store: NewStore) -> None:
    forgets = [True]
    app = Signoff(new_store())

    @app.workflow
    async def work(ctx: Context) -> str:
        await ctx.step(step)
        if forgets:
            ctx.wait_for_user("Pay?")
        else:
            answer = await ctx.wait_for_user("Pay?")
            return "paid" if answer.approved else "not paid"
        return "paid"

    async with running(app) as client:
        run = await client.start(work, id="r")
        with pytest.raises(NotAwaited, match="question 'Pay.'"):
            await run.result(60)
        forgets.clear()
        await client.retry("r")
        await pauses(app, "r")
        (question,) = await asked(client, "r")
        await client.answer(question.id, False)
        assert await run.result(60) == "not paid"
