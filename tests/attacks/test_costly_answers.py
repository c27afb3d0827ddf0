"""Answers that are costly to check block no event loop: another process checks them, with hard limits."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from signoff.errors import InvalidValue, WrongAnswer
from signoff.people.questions.answers import answer
from signoff.people.questions.question import Question
from signoff.people.schemas import validation_process
from signoff.people.schemas.promise_returns import data_of
from signoff.people.schemas.validation import MOST_CHECKS, MOST_UNFOLDED, problems, problems_if_light
from signoff.people.schemas.validation_cost import CALLED_FORMATS, Unfolded
from signoff.people.schemas.validation_process import find_problems, schema_problem_apart
from signoff.people.schemas.value_size import Weight
from signoff.records import NewPromise, PromiseKind, PromiseState, Settlement
from signoff.server.store_api.worker_settlements import check_settlement
from signoff.service.service import LocalBackend
from signoff.stores.contract.store import Store
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.costly import COSTLY, doubling, fractions
from tests.support import in_asyncio

MOST_HELD_SECONDS = 0.5  # of processor time, between two turns of the loop
SHORT = 0.05
MOST_ALLOWED_SECONDS = 2.0  # the estimate allows 0.3
MOST_LIGHT_SECONDS = 0.1


@asynccontextmanager
async def _turning() -> AsyncGenerator[Callable[[], float]]:
    """Measures the most processor time that this process took between two turns of the loop."""
    longest = 0.0

    async def turn() -> None:
        nonlocal longest
        last = time.process_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.process_time()
            longest, last = max(longest, now - last), now

    turning = asyncio.create_task(turn())
    try:
        yield lambda: longest
    finally:
        turning.cancel()
        with suppress(asyncio.CancelledError):
            await turning


@pytest.mark.parametrize("name", COSTLY)
@in_asyncio
async def test_the_loop_continues_while_a_costly_answer_is_checked(name: str) -> None:
    async with _turning() as held:
        await find_problems(*COSTLY[name])
        await asyncio.to_thread(schema_problem_apart, COSTLY[name][0])
        assert held() < MOST_HELD_SECONDS


@asynccontextmanager
async def _stored(folder: Path) -> AsyncGenerator[Store]:
    store = SqliteStore(folder / "signoff.db")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _by_answer(store: Store, schema: dict[str, Any], value: Any) -> None:
    asked = Question.make("?", input_type="form", answer_type=schema)
    await store.create_promise(NewPromise("q", PromiseKind.QUESTION, data=asked.to_json()))
    await answer(store, "q", value)


async def _by_worker(store: Store, schema: dict[str, Any], value: Any) -> None:
    asked = Question.make("?", input_type="form", answer_type=schema)
    made, _ = await store.create_promise(NewPromise("q", PromiseKind.QUESTION, data=asked.to_json()))
    await check_settlement(made, Settlement(PromiseState.RESOLVED, str(value)), store.clock.now())


async def _by_promise(store: Store, schema: dict[str, Any], value: Any) -> None:
    await store.create_promise(NewPromise("p", data=data_of(None, schema, has_data=False)))
    await LocalBackend(store).settle("p", Settlement(PromiseState.RESOLVED, str(value)))


@pytest.mark.parametrize("door", [_by_answer, _by_worker, _by_promise])
@in_asyncio
async def test_every_door_refuses_what_takes_too_long_and_the_loop_continues(
    door: Callable[..., Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate allows the answer, but it takes longer than the other process may take."""
    limited = f"from signoff.people.schemas import validation_process as v; v.MOST_CPU_SECONDS = {SHORT}; "
    command = vars(validation_process)["_CHILD"]
    pool = vars(validation_process)["_Pool"]()
    monkeypatch.setattr(
        validation_process, "_CHILD", command.replace("from signoff", limited + "from signoff")
    )
    monkeypatch.setattr(validation_process, "_pool", pool)
    async with _stored(tmp_path) as store, _turning() as held:
        with pytest.raises((WrongAnswer, InvalidValue), match="takes too long to check"):
            await door(store, *fractions(1_000, 150))
        assert held() < MOST_HELD_SECONDS
    pool.close()


@pytest.mark.parametrize("name", COSTLY)
def test_the_estimate_covers_the_time_of_a_check(name: str) -> None:
    """What the estimate allows, as much of the answer as it does, takes no longer than it may."""
    schema, answer = COSTLY[name]
    while isinstance(answer, list) and len(answer) > 1 and is_refused(schema, answer):
        answer = answer[: len(answer) // 2]
    if not is_refused(schema, answer):
        began_at = time.process_time()
        problems(schema, answer)
        assert time.process_time() - began_at < MOST_ALLOWED_SECONDS


@pytest.mark.parametrize(
    "name", sorted(COSTLY.keys() - {"dependent names"})
)  # to read its schema takes that long
def test_no_check_on_the_loop_takes_long(name: str) -> None:
    schema, answer = COSTLY[name]
    while isinstance(answer, list) and len(answer) > 1 and problems_if_light(schema, answer) is None:
        answer = answer[: len(answer) // 2]
    began_at = time.process_time()
    problems_if_light(schema, answer)
    assert time.process_time() - began_at < MOST_LIGHT_SECONDS


def is_refused(schema: dict[str, Any], answer: Any) -> bool:
    """Whether an answer, or its schema, is refused unchecked."""
    unfolded = Unfolded(schema, len(json.dumps(schema)))
    return unfolded.each.checks > MOST_UNFOLDED or not unfolded.may_check(answer, MOST_CHECKS)


@in_asyncio
async def test_costly_answers_get_the_same_problems_as_ordinary_ones() -> None:
    schema = {"items": {"type": "integer"}}
    wrong = [*range(20_000), "x"]
    assert problems_if_light(schema, wrong) is None
    assert await find_problems(schema, wrong) == problems(schema, wrong)
    assert await find_problems(schema, wrong[:-1]) == []
    assert schema_problem_apart(doubling(14, "anyOf")) is None
    assert "more than" in (schema_problem_apart(doubling(30, "anyOf")) or "")


def test_ordinary_answers_are_checked_where_they_are() -> None:
    names = [f"field{n}" for n in range(30)]
    form = {
        "type": "object",
        "properties": {
            each: {"type": "string", "maxLength": 200, "pattern": "^[^<>]{0,200}$"} for each in names
        },
        "required": names,
        "additionalProperties": False,
    }
    assert problems_if_light(form, dict.fromkeys(names, "some words")) == []
    approval = {"type": "object", "properties": {"approved": {"type": "boolean"}}}
    assert problems_if_light(approval, {"approved": True}) == []


@in_asyncio
async def test_without_another_process_answers_are_checked_in_this_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    validation_process._pool.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    validation_process._pool._is_reported = False
    wrong = [*range(20_000), "x"]
    assert len(await find_problems({"items": {"type": "integer"}}, wrong)) == 1
    assert "no other can be started" in caplog.text


@pytest.mark.parametrize("kind", sorted(CALLED_FORMATS))
def test_formats_that_python_checks_cost_what_a_call_costs(kind: str) -> None:
    schema = {"type": "array", "items": {"type": "string", "format": kind}}
    unfolded = Unfolded(schema, len(json.dumps(schema)))
    many = ["1"] * 100
    assert unfolded.checks_of(Weight.of(many)) >= 60 * len(many)
    assert not unfolded.may_check(many, 60 * len(many))
    assert unfolded.may_check(many, 100 * len(many))
