"""kill -9 of a worker at every position of the journals of several programs, in real processes.

Before or after the entry that is there is written: both where it is the first of its kind, otherwise one or the other.
``SIGNOFF_KILL_BOTH=1`` has both everywhere (``make kill``).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from signoff import AsyncClient, AsyncHandle, Signoff
from signoff.records import CallKind, Entry, EntryKind, Promise
from signoff.stores.sqlite.store import SqliteStore
from tests.agents.test_histories import check, is_accepted
from tests.crash import programs
from tests.crash.worker import work
from tests.forks import fork
from tests.halves import sample

PATIENCE_SECONDS = 120
BOTH = os.environ.get("SIGNOFF_KILL_BOTH") == "1"


async def answer_everything(app: Signoff, client: AsyncClient) -> None:
    """Play the people: answer each question as soon as it is asked, for as long as the test runs."""
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop = app.store.listen(lambda change: loop.call_soon_threadsafe(changed.set))
    try:
        while True:
            changed.clear()
            for question in (await client.questions()).items:
                await answer(client, question)
            await changed.wait()
    finally:
        stop()


async def answer(client: AsyncClient, question: Promise) -> None:
    """Answer a question as the programs expect."""
    asked = json.loads(question.data or "{}")
    if asked["text"] in programs.ANSWERS:
        value = programs.ANSWERS[asked["text"]]
    else:
        value = {"action": "done", "result": unclear_result(asked["metadata"])}
    who = programs.asked_person(question)
    await client.answer(question.id, value, user_id=who, request_id=question.id)


def unclear_result(metadata: dict[str, str]) -> object:
    """What a step that may have happened would have returned."""
    if metadata["step"] in programs.UNCLEAR:
        return programs.UNCLEAR[metadata["step"]]
    return {"children.1": 1, "children.2": 2, "children-chosen": 3}[metadata["run_id"]]


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


async def begin(client: AsyncClient, name: str) -> AsyncHandle:
    """Start a program; one that is started already is joined."""
    if name == programs.TURN:
        return await client.start(name, {"prompt": "Help with o-1"}, id=name, session_id="c")
    return await client.start(name, id=name)


async def check_history(app: Signoff) -> None:
    """Fail unless any provider takes what was said in the session of the turn, and an agent goes on with it."""
    history = await app.conversation(programs.TURN, session_id="c").messages()
    assert len(history) == 4
    check(history)
    await is_accepted(history)


async def journals(client: AsyncClient) -> dict[str, list[Entry]]:
    runs = (await client.list()).items
    return {run.id: list(await client.backend.read_journal(run.id)) for run in runs}


async def killed(name: str, database: Path, effects: Path, run_id: str, seq: int, when: str) -> set[str]:
    """Run a worker process until it is killed. Returns the steps that were journaled by then."""
    app = programs.make_app(SqliteStore(database), effects)
    try:
        async with AsyncClient(app) as client:
            handle = await begin(client, name)
            people = asyncio.create_task(answer_everything(app, client))
            await die(handle, database, effects, run_id, seq, when)
            people.cancel()
            return completed_steps(await journals(client))
    finally:
        await app.store.close()


async def die(handle: AsyncHandle, database: Path, effects: Path, run_id: str, seq: int, when: str) -> None:
    process = fork(work, database, effects, run_id, seq, when)
    # Not joined on a thread: each start of another process looks at this one, too, and its status is told once.
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(process.sentinel, ended.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)
    status = process.exitcode
    process.kill()
    came = [f"{entry.seq} {entry.kind} {entry.name}" for entry in await handle.journal()]
    assert status == -signal.SIGKILL, f"{handle.id} was not killed at {run_id}:{seq} but came to {came}"


def completed_steps(all_journals: dict[str, list[Entry]]) -> set[str]:
    return {
        f"{run_id}.{entry.n} {entry.name}"
        for run_id, entries in all_journals.items()
        for entry in entries
        if entry.kind is EntryKind.COMPLETED and entry.call is CallKind.STEP
    }


def executions(effects: Path) -> list[str]:
    lines = effects.read_text().splitlines() if effects.exists() else []
    return [line.partition(" ")[2] for line in lines]


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
def test_a_worker_killed_at_any_journal_position_changes_no_result_and_repeats_nothing(
    name: str, tmp_path: Path
) -> None:
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
