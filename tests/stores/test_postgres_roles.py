"""Rights of database roles: one that may change the schema migrates it, one that may not works with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.errors import SchemaTooOld, StoreUnavailable
from signoff.people.audit.sealing import seal_events
from signoff.records import (
    Amendment,
    AuditKind,
    NewAuditEvent,
    NewPromise,
    NewRun,
    PromiseKind,
    PromiseState,
    Rate,
)
from signoff.records.paging import AuditFilter, PromiseFilter
from signoff.stores.contract.store import Store
from signoff.stores.postgres import schema
from signoff.stores.postgres.schema import connected, migrate
from signoff.stores.postgres.store import PostgresStore
from tests.postgres.databases import fresh_database
from tests.postgres.roles import fresh_role, grant
from tests.postgres.server import FAST, PostgresServer
from tests.stores.scene import YES
from tests.support import asked, in_asyncio, opens, until


@pytest.fixture
def database() -> Iterator[str]:
    with fresh_database() as url:
        yield url


def migrated(url: str) -> None:
    with connected(url, url) as connection:
        migrate(connection, url)


def everything(url: str) -> Signoff:
    """An app whose runs use all that a database holds."""
    app = Signoff(url)

    @app.workflow(concurrency=1)
    async def child(ctx: Context, number: int) -> int:
        return await ctx.step("double", lambda: number * 2)

    @app.workflow
    async def order(ctx: Context) -> list[object]:
        first = await ctx.rfc(child, 1)
        await ctx.sleep(0.01)
        answer = await ctx.wait_for_user("Go on?", timeout_seconds=60)
        signal = await ctx.wait_for_signal("go")
        shared = await ctx.promise(id=f"{ctx.run_id}-shared")
        return [first, answer.approved, signal, await shared]

    _ = order
    return app


async def decide_together(store: Store) -> None:
    """Ask a question that is of no run, hand it on, settle it, and seal what is recorded of that."""
    new = NewPromise("q", PromiseKind.QUESTION, assignees=("user:ana",), act_at=9e9)
    await store.create_promise(new)
    await store.record([NewAuditEvent("seen", AuditKind.VIEWED, "q", by="user:ana")])
    assert (await store.amend("q", Amendment(0, "1", ("user:bob",), None)))[1]
    pending = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING)
    inbox = replace(pending, answerable_by=frozenset({"user:bob"}))
    assert [each.id for each in (await store.list_promises(inbox)).items] == ["q"]
    assert (await store.amend("q", Amendment(1, "2", (), None, YES)))[1]
    assert await store.due_questions(5) == ([], None)
    while await store.unsealed(1):
        await seal_events(store)
    assert [event.hash is None for event in (await store.list_audit(AuditFilter("q"))).items] == [False] * 3


@in_asyncio
async def test_the_documented_role_can_do_everything_but_change_the_schema(
    database: str,
) -> None:
    migrated(database)
    with fresh_role(database) as (role, url):
        grant(database, role)
        app = everything(url)
        async with AsyncClient(app) as client, app.worker():
            await client.groups.limit("default", max_running=5, starts_per=Rate(100, 1))
            await client.groups.pause("default")
            run = await client.start("order", id="o")
            await client.groups.resume("default")
            [question] = await until(app, lambda: asked(client, "o"))
            await client.answer(question.id, True, request_id="once")
            await client.signal("o", "go", "gone", request_id="gone once")
            await opens(app, "o-shared")
            await client.promises.resolve("o-shared", 7)
            assert await run.result(60) == [2, True, "gone", 7]
            assert len(await client.workers()) == 1
            await decide_together(app.store)
            await client.schedules.put("s", "child", 1, cron="* * * * *")
            await client.schedules.pause("s")
            await client.schedules.resume("s")
            await client.schedules.delete("s")
            await client.start("order", id="later", delay_seconds=60)
            await client.cancel("later")
            assert await client.prune(timedelta()) == 3
            assert (await client.list()).items == ()
        await app.store.close()
        for statement in (
            "CREATE TABLE signoff.more (id integer)",
            "UPDATE signoff.audit SET by = 'user:bob'",
            "DELETE FROM signoff.seals",
            "ALTER TABLE signoff.audit DISABLE TRIGGER ALL",
        ):
            with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


@in_asyncio
async def test_rights_hold_for_the_tables_of_later_migrations_too(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = schema.migrations()
    migrated(database)
    with fresh_role(database) as (role, url):
        grant(database, role)
        added = "CREATE TABLE signoff.added (id integer GENERATED BY DEFAULT AS IDENTITY, text text)"
        monkeypatch.setattr(schema, "migrations", lambda: [*scripts, added])
        migrated(database)
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO signoff.added (text) VALUES ('x')")


@in_asyncio
async def test_a_role_that_may_not_migrate_gets_the_remedy(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts, before = schema.migrations(), schema.known_version()
    with fresh_role(database) as (role, url):
        with pytest.raises(SchemaTooOld, match=r"no schema yet.* run `signoff migrate`"):
            await PostgresStore(url).open()
        migrated(database)
        grant(database, role)
        monkeypatch.setattr(schema, "migrations", lambda: [*scripts, "CREATE TABLE signoff.added ()"])
        with pytest.raises(
            SchemaTooOld, match=f"schema {before.number}, .* needs schema {before.number + 1}"
        ) as error:
            await PostgresStore(url).open()
        assert "secret" not in str(error.value)
        with psycopg.connect(database) as connection:
            assert schema.version(connection) == before
        migrated(database)
        store = PostgresStore(url)
        await store.open()
        await store.close()


@in_asyncio
async def test_a_role_without_rights_is_referred_to_their_list(database: str) -> None:
    migrated(database)
    denied = pytest.raises(StoreUnavailable, match=r"permission denied.*docs/postgres\.md")
    with fresh_role(database) as (_, url), denied:
        await PostgresStore(url).open()


@in_asyncio
async def test_opening_what_is_up_to_date_changes_no_schema() -> None:
    with PostgresServer(settings={**FAST, "log_statement": "ddl"}) as server:
        migrated(server.url())
        assert "CREATE TABLE signoff.runs" in server.log
        before = len(server.log)
        store = PostgresStore(server.url())
        await store.open()
        await store.create_run(NewRun("r", "w", "g", "{}"))
        await store.close()
        since = server.log[before:]
        assert not re.search(r"statement:\s*(CREATE|ALTER|DROP)", since), since
