"""A promise with a declared type: a value that does not fit is refused, and the promise stays open."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, Field

from signoff import Context
from signoff.errors import InvalidValue, PromiseRejected
from signoff.records import PromiseState
from tests.support import in_asyncio, new_app, opened, pauses, running

BERLIN = datetime(2026, 7, 1, 9, tzinfo=ZoneInfo("Europe/Berlin"))


class Payment(BaseModel):
    cents: int = Field(gt=0)
    at: datetime | None = None


class Aliased(BaseModel):
    order_id: int = Field(alias="orderId")


@pytest.mark.parametrize(
    ("returns", "wrong", "right"),
    [
        (bool, json.dumps(False), False),
        (bool, "no", True),
        (int, "7000", 7000),
        (Literal["yes", "no"], "maybe", "no"),
        (Payment, {"cents": 0}, {"cents": 7}),
        (Payment, json.dumps({"cents": 7}), Payment(cents=7, at=BERLIN)),
        (list[Decimal], ["1.0", True], [Decimal("1.0")]),
        (datetime, "soon", BERLIN),
        (bool | None, "null", None),
        ({"type": "boolean"}, json.dumps(False), False),
        ({"type": "object", "required": ["cents"]}, {"cent": 1}, {"cents": 7}),
    ],
)
@in_asyncio
async def test_a_value_that_does_not_fit_is_refused(
    tmp_path: Path, returns: Any, wrong: Any, right: Any
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def waits(ctx: Context) -> str:
        return repr(await (await ctx.promise(id="p", returns=returns, data={"why": 1})))

    async with running(app) as client:
        run = await client.start(waits, id="r")
        await pauses(app, "r")
        with pytest.raises(InvalidValue, match="'p' does not return this"):
            await client.promises.resolve("p", wrong)
        promise = await client.promises.get("p")
        assert promise.state is PromiseState.PENDING
        assert json.loads(promise.data or "")["why"] == 1
        await client.promises.resolve("p", right)
        expected = Payment(**right) if returns is Payment and isinstance(right, dict) else right
        assert await run.result(60) == repr(expected)


@in_asyncio
async def test_a_promise_of_no_run_says_it_too_by_type_or_by_schema(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    async with opened(app) as client:
        await client.promises.create("typed", returns=bool, data=[1])
        await client.promises.create("schema", returns={"type": "boolean"})
        for id in ("typed", "schema"):
            with pytest.raises(InvalidValue, match=r"JSON of a boolean: pass the value itself"):
                await client.promises.resolve(id, "false")
            assert (await client.promises.resolve(id, False, request_id="x")).value == "false"
            await client.promises.resolve(id, False, request_id="x")
        shown = json.loads((await client.promises.get("typed")).data or "")
        assert shown == {"$data": [1], "$returns": {"type": "boolean"}}
        with pytest.raises(InvalidValue, match="not a valid JSON Schema"):
            await client.promises.create("wrong", returns={"type": "bool"})


@in_asyncio
async def test_a_reason_of_a_rejection_may_be_anything(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def waits(ctx: Context) -> Any:
        try:
            return await (await ctx.promise(id="p", returns=bool))
        except PromiseRejected as rejected:
            return rejected.value

    async with running(app) as client:
        run = await client.start(waits, id="r")
        await pauses(app, "r")
        await client.promises.reject("p", "closed")
        assert await run.result(60) == "closed"


@in_asyncio
async def test_a_model_with_aliases_is_read_by_both_names(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def waits(ctx: Context) -> int:
        return (await (await ctx.promise(returns=Aliased))).order_id

    async with running(app) as client:
        for id, value in (("a", Aliased(orderId=7)), ("b", {"orderId": 7})):
            run = await client.start(waits, id=id)
            await pauses(app, id)
            await client.promises.resolve(f"{id}.1", value)
            assert await run.result(60) == 7


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (json.dumps(False), "a boolean"),
        (f" {json.dumps(False)}\n", "a boolean"),
        (json.dumps(None), "null"),
        (json.dumps({"approved": False}), "an object"),
        (json.dumps([1]), "a list"),
        (json.dumps("x"), "a text in quotes"),
        (json.dumps(7000), "a number"),
        ("fine", None),
        ("", None),
        ("No thanks", None),
        ("[sic]", None),
        ("NaN", None),
        (False, None),
        ("[" * 100_000, None),
    ],
)
@in_asyncio
async def test_a_text_that_is_json_of_another_type_is_warned_of(
    tmp_path: Path, value: Any, kind: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    app = new_app(tmp_path)
    async with opened(app) as client:
        await client.promises.create("p")
        with caplog.at_level(logging.WARNING, "signoff.promises"):
            await client.promises.resolve("p", value)
    said = [record.getMessage() for record in caplog.records if record.name == "signoff.promises"]
    assert [kind is not None and f"JSON of {kind}" in each for each in said] == [True] * (kind is not None)
