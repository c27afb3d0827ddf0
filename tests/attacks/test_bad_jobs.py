"""A row that a periodic job cannot read or write stops no other row, in any namespace."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from signoff.codec.ciphers import Ciphers, EncryptionKey
from signoff.engine.timers.retention import Retention
from signoff.engine.timers.schedules import fire_due
from signoff.engine.timers.schedules import new_failed_items as new_schedules_aside
from signoff.people.audit import sealing
from signoff.people.audit.hash_chain import verify
from signoff.people.audit.sealing import Sealing, seal_events
from signoff.people.questions.deadlines import new_failed_items, serve_questions
from signoff.records import AuditKind, NewAuditEvent, NewToken, TokenKind
from signoff.stores.wrappers.encrypted import encrypted
from tests.attacks.bad_jobs import NEW, ask, record
from tests.attacks.damage import DATABASES, damaged
from tests.stores.scene import Scene, entry
from tests.support import in_asyncio


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_question_and_a_schedule_with_lost_keys_stop_no_other(
    tmp_path: Path, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The key they were encrypted with was taken from the list: an operator's slip, or on purpose."""
    old, new = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
    async with damaged(database, tmp_path) as damage:
        raw, clock = damage.scene.store, damage.scene.clock
        for name, key in (("evil", old), ("zoo", new)):
            scene = Scene(encrypted(raw, Ciphers([key])).within(name), clock, damage.scene.lease_clock)
            await scene.store.put_schedule(NEW)
            await ask(scene)
        clock.advance(61)
        store = encrypted(raw, Ciphers([new]))
        aside, questions = new_schedules_aside(), new_failed_items()
        for _ in range(3):
            await fire_due(store, aside)
            await serve_questions(store, questions)
        assert len(await Scene(store.within("zoo"), clock, clock).listed()) == 1
        assert (await store.within("zoo").get_promise("q")).act_at != 1_000_001.0
        assert [(item.namespace, item.id, item.failures) for item in aside.items] == [("evil", "s", 1)]
        assert [(item.namespace, item.id, item.failures) for item in questions.items] == [("evil", "q", 1)]
        assert "key" in questions.items[0].error
        assert len([each for each in caplog.records if each.levelno >= logging.ERROR]) == 2

        # They are served when the key is there again.
        clock.advance(10)
        store = encrypted(raw, Ciphers([new, old]))
        await fire_due(store, aside)
        await serve_questions(store, questions)
        assert (aside.items, questions.items) == ((), ())


@in_asyncio
async def test_rows_that_cannot_be_read_keep_no_other_from_being_served(tmp_path: Path) -> None:
    async with damaged("sqlite", tmp_path) as damage:
        scene = damage.scene
        for name in ("evil", "zoo"):
            await ask(scene.within(name))
            await record(scene.within(name), "e")
        damage.run(
            "UPDATE promises SET assignees = '5' WHERE namespace = 'evil';"
            "DROP TRIGGER audit_is_not_changed;"
            "UPDATE audit SET origin = '{' WHERE namespace = 'evil'"
        )
        scene.clock.advance(61)
        questions, trail = new_failed_items(), Sealing()
        await serve_questions(scene.store, questions)
        assert (await scene.within("zoo").store.get_promise("q")).act_at != 1_000_001.0
        assert [item.namespace for item in questions.items] == ["evil"]
        await seal_events(scene.store, trail)
        assert await scene.within("zoo").store.last_seal() is not None
        assert await scene.within("evil").store.last_seal() is None


