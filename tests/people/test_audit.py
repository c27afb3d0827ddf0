"""The chain of the audit trail detects changed and removed rows."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient
from signoff.people.audit.hash_chain import verify
from signoff.people.audit.sealing import seal_events
from signoff.records import AuditKind, NewAuditEvent, Origin, OriginWay
from signoff.records.paging import AuditFilter
from signoff.server import Server
from signoff.server.auth import roles
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Store
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.store_wrapper import StoreWrapper
from tests import worker_keys
from tests.stores.scene import Scene, rule
from tests.support import in_asyncio


async def fill(store: Store, count: int = 10, name: str = "e") -> None:
    await store.record(
        [
            NewAuditEvent(
                f"{name}{n}",
                AuditKind.VOTED,
                f"r.{n}",
                "r",
                "user:ana",
                f'{{"n":{n}}}',
                Origin(OriginWay.LINK, f"l{n}", address="10.0.0.7") if n % 2 else None,
            )
            for n in range(count)
        ]
    )


@rule
async def test_an_untouched_chain_is_whole(scene: Scene) -> None:
    assert (await verify(scene.store)).events == 0
    await fill(scene.store, 1100)
    await fill(scene.within("other").store, 3, "o")
    assert await seal_events(scene.store) is not None  # there are more than it does at once
    assert await seal_events(scene.store) is not None
    assert await seal_events(scene.store) is None
    verdict = await verify(scene.store)
    assert (verdict.events, verdict.problems) == (1100, ())
    assert await verify(scene.store, expected=(1099, verdict.head)) == verdict
    other = await verify(scene.within("other").store)
    assert (other.events, other.problems) == (3, ())
    assert other.head != verdict.head


@rule
async def test_a_chain_that_is_another_than_was_written_down_is_found_out(scene: Scene) -> None:
    await fill(scene.store)
    await seal_events(scene.store)
    assert (await verify(scene.store, expected=(3, "0" * 64))).problems
    assert "ends at event 9" in (await verify(scene.store, expected=(10, "0" * 64))).problems[0]


@rule
async def test_events_that_another_process_seals_meanwhile_are_no_failures(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    class Overtaken(StoreWrapper):
        """Another process seals what this one has just listed."""

        async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
            found = await super().perform(operation, arguments)
            if operation.name == "unsealed" and found:
                await seal_events(self.inner)
            return found

    await fill(scene.store)
    await seal_events(Overtaken(scene.store))
    verdict = await verify(scene.store)
    assert (verdict.events, verdict.problems, caplog.records) == (10, (), [])


@rule
async def test_however_many_seal_at_once_the_chain_is_one(scene: Scene) -> None:
    await fill(scene.store, 50)
    await asyncio.gather(*(seal_events(scene.store) for _ in range(5)))
    verdict = await verify(scene.store)
    assert (verdict.events, verdict.problems) == (50, ())


def _without_triggers(change: str) -> Callable[[sqlite3.Connection], None]:
    def tamper(db: sqlite3.Connection) -> None:
        for name in (
            "audit_is_not_changed",
            "audit_is_not_deleted",
            "seals_are_not_changed",
            "seals_are_not_deleted",
        ):
            db.execute(f"DROP TRIGGER {name}")
        assert db.execute(change).rowcount >= 1

    return tamper


@in_asyncio
@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE audit SET by = 'user:eve' WHERE id = 'e4'", "event 4 "),
        ("UPDATE audit SET details = '{\"n\":5}' WHERE id = 'e4'", "event 4 "),
        ("UPDATE audit SET at = at + 1 WHERE id = 'e4'", "event 4 "),
        ("UPDATE audit SET kind = 'viewed' WHERE id = 'e4'", "event 4 "),
        ("UPDATE audit SET question_id = 'r.5' WHERE id = 'e4'", "event 4 "),
        ("UPDATE audit SET run_id = NULL WHERE id = 'e4'", "event 4 "),
        ("UPDATE audit SET origin = '{\"way\":\"link\"}' WHERE id = 'e4'", "event 4 "),
        ("UPDATE audit SET origin = NULL WHERE id = 'e5'", "event 5 "),
        ("DELETE FROM audit WHERE id = 'e4'", "event 4 "),
        ("DELETE FROM seals WHERE event_id = 'e4'", "event 4 "),
        ("UPDATE seals SET hash = 'ab' WHERE event_id = 'e4'", "event 4 "),
        ("UPDATE seals SET event_id = 'x' WHERE event_id = 'e4'", "event 4 "),
    ],
)
async def test_whatever_is_changed_or_removed_is_named(tmp_path: Path, change: str, found: str) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    await store.open()
    await fill(store)
    await seal_events(store)
    assert not (await verify(store)).problems
    with closing(sqlite3.connect(store.path)) as db:
        _without_triggers(change)(db)
        db.commit()
    [problem] = (await verify(store)).problems
    assert found in problem
    await store.close()


@in_asyncio
async def test_what_a_newer_version_has_recorded_is_listed_and_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "NEVER_OPEN", ())  # the trail is read over HTTP, without a caller
    served = SqliteStore(tmp_path / "signoff.db")
    await served.open()
    await fill(served, 1)
    with closing(sqlite3.connect(served.path)) as db:
        db.execute(
            "INSERT INTO audit (namespace, id, at, kind, question_id) VALUES ('default', 'e1', 1.0, 'mused', 'q')"
        )
        db.commit()
    await seal_events(served)
    async with Server(served, port=0, worker_keys=worker_keys.KEYS) as server:
        remote = RemoteStore(server.url, key=worker_keys.SECRET)
        await remote.open()
        for store in (served, remote):
            assert [
                (event.kind, str(event.kind)) for event in (await store.list_audit(AuditFilter())).items
            ] == [
                (AuditKind.VOTED, "voted"),
                ("mused", "mused"),
            ]
            assert (await verify(store)).events == 2
        await remote.close()
        async with AsyncClient(server.url) as client:
            assert (await verify(client.backend)).problems == ()
    await served.close()


@in_asyncio
@pytest.mark.parametrize("change", ["UPDATE audit SET by = NULL", "DELETE FROM audit"])
async def test_the_database_itself_refuses_to_change_the_trail(tmp_path: Path, change: str) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    await store.open()
    await fill(store)
    with (
        closing(sqlite3.connect(store.path)) as db,
        pytest.raises(sqlite3.IntegrityError, match="audit events"),
    ):
        db.execute(change)
    await store.close()
