"""Conditions: their allowed forms and results, and that decisions hold."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from signoff import Signoff
from signoff.errors import RegistrationError
from signoff.flows import ChunkFailed, Data, Execution, Executions, Flow
from signoff.flows.conditions import Condition
from signoff.flows.errors import ChunkHeld
from signoff.records import RunState
from signoff.testing import MemoryStore, environment
from tests.flows.worlds import WORLDS, store_of
from tests.support import in_asyncio, running


def choosing(condition: Condition, **options: Any) -> Flow:
    flow = Flow("f", auto_close_timeout=0.0, **options)

    @flow.chunk
    async def big(data: Data[Any]) -> None:
        await data.set_state("took", "big")

    @flow.chunk
    async def small(data: Data[Any]) -> None:
        await data.set_state("took", "small")

    flow.if_(condition).to(big).else_().to(small).end_if()
    return flow


async def ended(flow: Flow, input: Any) -> Any:
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        return await (await Executions(env.client, flow.name).start(input)).result()


async def is_more(limit: int, data: Data[int]) -> bool:
    await asyncio.sleep(0)
    return data.input > limit


async def is_big(data: Data[int]) -> bool:
    return await is_more(100, data)


class IsBig:
    async def __call__(self, data: Data[int]) -> bool:
        return await is_more(100, data)


ASYNC: dict[str, Condition] = {
    "an async function": is_big,
    "an object": IsBig(),
    "a partial": functools.partial(is_more, 100),
    "a bound method": IsBig().__call__,
    "a lambda that returns a coroutine": lambda data: is_more(100, data),
    "a lambda that returns a future": lambda data: asyncio.ensure_future(is_big(data)),
}


@pytest.mark.parametrize("what", list(ASYNC))
@pytest.mark.parametrize(("input", "took"), [(1, "small"), (1000, "big")])
@in_asyncio
async def test_async_conditions_are_awaited(what: str, input: int, took: str) -> None:
    assert await ended(choosing(ASYNC[what]), input) == {"took": took}


@pytest.mark.parametrize("hits", ["first", "all"])
@in_asyncio
async def test_async_subjects_and_cases_are_awaited(hits: Any) -> None:
    async def third(data: Data[int]) -> int:
        await asyncio.sleep(0)
        return data.input % 3

    async def never(data: Data[int]) -> bool:
        await asyncio.sleep(0)
        return False

    flow = Flow("f", auto_close_timeout=0.0)
    for name in ("no", "two", "one"):
        _says(flow, name)
    line = flow.match(third, hits=hits).case(never).to("no").case(2).to("two").case(1).to("one")
    line.end_match().to(_keep)
    assert await ended(flow, 5) == {"kept": "two" if hits == "first" else ["two"]}


def _says(flow: Flow, name: str) -> None:
    def says(data: Data[Any]) -> str:
        return name

    flow.chunk(name=name)(says)


def _keep(data: Data[Any]) -> None:
    data.set_state("kept", data.input)


def _quietly(use: Callable[[Data[Any]], Any]) -> Condition:
    def condition(data: Data[Any]) -> bool:
        with suppress(Exception):
            use(data)
        return True

    return condition


USES: dict[str, Callable[[Data[Any]], Any]] = {
    "pause_for": lambda data: data.pause_for("approval", {"question": "big?"}),
    "set_state": lambda data: data.set_state("big", True),
    "append_state": lambda data: data.append_state("big", True),
    "add_state": lambda data: data.add_state("big"),
    "del_state": lambda data: data.del_state("big"),
    "emit": lambda data: data.emit("big"),
}


@pytest.mark.parametrize("what", list(USES))
@pytest.mark.parametrize("is_quiet", [False, True])
@in_asyncio
async def test_a_condition_that_does_more_than_look_fails_with_the_line(what: str, is_quiet: bool) -> None:
    condition = _quietly(USES[what]) if is_quiet else USES[what]
    with pytest.raises(ChunkFailed, match=rf"condition .* uses {what}, at {__file__}:\d+"):
        await ended(choosing(condition), 1)


class Decision(BaseModel):
    approved: bool = False


@pytest.mark.parametrize(
    ("value", "write"),
    [
        ({"approved": False}, r'data\.input\["approved"\]'),
        ({}, "a comparison"),
        ("no", "a comparison"),
        (float("nan"), "a comparison"),
        (Decimal("nan"), "a comparison"),
        ([], "a comparison"),
        (Decision(), "a comparison"),
        (object(), "a comparison"),
    ],
)
@in_asyncio
async def test_a_condition_that_says_neither_yes_nor_no_fails(value: Any, write: str) -> None:
    with pytest.raises(ChunkFailed, match=f"neither true nor false: return {write}"):
        await ended(choosing(lambda data: value), 1)


@pytest.mark.parametrize(
    ("value", "took"),
    [
        (None, "small"),
        (0, "small"),
        (1, "big"),
        (0.5, "big"),
        (Decimal("0.00"), "small"),
        (Decimal("0.01"), "big"),
        (re.match("a", "abc"), "big"),
    ],
)
@in_asyncio
async def test_a_number_a_match_and_none_say_yes_or_no(value: Any, took: str) -> None:
    assert await ended(choosing(lambda data: value), 1) == {"took": took}


@in_asyncio
async def test_conditions_after_the_one_that_holds_are_not_asked() -> None:
    flow, asked = Flow("f", auto_close_timeout=0.0), list[int]()
    flow.chunk(_keep)

    def is_number(number: int, data: Data[int]) -> bool:
        asked.append(number)
        return data.input == number

    taken = flow.match()
    for number in range(3):
        taken = taken.case(functools.partial(is_number, number)).to("_keep")
    taken.end_match()
    assert await ended(flow, 1) == {"kept": 1}
    assert asked == [0, 1]


def test_a_generator_function_is_no_condition() -> None:
    def plain(data: Data[Any]) -> Iterator[bool]:
        yield True

    async def asynchronous(data: Data[Any]) -> AsyncIterator[bool]:
        yield True

    for condition in (plain, asynchronous):
        with pytest.raises(RegistrationError, match="generator function"):
            Flow("f").if_(condition)
        with pytest.raises(RegistrationError, match="generator function"):
            Flow("f").condition(condition)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (True, "is a function of the data, or the name of one, not True"),
        (None, "is a function of the data, or the name of one, not None"),
        (lambda: True, "takes one parameter, its data: too many positional arguments"),
        (lambda data, limit: data.input > limit, "takes one parameter, its data: missing .*'limit'"),
        (lambda *, data: True, "takes one parameter, its data"),
    ],
)
def test_what_cannot_be_called_with_the_data_is_no_condition(condition: Any, why: str) -> None:
    for build in (Flow("f").if_, Flow("f").condition, Flow("f").match().case):
        if callable(condition) or build.__name__ == "if_":
            with pytest.raises(RegistrationError, match=why):
                build(condition)
    for other in (lambda data, limit=3: True, lambda *data: True, functools.partial(max, 3), bool):
        Flow("f").if_(other)


def with_threshold(limit: int, ran: list[str]) -> Flow:
    flow = Flow("refund", auto_close_timeout=0.0)

    @flow.chunk
    async def ask(data: Data[int]) -> Any:
        return await data.pause_for("approval", {"question": "Pay?"}, interrupt_id="q")

    @flow.chunk
    async def pay(data: Data[Any]) -> None:
        ran.append("pay")
        await data.set_state("paid", data.input)

    @flow.condition
    def is_large(data: Data[int]) -> bool:
        return data.input > limit

    def size(data: Data[int]) -> str:
        return "large" if data.input > limit else "small"

    flow.if_(is_large).to(ask).end_if().to(pay)
    flow.match(size).case("large").to(ask).end_match().to(pay)
    return flow


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_a_changed_threshold_breaks_nothing_of_what_waits_behind_it(tmp_path: Path, kind: str) -> None:
    ran = list[str]()
    flow = with_threshold(100, ran)
    flow.roots.pop()
    changed = with_threshold(10_000, ran)
    changed.roots.pop()
    async with store_of(kind, tmp_path) as make:
        app = Signoff(make())
        app.register(flow)
        async with running(app) as client:
            execution = await Executions(client, "refund").start(7000, id="e")
            assert list(await execution.get_pending_interrupts()) == ["q"]
        app = Signoff(make())
        app.register(changed)
        async with running(app) as client:
            execution = Execution(client, "e")
            await execution.continue_with("q", {"approved": True})
            assert await execution.result(60) == {"paid": {"approved": True}}
            again = await Executions(client, "refund").start(7000, id="new")
            assert await again.result(60) == {"paid": 7000}
            assert await again.status() is RunState.SUCCEEDED
    assert ran == ["pay", "pay"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("is_async", [False, True])
@in_asyncio
async def test_a_condition_that_fails_by_anything_keeps_its_execution(
    error: BaseException, is_async: bool
) -> None:
    fails = True

    def plain(data: Data[int]) -> bool:
        if fails:
            raise error
        return True

    async def awaited(data: Data[int]) -> bool:
        return plain(data)

    app = Signoff(MemoryStore())
    flow = choosing(awaited if is_async else plain)
    app.register(flow)
    async with running(app) as client:
        execution = await Executions(client, "f").start(1, id="e")
        with pytest.raises(ChunkHeld, match=f"chunk '{'awaited' if is_async else 'plain'}' failed on 1"):
            await execution.result(60)
        fails = False
        await execution.retry()
        assert await execution.result(60) == {"took": "big"}
