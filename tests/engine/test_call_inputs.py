"""A replay compares the inputs of calls: a result is never handed to another call."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, SecretStr

from signoff import BusinessHours, Context, Signoff
from signoff.engine.run.trial_replay import Verdict, check
from signoff.errors import NonDeterminism, SignoffError
from signoff.people.questions.actions import Action
from signoff.records import EntryKind, RunState
from signoff.redaction.records import Redaction
from signoff.testing import CrashPoint, MemoryStore, after_entry, after_step, at_pause, environment
from tests.support import in_asyncio

Code = Callable[[Context], Awaitable[Any]]


async def restarted(first: Code, then: Code, *, at: CrashPoint | None = None) -> Any:
    """Run ``first`` until its worker dies, then ``then`` on another one. Returns the result, or the error."""
    app = Signoff(MemoryStore())
    begun = itertools.count()

    async def child(ctx: Context, order: str = "") -> str:
        return order

    for name in ("child", "other"):
        app.workflow(name=name)(_named(child))

    @app.workflow
    async def flow(ctx: Context) -> Any:
        return await (first if next(begun) == 0 else then)(ctx)

    async with environment(app, groups=["elsewhere"]) as env:
        env.crash(at=at or at_pause())
        await env.start(flow, id="r")
        await env.idle()
        assert not env.pending_crashes
        for question in (await env.client.questions()).items:
            for user in ("a", "b"):
                with contextlib.suppress(SignoffError):
                    await env.client.answer(question.id, True, user_id=user)
        await env.client.signal("r", "go")
        for promise in ("r.1", "r.2", "p-a", "p-b"):
            with contextlib.suppress(SignoffError):  # it does not exist
                await env.client.promises.resolve(promise, "paid")
        await env.idle()
        await env.sleep(10_000)
        run = await env.client.get("r")
        try:
            return await run.result()
        except Exception as error:
            return error


def _named(code: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(code)
    async def copy(ctx: Context, order: str = "") -> Any:
        return await code(ctx, order)

    return copy


def pay(order: Any, *more: Any) -> str:
    return f"paid {order}"


def in_order(*orders: Any, call: Callable[[Context, Any], Awaitable[Any]]) -> Code:
    """Workflow code that makes a call for each order, one after the other, then waits."""

    async def code(ctx: Context) -> list[Any]:
        done = [await call(ctx, order) for order in orders]
        await ctx.wait_for_signal("go")
        return done

    return code


def at_once(*orders: Any, call: Callable[[Context, Any], Awaitable[Any]]) -> Code:
    """Workflow code that makes the calls for all orders at once."""

    async def code(ctx: Context) -> list[Any]:
        return await asyncio.gather(*(call(ctx, order) for order in orders), ctx.wait_for_signal("go"))

    return code


# Every kind of call


async def by_step(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", pay, order)


async def by_once_step(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", pay, order, effect="once")


async def by_key(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", lambda: "paid", key=f"pay-{order}")


async def by_partial(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", functools.partial(pay, order))


async def by_named_partial(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", functools.partial(pay, order=order))


async def by_default(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", lambda order=order: pay(order))


async def by_closure(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", lambda: pay(order))


async def by_nested_closure(ctx: Context, order: Any) -> Any:
    def pays() -> str:
        return pay(order)

    return await ctx.step("pay", lambda: f"{pays()}!")


async def by_closure_in_a_task(ctx: Context, order: Any) -> Any:
    async def beside() -> Any:
        return await ctx.step("pay", lambda: pay(order))

    return await asyncio.create_task(beside())


async def by_call_in_a_task(ctx: Context, order: Any) -> Any:
    return await asyncio.create_task(ctx.step("pay", lambda: pay(order)))


async def by_lfc(ctx: Context, order: Any) -> Any:
    return await ctx.lfc(with_context, order=order)


def with_context(ctx: Any, order: str) -> str:
    return pay(order)


async def by_local_function(ctx: Context, order: Any) -> Any:
    return await ctx.lfc(local, order)


async def local(ctx: Context, order: str) -> str:
    return await ctx.step("pay", pay, order)


async def by_method(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", Frozen(order).pay)


@dataclass(frozen=True)
class Frozen:
    order: str

    def pay(self) -> str:
        return pay(self.order)


class Gateway:
    @classmethod
    def pay(cls) -> str:
        return pay(cls.__name__)

    @classmethod
    async def pay_there(cls) -> str:
        return pay(cls.__name__)


GATEWAYS = {name: type(name, (Gateway,), {"__module__": __name__}) for name in "ab"}


async def by_class_method(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", GATEWAYS[order].pay)


async def by_async_class_method(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", GATEWAYS[order].pay_there)


async def by_compare(ctx: Context, order: Any) -> Any:
    return await ctx.step("pay", lambda: "paid", compare={"order": order})


async def by_child(ctx: Context, order: Any) -> Any:
    return await ctx.rfc("child", order)


async def by_named_child(ctx: Context, order: Any) -> Any:
    return await ctx.rfc("child", order=order)


async def by_child_id(ctx: Context, order: Any) -> Any:
    return await ctx.rfc("child").options(id=f"child-{order}")


async def by_child_group(ctx: Context, order: Any) -> Any:
    return await ctx.rfc("child").options(target="elsewhere" if order == "a" else "default")


async def by_detached(ctx: Context, order: Any) -> Any:
    return await ctx.detached("child", order)


async def by_detached_id(ctx: Context, order: Any) -> Any:
    return await ctx.detached("child").options(id=f"child-{order}")


async def by_child_delay(ctx: Context, order: Any) -> Any:
    return await ctx.rfc("child").options(delay_seconds=1 if order == "a" else 2)


async def by_detached_start(ctx: Context, order: Any) -> Any:
    start_at = ctx.now() + timedelta(hours=1 if order == "a" else 2)
    return await ctx.detached("child").options(start_at=start_at)


async def by_hours(ctx: Context, order: Any) -> Any:
    answer = await ctx.wait_for_user(
        "Pay?", hours=BusinessHours("UTC"), remind_every=3600 if order == "a" else 7200, timeout_seconds=1e6
    )
    return answer.approved


async def by_assignees(ctx: Context, order: Any) -> Any:
    return (await ctx.wait_for_user("Pay?", assignees=[f"user:{order}"])).approved


async def by_metadata(ctx: Context, order: Any) -> Any:
    return (await ctx.wait_for_user("Pay?", metadata={"order": order})).approved


async def by_proposal(ctx: Context, order: Any) -> Any:
    return (await ctx.wait_for_user("Pay?", proposal={"order": order})).approved


async def by_action(ctx: Context, order: Any) -> Any:
    return (await ctx.wait_for_user("Pay?", action=Action("pay", {"order": order}))).approved


async def by_quorum(ctx: Context, order: Any) -> Any:
    return (await ctx.wait_for_user("Pay?", quorum=1 if order == "a" else 2)).approved


async def by_promise(ctx: Context, order: Any) -> Any:
    return await (await ctx.promise(id=f"p-{order}"))


async def by_promise_data(ctx: Context, order: Any) -> Any:
    return await (await ctx.promise(data=order))


async def by_signal_timeout(ctx: Context, order: Any) -> Any:
    return await ctx.wait_for_signal("go", timeout_seconds=60 if order == "a" else 61)


async def by_timer(ctx: Context, order: Any) -> Any:
    await ctx.sleep(5 if order == "a" else 7)


async def by_progress(ctx: Context, order: Any) -> Any:
    await ctx.progress("paying", order=order)


KINDS = [
    by_step,
    by_once_step,
    by_key,
    by_partial,
    by_named_partial,
    by_default,
    by_closure,
    by_nested_closure,
    by_closure_in_a_task,
    by_call_in_a_task,
    by_lfc,
    by_local_function,
    by_method,
    by_class_method,
    by_async_class_method,
    by_compare,
    by_child,
    by_named_child,
    by_child_id,
    by_child_group,
    by_detached,
    by_detached_id,
    by_child_delay,
    by_detached_start,
    by_hours,
    by_assignees,
    by_metadata,
    by_proposal,
    by_action,
    by_quorum,
    by_promise,
    by_promise_data,
    by_signal_timeout,
    by_timer,
    by_progress,
]


@pytest.mark.parametrize("made", [in_order, at_once], ids=["in_order", "at_once"])
@pytest.mark.parametrize("call", KINDS, ids=lambda call: call.__name__)
@in_asyncio
async def test_calls_in_another_order_are_noticed(
    call: Callable[[Context, Any], Awaitable[Any]], made: Callable[..., Code]
) -> None:
    error = await restarted(made("a", "b", call=call), made("b", "a", call=call))
    assert isinstance(error, NonDeterminism), error
    assert error.recorded != error.issued
    assert str(error.where).startswith(f"{__file__}:")
    assert "ctx.patched" in str(error)


@pytest.mark.parametrize("made", [in_order, at_once], ids=["in_order", "at_once"])
@pytest.mark.parametrize("call", KINDS, ids=lambda call: call.__name__)
@in_asyncio
async def test_the_same_calls_fit(
    call: Callable[[Context, Any], Awaitable[Any]], made: Callable[..., Code]
) -> None:
    code = made("a", "b", call=call)
    result = await restarted(code, code)
    assert not isinstance(result, NonDeterminism), result


# Values


class Color(Enum):
    RED = "red"


class Order(BaseModel):
    id: str
    lines: list[str] = []


@dataclass
class Address:
    city: str
    since: datetime


class Point(NamedTuple):
    x: float
    y: float


def plain() -> None:
    """A function, as an argument."""


# Made anew each time, as workflow code does.
STABLE: list[Callable[[int], Any]] = [
    lambda turn: {"a": 1, "b": 2} if turn == 0 else {"b": 2, "a": 1},
    lambda turn: {f"o-{number}" for number in (range(9) if turn == 0 else reversed(range(9)))},
    lambda turn: frozenset([(1, "a"), (2, "b")]),
    lambda turn: {(1, 2): "tuples", None: "as keys"},
    lambda turn: float("nan"),
    lambda turn: [float("inf"), -0.0, 1e300, 2**70],
    lambda turn: Decimal("NaN"),
    lambda turn: Decimal("1.10"),
    lambda turn: datetime(2026, 1, 2, 3, 4, tzinfo=ZoneInfo("Europe/Berlin")),
    lambda turn: b"\xff\x00",
    lambda turn: bytearray(b"ab"),
    lambda turn: "\ud800",
    lambda turn: Color.RED,
    lambda turn: Order(id="o", lines=["x"]),
    lambda turn: Address("Ulm", datetime(2026, 1, 1, tzinfo=UTC)),
    lambda turn: Point(1.5, 2.5),
    lambda turn: Path("a/b"),
    lambda turn: SecretStr("hush"),
    lambda turn: range(3),
    lambda turn: plain,
    lambda turn: Order,
    lambda turn: ValueError("no"),
    lambda turn: [{"deep": [{"er": {"x": (1, {2})}}]}],
    lambda turn: "long " * 1000,
    lambda turn: None,
]


@pytest.mark.parametrize("make", STABLE, ids=range(len(STABLE)))
@in_asyncio
async def test_equal_arguments_are_the_same_arguments(make: Callable[[int], Any]) -> None:
    def code(turn: int) -> Code:
        return in_order(
            "a", call=lambda ctx, _: ctx.step("see", lambda value, *, named=None: "seen", make(turn))
        )

    assert await restarted(code(0), code(1)) == ["seen"]


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (1, 2, "value=1"),
        (1, "1", 'value="1"'),
        (True, 1, "value=true"),
        (["long " * 100, 1], ["long " * 100, 2], "characters, digest"),
        (Order(id="o", lines=["x"]), Order(id="o", lines=["y"]), 'value={"id": "o", "lines": ["x"]}'),
        ({"a": 1}, {"a": 1, "b": None}, 'value={"a": 1}'),
        (float("nan"), 1.0, 'value="nan"'),
    ],
)
@in_asyncio
async def test_other_arguments_are_shown(one: object, other: object, shown: str) -> None:
    def code(value: object) -> Code:
        return in_order("a", call=lambda ctx, _: ctx.step("see", lambda value: "seen", value))

    error = await restarted(code(one), code(other))
    assert isinstance(error, NonDeterminism)
    assert shown in f"{error.recorded} {error.issued}"


@in_asyncio
async def test_one_argument_more_is_another_call_but_a_renamed_parameter_is_not() -> None:
    def code(*args: int, function: Callable[..., Any] = lambda *args: "seen") -> Code:
        return in_order("a", call=lambda ctx, _: ctx.step("see", function, *args))

    assert isinstance(await restarted(code(), code(1)), NonDeterminism)
    error = await restarted(code(1, 2), code(1))
    assert isinstance(error, NonDeterminism)
    assert "a deploy changed" in str(error)
    assert await restarted(code(1, function=lambda old: old), code(1, function=lambda new: new)) == [1]


class Client:
    """What has no stable form."""


@in_asyncio
async def test_what_has_no_stable_form_is_left_out_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def call(client: Client, order: str) -> str:
        return order

    def code(order: str) -> Code:
        async def both(ctx: Context) -> Any:
            await ctx.step("call", call, Client(), order)
            await ctx.step("call", call, Client(), order)
            return await ctx.wait_for_signal("go")

        return both

    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        assert not isinstance(await restarted(code("a"), code("a")), NonDeterminism)
        assert isinstance(await restarted(code("a"), code("b")), NonDeterminism)
    (warning,) = [record.getMessage() for record in caplog.records if "no stable form" in record.getMessage()]
    assert "'client'" in warning
    assert "Client" in warning


# Whatever state a call is in


async def _fails(order: str) -> str:
    raise ValueError(order)


@pytest.mark.parametrize(
    ("call", "at"),
    [
        (by_step, after_entry(1)),
        (by_once_step, after_entry(1)),
        (by_once_step, after_step("pay")),
        (lambda ctx, order: ctx.step("pay", _fails, order), after_entry(1)),
        (by_timer, at_pause()),
        (by_child, after_entry(1)),
        (by_metadata, after_entry(1)),
    ],
    ids=["completed", "begun", "once lost", "failed attempt", "timer", "open child", "open question"],
)
@in_asyncio
async def test_a_call_is_compared_whatever_it_has_come_to(
    call: Callable[[Context, Any], Awaitable[Any]], at: CrashPoint
) -> None:
    result = await restarted(in_order("a", "b", call=call), in_order("b", "a", call=call), at=at)
    assert isinstance(result, NonDeterminism), result


@in_asyncio
async def test_another_schema_of_what_a_promise_returns_is_no_difference() -> None:
    def code(returns: Any) -> Code:
        return in_order("a", call=lambda ctx, _: _settled(ctx, returns))

    async def _settled(ctx: Context, returns: Any) -> Any:
        return await (await ctx.promise(data={"order": "a"}, returns=returns))

    assert await restarted(code(str), code(str | None)) == ["paid"]


@in_asyncio
async def test_a_value_to_compare_without_a_stable_form_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    code = in_order("a", call=lambda ctx, order: ctx.step("pay", pay, order, compare=Client()))
    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        assert await restarted(code, code) == ["paid a"]
    assert "'compare'" in caplog.text


@in_asyncio
async def test_a_step_that_began_once_is_asked_about_whatever_the_code_says_now() -> None:
    paid: list[str] = []

    def code(effect: Any) -> Code:
        async def flow(ctx: Context) -> Any:
            return await ctx.step("pay", paid.append, "a", effect=effect)

        return flow

    result = await restarted(code("once"), code("repeatable"), at=after_step("pay"))
    assert paid == ["a"]
    assert not isinstance(result, NonDeterminism)


@in_asyncio
async def test_each_process_and_the_check_before_a_deploy_notice_a_swap_once() -> None:
    app = Signoff(MemoryStore())
    orders = ["a", "b"]

    @app.workflow
    async def flow(ctx: Context) -> Any:
        done = [await ctx.step("pay", pay, order) for order in orders]
        await ctx.wait_for_signal("go")
        return done

    async with environment(app) as env:
        await env.start(flow, id="r")
        await env.idle()
        run, entries = await env.store.get_run("r"), await env.store.read_journal("r")
        assert (await check(run, entries, app.registry)).verdict is Verdict.FITS
        orders.reverse()
        found = await check(run, entries, app.registry)
    assert (found.verdict, found.n) == (Verdict.DIFFERS, 1)
    assert (found.recorded, found.issued) == (
        "step 'pay' with (order=\"a\")",
        "step 'pay' with (order=\"b\")",
    )


@in_asyncio
async def test_redaction_hides_what_is_journaled_of_arguments() -> None:
    app = Signoff(MemoryStore())
    ibans = ["DE89370400440532013000", "GB33BUKB20201555555555"]
    begun = itertools.count()

    def transfer(iban: str, card: dict[str, str]) -> str:
        return "done"

    @app.workflow
    async def flow(ctx: Context) -> Any:
        for iban in ibans if next(begun) == 0 else reversed(ibans):
            await ctx.step("transfer", transfer, iban, {"number": iban})
        await ctx.wait_for_signal("go")

    async with environment(app) as env:
        env.crash(at=at_pause())
        await env.start(flow, id="r")
        redaction = Redaction(["iban", "card.number"])
        await env.idle()
        await env.client.signal("r", "go")
        await env.idle()
        entries = await env.store.read_journal("r")
        assert entries[-1].kind is EntryKind.FAILED
        shown = json.dumps([(each.details, each.error) for each in map(redaction.shown, entries)])
        run = await env.store.get_run("r")
        assert run.state is RunState.FAILED
        shown += str(redaction.shown(run).error)
    assert all(iban in str(entries) for iban in ibans)
    assert not [iban for iban in ibans if iban in shown]
    assert "[redacted]" in shown
