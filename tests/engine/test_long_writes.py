"""A long write of one run is split into parts; in between others write, and workers may die."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.engine.worker import journal_write
from signoff.records import PromiseState
from signoff.records.paging import PromiseFilter
from signoff.stores.contract.leases import Write
from tests.support import doomed_worker, in_asyncio, new_app, opened

PART = 5
MANY = 4 * PART
did: Counter[int] = Counter()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_write, "PART_ITEMS", PART)


async def child(ctx: Context, number: int) -> int:
    return number


async def work(number: int) -> int:
    did[number] += 1
    return number


async def many(ctx: Context) -> list[int]:
    """All kinds of calls, each so often that its writes are cut."""
    results = list(await asyncio.gather(*(ctx.step(work, number) for number in range(MANY))))
    results += await asyncio.gather(*(ctx.rfc(child, number) for number in range(MANY)))
    signals = [await ctx.wait_for_signal("number") for _ in range(MANY)]

    async def wait_for_promise() -> None:
        await (await ctx.promise())

    try:
        async with asyncio.timeout(0.01):
            await asyncio.gather(*(wait_for_promise() for _ in range(MANY)))
    except TimeoutError:
        return results + signals
    raise AssertionError("a promise was settled")


EXPECTED = [*range(MANY), *range(MANY), *range(MANY)]


class Written:
    """Counts the writes of a run, and holds up all after the one in which its worker is to die."""

    def __init__(self, store: Any, last: int | None) -> None:
        self.writes: list[Write] = []
        self.died = asyncio.Event()
        self._last = last
        for name in ("append", "pause", "complete"):
            setattr(store, name, self._noting(getattr(store, name)))

    def _noting(self, method: Any) -> Any:
        async def noting(write: Write, *args: Any, **kwargs: Any) -> Any:
            if write.run_id != "r":
                return await method(write, *args, **kwargs)
            done = await method(write, *args, **kwargs)
            self.writes.append(write)
            if len(self.writes) == self._last:
                self.died.set()
                await asyncio.Event().wait()
            return done

        return noting


def _app(folder: Path) -> Signoff:
    app = new_app(folder)
    app.workflow(child)
    app.workflow(many)
    return app


def _items(write: Write) -> int:
    return max(len(write.entries), len(write.closes) + len(write.cancels), len(write.taken))


async def _plays(folder: Path, last: int | None) -> Written:
    """Run ``many`` to its end; its first worker dies after so many writes."""
    did.clear()
    app, other = _app(folder), _app(folder)
    written = Written(app.store, last)
    async with opened(app) as client, opened(other):
        handle = await client.start("many", id="r")
        async with doomed_worker(app, hot_runs=0) as _:
            for number in range(MANY):
                await handle.signal("number", number)
            ends = asyncio.create_task(handle.result(60))
            died = asyncio.create_task(written.died.wait())
            await asyncio.wait({ends, died}, return_when=asyncio.FIRST_COMPLETED)
            died.cancel()
        async with other.worker():
            assert await ends == EXPECTED
        entries = await app.store.read_journal("r")
        assert [entry.seq for entry in entries] == list(range(len(entries)))
        completed = Counter(entry.n for entry in entries if entry.kind == "completed")
        assert set(completed.values()) == {1}
        promises = await app.store.list_promises(PromiseFilter(run_id="r"))
        assert {each.state for each in promises.items} == {PromiseState.CANCELLED}
    return written


@in_asyncio
async def test_no_write_is_long(tmp_path: Path) -> None:
    written = await _plays(tmp_path, None)
    assert max(map(_items, written.writes)) <= PART + 2
    assert set(did.values()) == {1}


@pytest.mark.parametrize(
    "last", [*range(1, 12), *(pytest.param(n, marks=pytest.mark.long) for n in range(12, 60))]
)
@in_asyncio
async def test_a_worker_that_dies_between_two_parts_loses_and_doubles_nothing(
    tmp_path: Path, last: int
) -> None:
    await _plays(tmp_path, last)
