"""Sets of options, assignees and days: another process iterates them in another order, and a replay accepts that."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import count
from typing import Any

import pytest

from signoff import BusinessHours, Context, Escalation, Signoff
from signoff.errors import RegistrationError
from signoff.testing import MemoryStore, at_pause, environment
from tests.support import in_asyncio

TURNS = count()


class Unordered(set[Any]):
    """A set that is iterated in another order each time, as by processes with other hashes."""

    def __iter__(self) -> Iterator[Any]:
        items = sorted(super().__iter__(), key=str, reverse=next(TURNS) % 2 == 0)
        return iter(items)


PARTS: dict[str, dict[str, Any]] = {
    "options": {"input_type": "multiselect", "options": Unordered({"a", "b", "c"})},
    "assignees": {"assignees": Unordered({"user:ana", "group:finance", "role:operator"})},
    "escalations": {"escalations": [Escalation(60, Unordered({"user:ana", "user:bob"}))]},  # type: ignore[arg-type]
    "hours": {
        "remind_every": 60,
        "hours": BusinessHours(
            "Europe/Berlin",
            days=Unordered({"mon", "tue", "wed"}),  # type: ignore[arg-type]
            holidays=Unordered({date(2030, 1, 1), date(2030, 1, 2)}),
        ),
    },
}


@pytest.mark.parametrize("part", PARTS)
@in_asyncio
async def test_a_set_asks_the_same_question_in_every_process(part: str) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> Any:
        return (await ctx.wait_for_user("Which?", **PARTS[part])).value

    async with environment(app) as env:
        env.crash(at=at_pause())
        run = await env.start(work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        answer = ["b"] if part == "options" else True
        await env.client.answer(question.id, answer, user_id="ana", roles=["operator"])
        assert await run.result() == answer


@in_asyncio
async def test_options_may_come_from_any_iterable() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> Any:
        options: Any = (each for each in "ab")
        return (await ctx.wait_for_user("Which?", input_type="select", options=options)).value

    async with environment(app) as env:
        env.people.answer("*", "b")
        assert await env.run(work) == "b"


@pytest.mark.parametrize("options", ["ab", {"a": "A"}, 5, None])
@in_asyncio
async def test_what_is_no_list_of_options_is_refused(options: Any) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> Any:
        return (await ctx.wait_for_user("Which?", input_type="select", options=options)).value

    async with environment(app) as env:
        with pytest.raises(RegistrationError, match="pass a list of options"):
            await env.run(work)
