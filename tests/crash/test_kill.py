"""kill -9 of a worker at every journal position of several programs, in real processes.

Before or after the entry that is there is written: both where it is the first of its kind, otherwise one or the other.
``SIGNOFF_KILL_BOTH=1`` has both everywhere (``make kill``).
"""

from __future__ import annotations

import asyncio
import collections
import os
from pathlib import Path

import pytest

from signoff import AsyncClient, Signoff
from signoff.records import Entry, EntryKind
from signoff.stores.sqlite.store import SqliteStore
from tests.agents.histories import check, is_accepted
from tests.crash import programs
from tests.crash.killed_runs import PATIENCE_SECONDS, answer_everything, begin, executions, journals, killed
from tests.halves import sample

BOTH = os.environ.get("SIGNOFF_KILL_BOTH") == "1"


async def run_to_the_end(name: str, database: Path, effects: Path) -> tuple[object, dict[str, list[Entry]]]:
    """Let a healthy worker finish what is there; returns the result and all journals."""
    app = programs.make_app(SqliteStore(database), effects)
    try:
        async with AsyncClient(app) as client, app.worker():
            handle = await begin(client, name)
            people = asyncio.create_task(answer_everything(app, client))
            result = await handle.result(PATIENCE_SECONDS)
            people.cancel()
            if name == programs.TURN:
                await check_history(app)
            return programs.timeless(result), await journals(client)
    finally:
        await app.store.close()


async def check_history(app: Signoff) -> None:
    """Fail unless any provider takes what was said in the session of the turn, and an agent goes on with it."""
    history = await app.conversation(programs.TURN, session_id="c").messages()
    assert len(history) == 4
    check(history)
    await is_accepted(history)


async def check_kill(name: str, folder: Path, run_id: str, seq: int, when: str, expected: object) -> None:
    """Kill a worker at one place, let another finish, and compare with what happens without the kill."""
    where = f"{name} killed {when} {run_id}:{seq}"
    database, effects = folder / "signoff.db", folder / "effects"
    journaled = await killed(name, database, effects, run_id, seq, when)
    already = collections.Counter(executions(effects))
    result, after = await run_to_the_end(name, database, effects)
    assert result == expected, f"{where}: {result} is not {expected}"
    in_all = collections.Counter(executions(effects))
    for step in journaled:
        assert in_all[step] == already[step], f"{where}: journaled step {step} ran again"
    for step, times in in_all.items():
        assert times <= 2, f"{where}: {step} ran {times} times"
    once = {
        f"{id}.{entry.n} {entry.name}"
        for id, entries in after.items()
        for entry in entries
        if entry.kind is EntryKind.STEP_STARTED
    }
    assert once, where
    for step in once:
        assert in_all[step] <= 1, f"{where}: {step} ran twice, and its effect is once"


def positions(name: str, folder: Path) -> tuple[object, list[tuple[str, int, str]]]:
    """What a program returns, and where to kill its worker: at which entry of which run, and before it or after."""
    result, all_journals = asyncio.run(run_to_the_end(name, folder / "signoff.db", folder / "effects"))
    kinds: set[object] = set()
    places: list[tuple[str, int, str]] = []
    for id, entries in all_journals.items():
        for entry in entries:
            kind = (id == name, entry.kind, entry.call)
            both = BOTH or kind not in kinds
            kinds.add(kind)
            places += [
                (id, entry.seq, when)
                for number, when in enumerate(("before", "after"))
                if both or number == entry.seq % 2
            ]
    return result, places


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sample([*programs.NAMES, "agent_tool", programs.TURN]))
def test_a_worker_killed_at_any_entry_changes_no_result(name: str, tmp_path: Path) -> None:
    reference = tmp_path / "reference"
    reference.mkdir()
    if name.startswith("agent"):
        programs.bring_agent()
    expected, places = positions(name, reference)
    assert len(places) > 8

    async def check_all() -> None:
        at_once = asyncio.Semaphore(2)

        async def check(number: int, run_id: str, seq: int, when: str) -> None:
            folder = tmp_path / str(number)
            folder.mkdir()
            async with at_once:
                await check_kill(name, folder, run_id, seq, when, expected)

        async with asyncio.TaskGroup() as checks:
            for number, (run_id, seq, when) in enumerate(places):
                checks.create_task(check(number, run_id, seq, when))

    asyncio.run(check_all())
    print(f"{name}: killed {len(places)} times")
