"""Ended runs are deleted when they are old enough, by a worker, a server or a command."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from signoff import AsyncClient, Client, Context, Signoff
from signoff.client import async_client as client_module
from signoff.engine.timers import retention
from signoff.engine.timers.retention import UNANNOUNCED_DAYS, Retention
from signoff.errors import InvalidValue
from signoff.records import (
    AuditKind,
    NewPromise,
    PromiseKind,
    PromiseState,
    Settlement,
    Token,
    TokenKind,
    WorkflowInfo,
)
from signoff.records.deliveries import DeliveryState, NewDelivery, Report
from signoff.records.paging import DeliveryFilter, PromiseFilter, TokenFilter
from signoff.server import Server
from signoff.stores.contract.store import Store
from signoff.stores.tokens import new_token
from signoff.testing import VirtualClock
from tests.support import in_asyncio, new_app, opened, running, until

DAY = 86_400.0


async def app_with_ended_runs(folder: Path, count: int) -> tuple[Signoff, VirtualClock]:
    clock = VirtualClock()
    app = new_app(folder, clock=clock)

    @app.workflow
    async def quick(ctx: Context) -> None:
        await ctx.step("nothing", lambda: None)

    async with AsyncClient(app) as client, app.worker():
        for handle in [await client.start(quick) for _ in range(count)]:
            await handle.result()
    return app, clock


NEW_DELIVERY = NewDelivery("d", "user:ana", "event", 1, AuditKind.ASKED, "q")


WORKFLOW = WorkflowInfo("default", "refund", "kept", is_current=True)


async def send(store: Store, *ids: str) -> None:
    """Have deliveries made, and delivered."""
    at = await store.read_cursor("mail")
    made = [replace(NEW_DELIVERY, id=id, question_id=id) for id in ids]
    assert await store.expand("mail", at, 0, made)
    for delivery in (await store.claim_deliveries("mail", 100, 60.0))[0]:
        await store.finish_delivery(delivery.id, 1, Report(DeliveryState.DELIVERED))


async def delivered(store: Store) -> list[str]:
    return [each.id for each in (await store.list_deliveries(DeliveryFilter())).items]


async def tokens(store: Store) -> list[Token]:
    kinds = (TokenKind.LINK, TokenKind.LOGIN, TokenKind.API_KEY)
    return [each for kind in kinds for each in (await store.list_tokens(TokenFilter(kind))).items]


async def gone(client: AsyncClient) -> bool:
    return not (await client.list()).items


@in_asyncio
async def test_a_worker_deletes_what_is_old_in_small_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    app, clock = await app_with_ended_runs(tmp_path, 5)
    clock.advance(7 * DAY - 1)
    assert await Retention(app.store, 7).delete() == 0
    clock.advance(2)
    async with running(app, retention_days=7) as client:
        await until(app, lambda: gone(client))


@in_asyncio
async def test_a_worker_keeps_everything_by_default(tmp_path: Path) -> None:
    app, clock = await app_with_ended_runs(tmp_path, 1)
    clock.advance(10_000 * DAY)
    async with running(app) as client:
        await (await client.start("quick")).result()
        assert len((await client.list()).items) == 2


@in_asyncio
async def test_a_server_deletes_what_is_old(tmp_path: Path) -> None:
    app, clock = await app_with_ended_runs(tmp_path, 3)
    clock.advance(DAY)
    async with opened(app) as client, Server(app, port=0, retention_days=0.5):
        await until(app, lambda: gone(client))


@in_asyncio
async def test_expired_tokens_go_with_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    app, clock = await app_with_ended_runs(tmp_path, 0)
    async with opened(app):
        for seconds in (None, 5.0, 6.0, 7.0, 2 * DAY):
            expires_at = None if seconds is None else clock.now() + seconds
            await app.store.create_token(new_token(TokenKind.LINK, "user:ana", expires_at=expires_at)[1])
        clock.advance(7 * DAY + 10)
        await Retention(app.store, 7).delete()
        assert len((await app.store.list_tokens(TokenFilter(TokenKind.LINK))).items) == 2


@in_asyncio
async def test_deliveries_that_ended_go_with_the_runs(tmp_path: Path) -> None:
    app, clock = await app_with_ended_runs(tmp_path, 0)
    async with opened(app):
        await send(app.store, "ended")
        await app.store.expand("mail", 0, 1, [replace(NEW_DELIVERY, id="pending")])
        clock.advance(7 * DAY + 10)
        await Retention(app.store, 7).delete()
        assert await delivered(app.store) == ["pending"]


@in_asyncio
async def test_settled_promises_go_once_their_runs_have_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    app, clock = await app_with_ended_runs(tmp_path, 1)
    async with opened(app) as client:
        [run] = (await client.list()).items
        for id in (run.id, "a", "b", "c"):
            await app.store.create_promise(NewPromise(id))
            await app.store.settle(id, PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED))
        await app.store.create_promise(NewPromise("pending"))
        clock.advance(7 * DAY + 10)
        assert await Retention(app.store, 7).delete() == 1
        assert [each.id for each in (await app.store.list_promises(PromiseFilter())).items] == ["pending"]


@in_asyncio
async def test_a_local_or_remote_client_prunes_runs_tokens_and_deliveries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PRUNED_AT_ONCE", 2)
    app, clock = await app_with_ended_runs(tmp_path, 0)
    secret, new = new_token(TokenKind.API_KEY, "service:new", data=json.dumps({"roles": ["admin"]}))
    async with (
        opened(app) as client,
        Server(app, port=0) as server,
        AsyncClient(server.url, key=secret) as remote,
    ):
        for there in (client, remote):
            await send(app.store, *(f"{number}-{clock.now()}" for number in range(5)))
            for kind in (TokenKind.LINK, TokenKind.LOGIN, TokenKind.API_KEY):
                for _ in range(3):
                    await app.store.create_token(new_token(kind, "user:ana", expires_at=clock.now() + 1)[1])
            open_key = await app.store.create_token(new)
            revoked = await app.store.create_token(new_token(TokenKind.API_KEY, "service:old")[1])
            await app.store.revoke_token(revoked.id)
            clock.advance(DAY)
            await there.prune(timedelta(days=2))
            assert (len(await delivered(app.store)), len(await tokens(app.store))) == (5, 11)
            assert await there.prune(timedelta(hours=1)) == 0, "what it counts is runs"
            assert (await delivered(app.store), [each.id for each in await tokens(app.store)]) == (
                [],
                [open_key.id],
            )
            await app.store.revoke_token(open_key.id)
            await app.store.delete_tokens(clock.now() + 1, 1)


@in_asyncio
async def test_workflows_no_longer_announced_are_pruned_after_a_week(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PRUNED_AT_ONCE", 2)
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    async with opened(app) as client, Server(app, port=0) as server, AsyncClient(server.url) as remote:
        for each in (client, remote):
            await app.store.announce([replace(WORKFLOW, version=str(version)) for version in range(5)])
            clock.advance(UNANNOUNCED_DAYS * DAY - 1)
            await app.store.announce([WORKFLOW])
            assert await each.prune(timedelta(0)) == 0
            assert len((await client.workflows.list()).items) == 6
            clock.advance(2)
            assert await each.prune(timedelta(days=8)) == 0
            assert len((await client.workflows.list()).items) == 6
            assert await each.prune(timedelta(0)) == 0, "what it counts is runs"
            assert [kept.name for kept in (await client.workflows.list()).items] == [WORKFLOW.name]


@in_asyncio
async def test_a_client_deletes_what_is_old_from_here_and_from_afar(tmp_path: Path) -> None:
    app, clock = await app_with_ended_runs(tmp_path, 3)
    clock.advance(DAY)
    async with opened(app) as client, Server(app, port=0) as server, AsyncClient(server.url) as remote:
        for each in (client, remote):
            assert await each.prune(timedelta(days=2)) == 0
            with pytest.raises(InvalidValue, match="older_than_seconds"):
                await each.prune(timedelta(days=-1))
        assert await remote.prune(timedelta(hours=1)) == 3


def test_a_blocking_client_deletes_what_is_old(tmp_path: Path) -> None:
    app, clock = asyncio.run(app_with_ended_runs(tmp_path, 1))
    clock.advance(DAY)
    with Client(app) as client:
        assert client.prune(timedelta(hours=1)) == 1
    app.close()


@in_asyncio
async def test_days_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    for days in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidValue, match="retention_days"):
            Retention(app.store, days)
