"""The transitions of a run in docs/state-machine.md are those that both databases make, and no others."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

import psycopg
import pytest

from signoff.records import AuditKind, NewAuditEvent, RunState
from signoff.stores.contract.leases import Outcome
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock
from tests.postgres.databases import fresh_database
from tests.stores.scene import FAILURE, KEPT_FAILURE, SUCCESS, Scene

Transitions = set[tuple[str, str]]
Recorded = tuple[Scene, Callable[[], Iterable[tuple[str, str]]]]

DOCS = Path(__file__).parents[2] / "docs" / "state-machine.md"
STATES = {str(state) for state in RunState}

RECORDED_BY_SQLITE = """
CREATE TABLE transitions (before TEXT, after TEXT);
CREATE TRIGGER run_is_created AFTER INSERT ON runs
BEGIN
    INSERT INTO transitions VALUES ('[*]', NEW.state);
END;
CREATE TRIGGER run_changes AFTER UPDATE OF state ON runs WHEN OLD.state <> NEW.state
BEGIN
    INSERT INTO transitions VALUES (OLD.state, NEW.state);
END;
"""
RECORDED_BY_POSTGRES = """
CREATE TABLE transitions (before text, after text);
CREATE FUNCTION record_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO public.transitions VALUES ('[*]', NEW.state);
    ELSIF OLD.state <> NEW.state THEN
        INSERT INTO public.transitions VALUES (OLD.state, NEW.state);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER run_changes AFTER INSERT OR UPDATE ON signoff.runs
FOR EACH ROW EXECUTE FUNCTION record_transition();
"""
MADE = "SELECT DISTINCT before, after FROM transitions"


def documented() -> Transitions:
    """The transitions in the diagram of a run's states."""
    [diagram] = re.findall(r"## Run\n+```mermaid\n(.*?)```", DOCS.read_text(), re.DOTALL)
    arrows = re.findall(r"^ +(\S+) --> (\w+):", diagram, re.MULTILINE)
    assert {state for arrow in arrows for state in arrow} - {"[*]"} == STATES
    return {(before, after) for before, after in arrows}


@asynccontextmanager
async def sqlite_scene(folder: Path) -> AsyncIterator[Recorded]:
    clock, lease_clock = VirtualClock(1_000_000.0), VirtualClock(5_000.0)
    store = SqliteStore(folder / "signoff.db", clock=clock, lease_clock=lease_clock)
    await store.open()
    try:
        with closing(sqlite3.connect(folder / "signoff.db", isolation_level=None)) as db:
            db.executescript(RECORDED_BY_SQLITE)
            yield Scene(store, clock, lease_clock), lambda: db.execute(MADE).fetchall()
    finally:
        await store.close()


@asynccontextmanager
async def postgres_scene(_: Path) -> AsyncIterator[Recorded]:
    clock, lease_clock = VirtualClock(1_000_000.0), VirtualClock(5_000.0)
    with fresh_database() as url:
        store = PostgresStore(url, clock=clock, lease_clock=lease_clock)
        await store.open()
        try:
            with psycopg.connect(url, autocommit=True) as db:
                db.execute(RECORDED_BY_POSTGRES)
                yield Scene(store, clock, lease_clock), lambda: db.execute(MADE).fetchall()
        finally:
            await store.close()


def event(id: str, kind: AuditKind) -> NewAuditEvent:
    return NewAuditEvent(f"{id} {kind}", kind, "", id, "user:ana", "{}")


async def live_all_lives(scene: Scene) -> None:
    """Have runs make every transition that there is."""
    store, now = scene.store, scene.clock.now

    async def running(id: str) -> None:
        [claim] = await scene.claim(workflows=[id])
        assert claim.run.id == id

    # Pauses, wakes, and ends by its code.
    await scene.paused("paused", workflow="paused")
    await scene.settle("paused.0")
    await running("paused")
    await scene.complete(await store.get_run("paused"), SUCCESS)
    await scene.complete(await scene.run("failed", workflow="failed"), FAILURE)
    await scene.complete(
        await scene.run("stopped", workflow="stopped"), Outcome(RunState.CANCELLED, error=FAILURE.error)
    )

    # Starts later; waits for its turn.
    await scene.start("delayed", workflow="delayed", start_at=now() + 10)
    await scene.start("first", workflow="first", session_id="s")
    await scene.start("second", workflow="second", session_id="s")
    await store.cancel("first")
    assert await scene.state("second") is RunState.READY

    # Loses its worker, in order and otherwise.
    await scene.run("released", workflow="released")
    await store.release("w")
    await scene.run("lost", workflow="lost", worker="gone")

    # Is retried, or given up.
    await scene.complete(await scene.run("kept", workflow="kept"), KEPT_FAILURE)
    await store.retry("kept")
    await running("kept")
    await scene.complete(await store.get_run("kept"), KEPT_FAILURE)
    await store.cancel("kept")

    # Is cancelled before it begins.
    await scene.start("never", workflow="never", start_at=now() + 1_000)
    await store.cancel("never")

    # An operator has it wait, go on, and end.
    for id in ("held", "ended"):
        await scene.start(id, workflow=id)
        await store.suspend(id, event(id, AuditKind.SUSPENDED))
    await store.resume("held", event("held", AuditKind.RESUMED))
    await store.terminate("held", event("held", AuditKind.TERMINATED))
    await store.terminate("ended", event("ended", AuditKind.TERMINATED))
    await scene.run("busy", workflow="busy")
    await store.terminate("busy", event("busy", AuditKind.TERMINATED))
    await scene.complete(await scene.run("broken", workflow="broken"), KEPT_FAILURE)
    await store.terminate("broken", event("broken", AuditKind.TERMINATED))

    # Its deadline passes before it begins, and its lease runs out.
    await scene.start("late", workflow="late", deadline_at=now() + 5)
    await scene.start("later", workflow="later", deadline_at=now() + 5, start_at=now() + 50)
    scene.clock.advance(20)
    scene.lease_clock.advance(1_000)
    await store.due()
    states = [await scene.state(id) for id in ("late", "later", "lost", "delayed")]
    assert states == [RunState.FAILED, RunState.FAILED, RunState.READY, RunState.READY]


@pytest.mark.parametrize("opened", [sqlite_scene, postgres_scene], ids=["sqlite", "postgres"])
def test_a_run_makes_the_documented_transitions_and_no_others(
    tmp_path: Path, opened: Callable[[Path], AbstractAsyncContextManager[Recorded]]
) -> None:
    async def play() -> Transitions:
        async with opened(tmp_path) as (scene, made):
            await live_all_lives(scene)
            return set(made())

    assert asyncio.run(play()) == documented()
