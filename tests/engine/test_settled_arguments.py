"""A run has the same arguments at every replay, whatever their types do when they are read."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator, Field

from signoff import Context, Signoff, codec
from signoff.records import EntryKind, NewRun, RunState
from signoff.redaction.records import Redaction
from signoff.testing import MemoryStore, at_pause, environment
from tests.support import in_asyncio

numbers = itertools.count()


class Order(BaseModel):
    id: uuid.UUID = Field(default_factory=uuid.uuid4)
    iban: str = ""


@dataclass
class Line:
    number: int = field(default_factory=lambda: next(numbers))


class Basket(BaseModel):
    lines: list[Line] = []
    order: Order | None = None


@dataclass
class Stamped:
    at: str = ""

    def __post_init__(self) -> None:
        self.at = self.at or datetime.now(UTC).isoformat()


Numbered = Annotated[int, BeforeValidator(lambda value: value or next(numbers) + 1)]


seen: list[Any] = []


async def waits(ctx: Context, value: Any) -> None:
    seen.append(value)
    await ctx.wait_for_signal("go")


async def of_model(ctx: Context, value: Order) -> None:
    await waits(ctx, value)


async def of_dataclass(ctx: Context, value: Line) -> None:
    await waits(ctx, value)


async def of_nested(ctx: Context, value: dict[str, Basket]) -> None:
    await waits(ctx, value)


async def of_post_init(ctx: Context, *, value: Stamped) -> None:
    await waits(ctx, value)


async def of_validator(ctx: Context, value: Numbered) -> None:
    await waits(ctx, value)


async def of_rest(ctx: Context, *value: Order) -> None:
    await waits(ctx, value)


async def of_default(ctx: Context, value: Order = Order()) -> None:  # noqa: B008
    await waits(ctx, value)


CASES: list[tuple[Callable[..., Any], str]] = [
    (of_model, '{"args":[{}],"kwargs":{}}'),
    (of_model, '{"args":[],"kwargs":{"value":{}}}'),
    (of_dataclass, '{"args":[{}]}'),
    (of_nested, '{"args":[{"a":{"lines":[{},{}],"order":{}}}],"kwargs":{}}'),
    (of_post_init, '{"args":[],"kwargs":{"value":{}}}'),
    (of_validator, '{"args":[0],"kwargs":{}}'),
    (of_rest, '{"args":[{},{}],"kwargs":{}}'),
]


async def started(code: Callable[..., Any], arguments: str) -> tuple[list[Any], Any]:
    """Start a run as a server without its code does, and restart it. Returns what it got, and its journal."""
    seen.clear()
    app = Signoff(MemoryStore())
    app.workflow(code)
    async with environment(app) as env:
        env.crash(at=at_pause())
        await env.store.create_run(
            NewRun(id="r", workflow=code.__name__, group="default", arguments=arguments)
        )
        await env.idle()
        await env.client.signal("r", "go")
        await env.idle()
        run = await env.store.get_run("r")
        assert run.state is RunState.SUCCEEDED, run.error
        assert run.arguments == arguments
        return list(seen), await env.store.read_journal("r")


@pytest.mark.parametrize(("code", "arguments"), CASES)
@in_asyncio
async def test_what_is_made_of_arguments_is_made_once(code: Callable[..., Any], arguments: str) -> None:
    (first, then), _ = await started(code, arguments)
    assert first == then


@in_asyncio
async def test_an_object_default_stays_that_of_the_process_that_began_the_run() -> None:
    _, entries = await started(of_default, '{"args":[],"kwargs":{}}')
    assert str(seen[0].id) in (entries[0].value or "")


@in_asyncio
async def test_arguments_that_are_whole_are_not_kept_twice() -> None:
    text = codec.encode_arguments(of_model, [Order(iban="DE1")], {})
    _, entries = await started(of_model, text)
    assert entries[0].kind is EntryKind.STARTED
    assert entries[0].value is None


@in_asyncio
async def test_redaction_hides_arguments_that_are_kept() -> None:
    _, entries = await started(of_model, '{"args":[{"iban":"DE89370400440532013000"}],"kwargs":{}}')
    assert "DE89370400440532013000" in (entries[0].value or "")
    assert "DE89370400440532013000" not in str(Redaction(["iban"]).shown(entries[0]))
