"""Declared types of a flow's state: values are checked when written, and come back unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, ClassVar, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, Field

from signoff import Signoff
from signoff.errors import RegistrationError
from signoff.flows import ChunkFailed, Data, Executions, Flow
from signoff.testing import MemoryStore, at_pause, environment
from tests.support import in_asyncio


class Order(BaseModel):
    cents: Decimal
    due: date


@dataclass
class Item:
    name: str
    at: date


class Typed(TypedDict):
    order: Order
    items: NotRequired[list[Item]]
    tags: Annotated[set[str], Field(max_length=2)]


class Model(BaseModel):
    order: Order
    items: list[Item]
    tags: set[str]
    LIMIT: ClassVar[int] = 5


STATES: dict[str, Any] = {
    "mapping": {"order": Order, "items": list[Item], "tags": set[str]},
    "TypedDict": Typed,
    "model": Model,
}

ORDER = Order(cents=Decimal("7.00"), due=date(2026, 1, 2))


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@in_asyncio
async def test_declared_values_come_back_as_they_went(state: Any) -> None:
    flow, seen = Flow("f", state=state, auto_close_timeout=0.0), dict[str, Any]()

    @flow.chunk
    async def write(data: Data[Any]) -> Any:
        data.set_state("order", ORDER)
        data.append_state("items", Item("a", date(2026, 1, 1)))
        data.append_state("items", Item("b", date(2026, 1, 2)))
        data.set_state("tags", {"x", "y"})
        data.set_state("plain", {"a": [1]})
        seen["own"] = dict(data.state)
        return await data.pause_for("approval", {"question": "Pay?"}, interrupt_id="q")

    @flow.chunk
    async def read(data: Data[Any]) -> None:
        seen["others"] = {key: data.get_state(key) for key in data.state}

    @flow.condition
    def is_dear(data: Data[Any]) -> bool:
        return data.state["order"].cents > Decimal(5)

    flow.to(write).if_("is_dear").to(read).end_if()
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        env.crash(at=at_pause())
        execution = await Executions(env.client, "f").start(id="e")
        await execution.continue_with("q", {"approved": True})
        ended = await execution.result()
    expected = {
        "order": ORDER,
        "items": [Item("a", date(2026, 1, 1)), Item("b", date(2026, 1, 2))],
        "tags": {"x", "y"},
        "plain": {"a": [1]},
    }
    assert seen == {"own": expected, "others": expected}
    assert ended["order"] == {"cents": "7.00", "due": "2026-01-02"}


WRONG: dict[str, tuple[Any, str]] = {
    "another type": (lambda data: data.set_state("order", "none"), "state.order"),
    "another item": (lambda data: data.append_state("items", 5), "state.items"),
    "undeclared": (lambda data: data.set_state("other", ORDER), r"Flow\(state=\{'other': ...\}\)"),
}


@pytest.mark.parametrize(("write", "match"), WRONG.values(), ids=WRONG)
@in_asyncio
async def test_what_is_not_declared_is_refused_where_it_is_written(write: Any, match: str) -> None:
    flow = Flow("f", state={"order": Order, "items": list[Item]}, auto_close_timeout=0.0)

    @flow.chunk(non_retryable=(Exception,))
    async def wrong(data: Data[Any]) -> None:
        write(data)

    flow.to(wrong)
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        with pytest.raises(ChunkFailed, match=match):
            await (await Executions(env.client, "f").start()).result()


class Unreadable(TypedDict):
    order: Nowhere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    "state",
    [5, int, {"a": "not a type"}, {"a": object()}, Unreadable],
    ids=["number", "class without fields", "text as type", "object as type", "unknown name"],
)
def test_what_declares_no_state_is_refused(state: Any) -> None:
    with pytest.raises(RegistrationError, match="flow 'f'"):
        Flow("f", state=state)


@pytest.mark.parametrize("is_new", [True, False])
@in_asyncio
async def test_what_is_read_and_changed_in_place_is_not_written(is_new: bool) -> None:
    flow = Flow("refund", auto_close_timeout=0.0)

    @flow.chunk
    def begin(data: Data[Any]) -> None:
        data.set_state("lines", [1])

    @flow.chunk
    def change(data: Data[Any]) -> None:
        if is_new:
            data.set_state("lines", [1])
        data.append_state("others", [1])
        data.get_state("lines").append(2)
        data.get_state("others")[0].append(2)

    flow.to(begin).to(change)
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "refund").start(id="e")
        assert await execution.result() == {"lines": [1], "others": [[1]]}
