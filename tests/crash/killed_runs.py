"""Kills workers at chosen entries, and reads the remains."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from pathlib import Path

from signoff import AsyncClient, AsyncHandle, Signoff
from signoff.records import CallKind, Entry, EntryKind, Promise
from signoff.stores.sqlite.store import SqliteStore
from tests.crash import programs
from tests.crash.worker import work
from tests.forks import fork

PATIENCE_SECONDS = 120


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


async def begin(client: AsyncClient, name: str) -> AsyncHandle:
    """Start a program; one that is started already is joined."""
    if name == programs.TURN:
        return await client.start(name, {"prompt": "Help with o-1"}, id=name, session_id="c")
    return await client.start(name, id=name)


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
    # Not joined on a thread: each start of another process polls this one, too, and its status is returned once.
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
