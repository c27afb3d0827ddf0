"""Rule: groups of processes on a Resonate SDK are served until the server stops, which it does at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

import pytest

from signoff.records import NewRun, WorkerInfo
from signoff.server.resonate import function_groups
from signoff.server.resonate.function_groups import FunctionGroups
from signoff.testing import MemoryStore
from tests.server.resonate.watched import Watched

Polled = Callable[[], Mapping[str, Iterable[str]]]


def while_serving(
    store: Watched, polled: Polled, test: Callable[[asyncio.Task[None]], Awaitable[None]]
) -> None:
    async def scenario() -> None:
        serving = asyncio.create_task(FunctionGroups(store, polled).serve())
        try:
            await test(serving)
        finally:
            serving.cancel()
            await asyncio.wait({serving}, timeout=10)

    asyncio.run(scenario())


def test_a_server_stops_although_an_idle_worker_is_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_groups, "IDLE_SECONDS", 0.01)
    store = Watched(MemoryStore())
    store.held = {"release"}

    async def test(serving: asyncio.Task[None]) -> None:
        await store.create_run(NewRun("r", "f", "g", '{"args": [], "kwargs": {}}'))
        await store.reaches("release", 1)  # the store is slow
        serving.cancel()
        await asyncio.sleep(0)
        store.go.set()
        await asyncio.wait({serving}, timeout=10)
        assert serving.cancelled()
        assert store.counts["release"] == 1

    while_serving(store, lambda: {"default": {"g"}}, test)


def test_a_group_with_workers_of_both_kinds_is_warned_about_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_groups, "LOOK_SECONDS", 0.01)
    store = Watched(MemoryStore())

    async def test(_: asyncio.Task[None]) -> None:
        await store.enlist(WorkerInfo("worker", "host", 1, 0.0, "default"))
        await store.enlist(WorkerInfo("another", "host", 1, 0.0, "default"))
        await store.enlist(WorkerInfo("resonate:worker", "host", 1, 0.0, "ts-workers"))
        await store.enlist(WorkerInfo("of Signoff", "host", 1, 0.0, "signoff-workers"))
        await store.reaches("list_workers", 4)

    while_serving(store, lambda: {"default": {"default", "ts-workers"}}, test)
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert "group 'default' of namespace 'default' has workers of Signoff and processes" in warnings[0]


def test_many_polled_groups_do_not_displace_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_groups, "MOST_GROUPS", 2)
    monkeypatch.setattr(function_groups, "POLLED_SECONDS", 0.01)
    monkeypatch.setattr(function_groups, "AFTER_LOOK", 0)
    store = Watched(MemoryStore())
    polls = 0

    def polled() -> dict[str, list[str]]:
        nonlocal polls
        polls += 1
        return {"default": [f"g{number}" for number in range(9)]}

    async def test(_: asyncio.Task[None]) -> None:
        await store.reaches("list_runs", 9)
        await asyncio.sleep(0.05)
        first, looks = polls, store.counts["list_runs"]
        while polls < first + 10:
            await asyncio.sleep(0.01)
        assert store.counts["list_runs"] == looks

    while_serving(store, polled, test)