@in_asyncio
async def test_a_question_too_new_for_this_version_is_set_aside_unchanged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with damaged("sqlite", tmp_path) as damage:
        scene = damage.scene
        await ask(scene)
        damage.run("UPDATE promises SET data = '[1]', progress = '[2]'")
        scene.clock.advance(5)
        aside = new_failed_items()
        for _ in range(600):
            await serve_questions(scene.store, aside)
            scene.clock.advance(1)
        [item] = aside.items
        assert item.failures == 10, "after 1, 2, 4 ... seconds, and then every five minutes"
        found = await scene.store.get_promise("q")
        assert (found.act_at, found.version) == (1_000_001.0, 0)
        errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
        assert len(errors) == 4, "at each doubling"


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_namespace_whose_events_cannot_be_sealed_fills_no_page(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has more events than a page, and all before the others."""
    monkeypatch.setattr(sealing, "AT_ONCE", 5)
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for number in range(12):
            await record(scene.within("evil"), f"e{number}")
        for number in range(12):
            await record(scene.within("zoo"), f"z{number}")
        damage.refuse("seals", on="INSERT")
        trail = Sealing()
        for _ in range(6):
            await seal_events(scene.store, trail)
        seal = await scene.within("zoo").store.last_seal()
        assert seal is not None
        assert seal.seq == 11
        assert await scene.within("evil").store.last_seal() is None

        damage.allow("seals")
        for _ in range(6):
            scene.clock.advance(400)
            await seal_events(scene.store, trail)
        assert len((await verify(scene.within("evil").store)).problems) == 0
        seal = await scene.within("evil").store.last_seal()
        assert seal is not None
        assert seal.seq == 11


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_large_events_that_cannot_be_sealed_fill_no_page(tmp_path: Path, database: str) -> None:
    """Too few in each namespace for its chain to be set aside, and more than a page in all."""
    large = json.dumps({"text": "x" * 900_000})
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for number in range(12):
            event = NewAuditEvent(f"e{number}", AuditKind.COMMENTED, "q", None, "user:ana", large)
            await scene.within(f"evil{number // 2}").store.record([event])
        await record(scene.within("zoo"), "z")
        damage.refuse("seals", on="INSERT", when="namespace LIKE 'evil%'")
        trail = Sealing()
        for _ in range(6):
            await seal_events(scene.store, trail)
        assert await scene.within("zoo").store.last_seal() is not None
        damage.allow("seals")
        scene.clock.advance(100_000)
        for _ in range(6):
            await seal_events(scene.store, trail)
        for number in range(6):
            seal = await scene.within(f"evil{number}").store.last_seal()
            assert seal is not None
            assert seal.seq == 1


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_one_event_that_cannot_be_sealed_stops_no_other_of_its_namespace(
    tmp_path: Path, database: str
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for number in range(6):
            await record(scene, f"e{number}")
        damage.refuse("seals", on="INSERT", when="event_id = 'e2'")
        trail = Sealing()
        await seal_events(scene.store, trail)
        await seal_events(scene.store, trail)
        seal = await scene.store.last_seal()
        assert seal is not None
        assert seal.seq == 4
        assert (await verify(scene.store)).problems == ()
        damage.allow("seals")
        scene.clock.advance(5)
        await seal_events(scene.store, trail)
        assert (await verify(scene.store)).events == 6


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_events_that_were_removed_before_they_were_sealed_fill_no_page(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "AT_ONCE", 5)
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for number in range(12):
            await record(scene.within("evil"), f"e{number}")
        await record(scene.within("zoo"), "z")
        damage.run(
            "DROP TRIGGER audit_is_not_deleted; DELETE FROM audit WHERE namespace = 'evil'",
            "ALTER TABLE signoff.audit DISABLE TRIGGER audit_is_not_changed; "
            "DELETE FROM signoff.audit WHERE namespace = 'evil'; "
            "ALTER TABLE signoff.audit ENABLE TRIGGER audit_is_not_changed",
        )
        await seal_events(scene.store)
        assert await scene.within("zoo").store.last_seal() is not None


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_run_that_cannot_be_deleted_keeps_no_other_from_being_deleted(
    tmp_path: Path, database: str
) -> None:
    """It ended first, and so is the first to go."""
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for number in range(8):
            run = await scene.run(f"r{number}")
            await scene.complete(run, entries=[entry(0)])
            scene.clock.advance(1)
        for table, run_id in (("journal", "r0"), ("runs", "r3")):
            column = "id" if table == "runs" else "run_id"
            damage.refuse(table, on="DELETE", row="OLD", when=f"{column} = '{run_id}'")
        scene.clock.advance(2 * 86_400)
        pruning = Retention(scene.store, 1.0)
        assert await pruning.delete() == 6
        assert set(await scene.listed()) == {"r0", "r3"}
        assert len(await scene.journal("r3")) == 1, "nothing of it is gone"
        damage.allow("journal")
        damage.allow("runs")
        scene.clock.advance(400)
        await pruning.delete()
        assert await scene.listed() == []


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_links_that_cannot_be_deleted_keep_no_run_from_being_deleted(
    tmp_path: Path, database: str
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        new = NewToken("t", TokenKind.LINK, "0" * 64, "user:ana", expires_at=scene.clock.now() + 1)
        await scene.store.create_token(new)
        await scene.complete(await scene.run())
        damage.refuse("tokens", on="DELETE", row="OLD", when="id = 't'")
        scene.clock.advance(2 * 86_400)
        pruning = Retention(scene.store, 1.0)
        assert await pruning.delete() == 1
        assert await scene.listed() == []


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_message_that_cannot_be_read_keeps_no_worker_from_its_other_runs(
    tmp_path: Path, database: str
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for run_id in ("bad", "good"):
            await scene.start(run_id)
            await scene.store.signal(run_id, "go", "1")
        damage.run(
            "UPDATE messages SET kind = '?' WHERE run_id = 'bad'",
            "UPDATE signoff.messages SET kind = '?' WHERE run_id = 'bad'",
        )
        claims = {claim.run.id: claim.messages for claim in await scene.claim()}
        assert {id: len(messages) for id, messages in claims.items()} == {"bad": 0, "good": 1}
        found = await scene.store.read_messages(["bad", "good"])
        assert [message.run_id for message, _ in found] == ["good"]
        assert await scene.store.heartbeat("w", {"bad": 1, "good": 1}) == set()
