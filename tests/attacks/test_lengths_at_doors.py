"""Names and ids that no index could hold, at the interfaces for people and programs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import Context, Signoff
from signoff.errors import InvalidValue, RegistrationError, SignoffError
from signoff.people.questions.question import Question
from signoff.records import NewSchedule
from signoff.records.names import LONGEST_ID_BYTES
from signoff.server import Server
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.postgres.databases import migrated_database
from tests.server.conftest import app_in, serving
from tests.support import OnThread, in_asyncio, new_app, running

LONG = "x" * 5_000


def _with_parents(app: Signoff) -> Signoff:
    @app.workflow
    async def child(ctx: Context, depth: int) -> str:
        return ctx.run_id if depth == 0 else await ctx.rfc("child", depth - 1)

    @app.workflow
    async def by_name(ctx: Context) -> None:
        await ctx.rfc(LONG)

    @app.workflow
    async def by_group(ctx: Context) -> None:
        await ctx.rfc(child, 0).options(target=LONG)

    @app.workflow
    async def detached(ctx: Context) -> None:
        await ctx.detached(LONG)

    @app.workflow
    async def catches(ctx: Context) -> str:
        try:
            await ctx.rfc(LONG)
        except InvalidValue as error:
            return error.path
        return "no error"

    return app


async def _parents_fail_with_the_reason(app: Signoff) -> None:
    async with running(_with_parents(app)) as client:
        for name in ("by_name", "by_group", "detached"):
            run = await client.start(name, id=name)
            with pytest.raises(InvalidValue, match="5,000 bytes"):
                await run.result(60)
        assert await (await client.start("catches")).result(60) == "workflow"
        # The ids of children of children are longer and longer.
        deep = await client.start("child", 70, id="€" * 213)
        with pytest.raises(InvalidValue, match=f"over the limit of {LONGEST_ID_BYTES}"):
            await deep.result(60)


@in_asyncio
async def test_a_parent_of_an_unstorable_child_fails_with_the_reason(tmp_path: Path) -> None:
    await _parents_fail_with_the_reason(new_app(tmp_path))


@pytest.mark.long
@in_asyncio
async def test_a_parent_of_an_unstorable_child_fails_on_postgres() -> None:
    with migrated_database() as url:
        await _parents_fail_with_the_reason(Signoff(PostgresStore(url)))


@in_asyncio
async def test_a_parent_of_an_unstorable_child_fails_through_a_server(
    tmp_path: Path,
) -> None:
    served = SqliteStore(tmp_path / "signoff.db")
    try:
        async with Server(served, port=0, worker_keys=worker_keys.KEYS) as server:
            await _parents_fail_with_the_reason(Signoff(RemoteStore(server.url, key=worker_keys.SECRET)))
    finally:
        await served.close()


@in_asyncio
async def test_long_names_are_refused_by_the_client(tmp_path: Path) -> None:
    async with running(_with_parents(new_app(tmp_path))) as client:
        for attack in (
            client.start(LONG),
            client.start("child", 0, group=LONG),
            client.start("child", 0, id="я" * 256 * 2),
            client.schedules.put("s", LONG, cron="0 9 * * *"),
            client.schedules.put("s", "child", 0, cron="0 9 * * *", group=LONG),
            client.groups.pause(LONG),
            client.groups.limit("\U0001f600" * 200, max_running=1),
        ):
            with pytest.raises(InvalidValue):
                await attack


def test_long_names_are_refused_where_they_are_registered(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def work(ctx: Context) -> None: ...

    for options in ({"name": LONG}, {"version": LONG}):
        with pytest.raises((InvalidValue, RegistrationError), match="over the limit"):
            app.workflow(**options)(work)  # type: ignore[call-overload]
    with pytest.raises(InvalidValue, match="namespace"):
        Signoff(f"sqlite:///{tmp_path}/other.db", namespace=LONG)


def test_long_names_are_refused_over_http_and_by_the_door_of_stores(tmp_path: Path) -> None:
    timing: dict[str, Any] = {"cron": "0 9 * * *"}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/v1/runs", {"workflow": LONG}),
        ("POST", "/v1/runs", {"workflow": "echo", "group": LONG}),
        ("POST", "/v1/runs", {"workflow": "echo", "id": LONG}),
        ("POST", "/v1/runs", {"workflow": "echo", "session_id": LONG}),
        ("POST", "/v1/promises", {"id": LONG}),
        ("POST", "/v1/questions", {"id": LONG, "text": "?"}),
        ("POST", "/v1/questions", {"id": "q", "text": "?", "assignees": [f"user:{LONG}"]}),
        ("POST", "/v1/schedules", {"id": LONG, "workflow": "echo", **timing}),
        ("POST", "/v1/schedules", {"id": "s", "workflow": LONG, **timing}),
        ("POST", "/v1/schedules", {"id": "s", "workflow": "echo", "group": LONG, **timing}),
    ]
    with (
        OnThread(lambda: serving(app_in(tmp_path), worker_keys=worker_keys.KEYS)) as server,
        httpx.Client(base_url=server.url) as http,
    ):
        for method, path, body in requests:
            answer = http.request(method, path, json=body)
            assert answer.status_code == 422, (path, body.keys(), answer.text[:200])
            assert answer.json()["type"] == "urn:signoff:InvalidValue"

        async def by_the_store() -> None:
            store = RemoteStore(server.url, key=worker_keys.SECRET)
            await store.open()
            try:
                with pytest.raises(InvalidValue, match="workflow"):
                    await store.put_schedule(NewSchedule("s", LONG, "default", "{}", "0 9 * * *", "UTC"))
                with pytest.raises(InvalidValue, match="group"):
                    await store.pause_group(LONG)
                with pytest.raises(SignoffError):
                    await store.within(LONG).list_groups()
            finally:
                await store.close()

        asyncio.run(by_the_store())


@pytest.mark.usefixtures("open_trail")
def test_long_names_are_refused_where_operators_and_admins_write_them(tmp_path: Path) -> None:
    asked = Question.make("Pay?").to_json()
    requests: list[tuple[str, dict[str, Any]]] = [
        (f"/v1/groups/{LONG}/pause", {}),
        (f"/v1/groups/{LONG}/resume", {}),
        (f"/v1/groups/{LONG}/limit", {"max_running": 1}),
        ("/v1/questions/q/reassign", {"to": [f"user:{LONG}"], "by": "user:ana"}),
        ("/v1/questions/q/reassign", {"to": ["user:bob"], "by": LONG}),
        ("/v1/questions/q/links", {"user_id": LONG}),
        ("/v1/questions/q/links", {"user_id": "ana", "groups": [LONG]}),
        ("/v1/keys", {"name": LONG, "kind": "service", "roles": ["operator"]}),
        ("/v1/keys", {"name": "k", "kind": "worker", "groups": [LONG]}),
        ("/v1/snapshots", {"snapshot": {"id": LONG}}),
    ]
    with (
        OnThread(lambda: serving(app_in(tmp_path), worker_keys=worker_keys.KEYS)) as server,
        httpx.Client(base_url=server.url) as http,
    ):
        operation = {"id": 1, "namespace": "default", "do": "create_promise"}
        new = {"new": {"id": "q", "kind": "question", "data": asked}}
        http.post(
            "/v1/store",
            json={"client": "c", "floor": 0, "operations": [{**operation, "arguments": new}]},
            headers={"authorization": f"Bearer {worker_keys.SECRET}"},
        )
        assert http.get("/v1/questions/q").is_success
        for path, body in requests:
            answer = http.post(path, json=body)
            assert answer.status_code == 422, (path[:40], body.keys(), answer.status_code, answer.text[:200])
