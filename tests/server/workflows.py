"""Workflows that the tests of the server run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic import BaseModel, Field

from signoff import Action, Concurrency, Context, Escalation, Quorum, RetryPolicy, Signoff
from signoff.errors import PromiseCancelled, PromiseRejected, SignalTimeout


class Refund(BaseModel):
    """What a form asks for."""

    amount: int
    reason: str


def register(app: Signoff) -> None:
    """Register all of them."""
    for function in (
        echo,
        ask,
        approve,
        choose,
        refund,
        listen,
        promised,
        explode,
        skip,
        forget,
        sign,
        mail,
        put,
        family,
        flaky,
        count,
        ship,
        collect,
        weigh,
    ):
        app.workflow(function)
    app.workflow(concurrency=Concurrency(2, key=lambda who, number: who["of"]))(one_by_one)


async def echo(ctx: Context, value: Any = None, **more: Any) -> Any:
    return {"value": value, **more} if more else value


async def ask(ctx: Context, text: str = "Go on?", timeout_seconds: float | None = None) -> dict[str, Any]:
    try:
        answer = await ctx.wait_for_user(text, input_type="approval", timeout_seconds=timeout_seconds)
    except SignalTimeout:
        return {"timed_out": True}
    return {"approved": answer.approved, "by": answer.user_id, "note": answer.note}


async def approve(ctx: Context, **policy: Any) -> dict[str, Any]:
    """Ask under a policy; ``quorum`` is two numbers, and ``escalate_to`` answers instead soon, after they were told."""
    if "quorum" in policy:
        policy["quorum"] = Quorum(*policy["quorum"])
    if to := policy.pop("escalate_to", None):
        policy["escalations"] = [Escalation(5.0, to, replace=True)]
    answer = await ctx.wait_for_user("Deploy?", **policy)
    return {"approved": answer.approved, "by": answer.user_id, "votes": len(answer.votes)}


async def choose(ctx: Context) -> Any:
    return (await ctx.wait_for_user("Which?", input_type="select", options=["red", "blue"])).value


async def refund(ctx: Context) -> Any:
    return (await ctx.wait_for_user("How much?", input_type="form", answer_type=Refund)).value


async def skip(ctx: Context) -> bool:
    return (await ctx.wait_for_user("Or not?", input_type="approval", skippable=True)).skipped


async def mail(
    ctx: Context, to: str, text: str = "Hello", assignees: list[str] | None = None
) -> dict[str, Any]:
    action = Action("send_mail", {"to": to, "text": text})
    answer = await ctx.wait_for_user("Send it?", action=action, assignees=assignees or [])
    return {"approved": answer.approved, "by": answer.user_id, "rule": answer.rule}


async def sign(ctx: Context, assignees: list[str], four_eyes: bool = False) -> dict[str, Any]:
    answer = await ctx.wait_for_user(
        "Sign?", input_type="approval", assignees=assignees, exclude_requester=four_eyes
    )
    return {"approved": answer.approved, "by": answer.user_id}


async def put(ctx: Context, text: str, **asked: Any) -> dict[str, Any]:
    """Ask whatever is asked, and return all of the answer."""
    if "action" in asked:
        asked["action"] = Action(*asked["action"])
    answer = await ctx.wait_for_user(text, **asked)
    names = ("value", "proposal", "edits", "others", "skipped", "user_id", "note")
    return {name: getattr(answer, name) for name in names}


async def listen(ctx: Context, name: str = "news") -> Any:
    return await ctx.wait_for_signal(name)


async def promised(ctx: Context, id: str | None = None) -> Any:
    try:
        return await (await ctx.promise(id=id))
    except PromiseRejected as rejected:
        return {"rejected": rejected.value}
    except PromiseCancelled:
        return "cancelled"


async def one_by_one(ctx: Context, who: dict[str, str], number: int) -> int:
    return number


class Speed(Enum):
    SLOW = "slow"
    FAST = "fast"


class Parcel(BaseModel):
    """What is sent."""

    to: str
    grams: int = Field(default=100, ge=1)
    fragile: bool = False
    until: date | None


@dataclass
class Shipment:
    parcel: Parcel
    speed: Speed
    on: date | None
    tags: list[str]
    price: Decimal | None
    extra: Any


@dataclass
class Weighed:
    amount: int | str
    sure: bool | None
    at: time | None
    limits: dict[str, int]


async def ship(
    ctx: Context,
    parcel: Parcel,
    speed: Speed = Speed.SLOW,
    on: date | None = None,
    tags: list[str] = [],  # noqa: B006
    price: Decimal | None = None,
    extra: Any = None,
) -> Shipment:
    """Sends a parcel.

    It also reports its input.
    """
    return Shipment(parcel, speed, on, tags, price, extra)


async def weigh(
    ctx: Context,
    amount: int | str = 1,
    sure: bool | None = None,
    at: time | None = None,
    limits: dict[str, int] = {},  # noqa: B006
) -> Weighed:
    return Weighed(amount, sure, at, limits)


async def collect(ctx: Context, first: int, second: int = 2, /, *rest: int, **named: str) -> list[Any]:
    return [first, second, *rest, named]


async def explode(ctx: Context) -> None:
    raise ValueError("no good")


async def forget(ctx: Context) -> None:
    await asyncio.Event().wait()  # nothing will ever set it: fails, and can be retried


async def family(ctx: Context, generations: int) -> Any:
    """A run with a child, which has one, and so on; the youngest waits for a signal."""
    if generations == 0:
        return await ctx.wait_for_signal("grown")
    return await ctx.rfc(family, generations - 1)


async def flaky(ctx: Context, failures: int) -> str:
    """A step that fails some times, and then does not."""
    tries = iter(range(failures))

    def pay() -> str:
        for _ in tries:
            raise ConnectionError("the bank is away")
        return "paid"

    return await ctx.step("pay", pay, retry=RetryPolicy(initial_seconds=0.01, max_attempts=failures + 1))


async def count(ctx: Context, steps: int) -> int:
    for n in range(steps):
        await ctx.step("count", int, n)
    await ctx.progress("counted", steps=steps)
    return steps
