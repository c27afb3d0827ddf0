"""Workers announce their workflows at their start and on changes; failures of it stop no worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.engine.timers.retention import Retention
from signoff.engine.worker import workflow_announcer
from signoff.errors import InvalidValue, StoreUnavailable
from signoff.records import WorkflowInfo
from signoff.records.paging import WorkflowFilter
from signoff.stores.contract.validation import LONGEST_NAME
from signoff.testing import MemoryStore, VirtualClock
from tests.support import comes, in_asyncio, new_app

DAY = 86_400.0


async def announced(app: Signoff, **which: str) -> dict[tuple[str, str], WorkflowInfo]:
    page = await app.store.list_workflows(WorkflowFilter(**which))
    return {(each.name, each.version): each for each in page.items}


async def announced_as(
    app: Signoff, fits: Callable[[dict[tuple[str, str], WorkflowInfo]], bool]
) -> dict[tuple[str, str], WorkflowInfo] | None:
    found = await announced(app)
    return found if fits(found) else None


async def refund(ctx: Context, order: str, cents: int = 0) -> str:
    """Pays an order back.

    If finance approves.
    """
    return order


@in_asyncio
async def test_a_worker_announces_every_version_and_which_one_new_runs_get(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def refund_2(ctx: Context, order: str, *, reason: str) -> None: ...

    app.workflow(refund)
    app.workflow(name="refund", version="2")(refund_2)
    async with app.worker(group="money"):
        await comes(lambda: announced_as(app, lambda found: len(found) == 2))
    found = await announced(app)
    one, two = found["refund", "1"], found["refund", "2"]
    assert (one.group, one.is_current, one.description) == ("money", False, "Pays an order back.")
    assert (two.is_current, two.description) == (True, None)
    assert json.loads(one.parameters or "")["required"] == ["order"]
    assert json.loads(two.parameters or "")["required"] == ["order", "reason"]


@in_asyncio
async def test_what_is_registered_while_a_worker_works_is_announced_too(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    app.workflow(refund)
    async with app.worker(look_seconds=0.01):
        await comes(lambda: announced_as(app, lambda found: len(found) == 1))

        @app.workflow
        async def late(ctx: Context) -> None: ...

        await comes(lambda: announced_as(app, lambda found: len(found) == 2))


def _unchecked(*_: object) -> None: ...


@in_asyncio
async def test_what_cannot_be_described_is_left_out_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = new_app(tmp_path)

    async def nameless(ctx: Context) -> None: ...

    async def long(ctx: Context, a: Any = None) -> None: ...

    with monkeypatch.context() as unchecked:  # what is too long is refused where it is registered
        unchecked.setattr("signoff.workflow.registry.check_size", _unchecked)
        app.workflow(name="x" * (LONGEST_NAME + 1))(nameless)
    long.__annotations__["a"] = Any
    app.workflow(refund)
    async with app.worker():
        found = await comes(lambda: announced_as(app, lambda found: len(found) == 1))
        assert found.keys() == {("refund", "1")}
    assert "cannot be described" in caplog.text


class Refusing(MemoryStore):
    """Refuses to be told anything, and is not available at first."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.refused = asyncio.Event()

    async def announce(self, workflows: Any) -> None:
        self.asked += 1
        if self.asked < 3:
            raise StoreUnavailable("memory", "later")
        self.refused.set()
        raise InvalidValue("do", "announce: no operation of this server; upgrade it")


@in_asyncio
async def test_a_store_that_takes_no_announcement_has_its_runs_done_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Refusing()
    app = Signoff(store)
    app.workflow(refund)
    async with app.worker(look_seconds=0.01):
        await store.refused.wait()
        assert await (await AsyncClient(app).start(refund, "o-1")).result() == "o-1"
    assert store.asked == 3
    assert "no operation of this server" in caplog.text


@in_asyncio
async def test_a_worker_says_again_what_it_runs_so_that_retention_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    app.workflow(refund)
    monkeypatch.setattr(workflow_announcer, "ANNOUNCE_EVERY_SECONDS", 0.01)
    async with app.worker(look_seconds=0.01):
        first = await comes(lambda: announced_as(app, lambda found: len(found) == 1))
        clock.advance(30 * DAY)
        await comes(lambda: announced_as(app, lambda found: found != first))
        await Retention(app.store, 0.001).delete()
        assert len(await announced(app)) == 1
    clock.advance(6 * DAY)
    await Retention(app.store, 0.001).delete()
    assert len(await announced(app)) == 1
    clock.advance(2 * DAY)
    await Retention(app.store, 10).delete()
    assert len(await announced(app)) == 1
    await Retention(app.store, 0.001).delete()
    assert await announced(app) == {}
    await app.store.close()
