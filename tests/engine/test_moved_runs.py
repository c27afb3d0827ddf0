"""A run that is saved anywhere continues in another store of any kind as it would have here."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, NotFound, RetryPolicy, Signoff, current_step
from signoff.errors import InvalidState
from signoff.records import CallKind, EntryKind, PromiseKind, PromiseState
from signoff.records.paging import PromiseFilter
from signoff.service.snapshots import load, save
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import MemoryStore
from tests.postgres.databases import migrated_database
from tests.support import in_asyncio, opened, until

RESULT = ["first", ["left", "right", "child: True"], "second try", True, "paid", 7, "sent"]
OPEN_QUESTIONS = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING)
STEPS = ("first", "left", "right", "within", "flaky", "once", "send")


def register(app: Signoff, calls: list[str]) -> None:
    """Register a workflow of all kinds of calls, whose steps note that they ran."""

    def noted(name: str, value: str) -> str:
        calls.append(name)
        return value

    def flaky() -> str:
        calls.append("flaky")
        if current_step().attempt == 1:
            raise ConnectionError("try again")
        return "second try"

    @app.workflow
    async def child(ctx: Context) -> str:
        answer = await ctx.wait_for_user("child?")
        return await ctx.step("within", noted, "within", f"child: {answer.approved}")

    @app.workflow
    async def all_calls(ctx: Context) -> list[Any]:
        first = await ctx.step("first", noted, "first", "first")
        beside = await asyncio.gather(
            ctx.step("left", noted, "left", "left"),
            ctx.step("right", noted, "right", "right"),
            ctx.rfc(child),
        )
        await ctx.sleep(0.001)
        ctx.patched("new")
        tried = await ctx.step("flaky", flaky, retry=RetryPolicy(initial_seconds=0.001, jitter=0.0))
        answer = await ctx.wait_for_user("parent?", timeout_seconds=1_000)
        await ctx.progress("half", done=1, total=2)
        promise = await ctx.promise(id=f"{ctx.run_id}-paid")
        await ctx.step("once", noted, "once", "once", effect="once")
        told = [await promise, await ctx.wait_for_signal("count")]
        return [first, beside, tried, answer.approved, *told, await ctx.step("send", noted, "send", "sent")]


class Saves:
    """Makes a store save run ``r`` after each thing that becomes durable."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.snapshots: list[str] = []

    async def append(self, write: Write) -> None:
        await super().append(write)  # type: ignore[misc]
        await self._save()

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        paused = await super().pause(write, wakes=wakes, wake_at=wake_at)  # type: ignore[misc]
        await self._save()
        return paused

    async def complete(self, write: Write, outcome: Outcome) -> None:
        await super().complete(write, outcome)  # type: ignore[misc]
        await self._save()

    async def _save(self) -> None:
        self.snapshots.append(json.dumps(await save(self, "r")))


class SavingSqlite(Saves, SqliteStore):
    pass


class SavingPostgres(Saves, PostgresStore):
    pass


class SavingMemory(Saves, MemoryStore):
    pass


@contextmanager
def places(kind: str, folder: Path) -> Iterator[Callable[[str], Store]]:
    """What makes stores that save, each in a namespace of its own of one database."""
    folder.mkdir()
    if kind == "postgres":
        with migrated_database() as url:
            yield lambda namespace: SavingPostgres(url, namespace=namespace)
    elif kind == "sqlite":
        yield lambda namespace: SavingSqlite(folder / "signoff.db", namespace=namespace)
    else:
        yield lambda namespace: SavingMemory()


async def played(app: Signoff, client: AsyncClient) -> Any:
    """Answer what run ``r`` asks, settle what it waits for and send what it listens for; returns its result."""

    async def acts() -> bool:
        for question in (await app.store.list_promises(OPEN_QUESTIONS)).items:
            about_a_step = '"retry"' in (question.data or "")
            await client.answer(question.id, {"action": "retry"} if about_a_step else True)
        try:
            await client.promises.resolve("r-paid", "paid", request_id="bank")
            await client.signal("r", "count", 7, request_id="count")
        except (NotFound, InvalidState):
            pass
        return (await app.store.get_run("r")).state.is_final

    await until(app, acts)
    return await (await client.get("r")).result(60)


def journaled_steps(snapshot: dict[str, Any]) -> set[str]:
    """The steps whose outcome a snapshot knows, whichever of its runs they are of."""
    return {
        entry["name"]
        for each in snapshot["runs"]
        for entry in each["entries"]
        if (entry["kind"], entry.get("call")) == (EntryKind.COMPLETED, CallKind.STEP)
    }


@pytest.mark.parametrize(
    ("from_kind", "to_kind"),
    [
        ("memory", "sqlite"),
        pytest.param("sqlite", "postgres", marks=pytest.mark.long),
        pytest.param("postgres", "sqlite", marks=pytest.mark.long),
        pytest.param("postgres", "memory", marks=pytest.mark.long),
    ],
)
@in_asyncio
async def test_a_run_saved_anywhere_continues_elsewhere_to_the_same_result(
    tmp_path: Path, from_kind: str, to_kind: str
) -> None:
    with places(from_kind, tmp_path / "from") as origin, places(to_kind, tmp_path / "to") as target:
        store = origin("here")
        assert isinstance(store, Saves)
        app = Signoff(store)
        register(app, calls := [])
        async with opened(app) as client, app.worker():
            await client.start("all_calls", id="r")
            assert await played(app, client) == RESULT
        assert Counter(calls) == Counter(STEPS) + Counter(["flaky"])
        saved = {json.dumps(json.loads(text)["runs"]): json.loads(text) for text in store.snapshots}
        assert len({len(each["runs"][0]["entries"]) for each in saved.values()}) >= 8
        for number, snapshot in enumerate(saved.values()):
            await goes_on(target(f"there-{number}"), snapshot)


async def goes_on(store: Store, snapshot: dict[str, Any]) -> None:
    """Load a snapshot, and check its result."""
    app = Signoff(store)
    register(app, calls := [])
    known = journaled_steps(snapshot)
    if "child: True" in json.dumps(snapshot):  # the child has ended, and is no part of it
        known.add("within")
    async with opened(app) as client, app.worker():
        await load(store, snapshot)
        assert await played(app, client) == RESULT
    ran = Counter(calls)
    assert set(ran) == set(STEPS) - known
    assert all(times == 1 for name, times in ran.items() if name != "flaky")
    assert ran["flaky"] <= 2
