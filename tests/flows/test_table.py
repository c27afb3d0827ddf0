"""Each way to resume, at each kind of place, in the same process, in another one and after kill -9."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from signoff import AlreadySettled, AsyncClient, Signoff
from signoff.errors import InvalidValue, SnapshotRefused
from signoff.flows import Execution, Executions, Interrupt
from signoff.records import EntryKind
from signoff.testing import Environment, MemoryStore, crash_everywhere
from tests.flows.places import KINDS, PLACES, Case, answer_to, cases, make, register_all
from tests.halves import sample
from tests.support import in_asyncio, new_app, opened

ALL = [case.name for case in cases()]


async def answer_all(execution: Execution, case: Case, rng: random.Random, *, at_once: bool) -> None:
    """Answer whatever is asked, in any order, until the execution has ended; each answer twice."""
    answered: set[str] = set()
    while not (await execution.status()).is_final:
        pending = list((await execution.get_pending_interrupts()).values())
        rng.shuffle(pending)
        assert {each.question for each in pending} <= case.questions
        if at_once:
            await asyncio.gather(*(answer(execution, each) for each in pending))
        else:
            for each in pending[:1]:
                await answer(execution, each)
        answered |= {each.id for each in pending}


async def answer(execution: Execution, interrupt: Interrupt) -> None:
    value = answer_to(interrupt.question)
    await execution.continue_with(interrupt.id, value, request_id=f"once {interrupt.question_id}")
    await execution.continue_with(interrupt.id, value, request_id=f"once {interrupt.question_id}")
    with pytest.raises(AlreadySettled):
        await execution.continue_with(interrupt.id, "another")


async def check(execution: Execution, case: Case) -> None:
    """Check what it ended with, whatever the order of concurrent answers, and that nothing ran twice."""
    state = await execution.result(60)
    for key in [key for key in state if key.startswith("heard")]:
        if isinstance(state[key], list):
            state[key] = sorted(state[key])
    wanted = {
        key: sorted(value) if key.startswith("heard") and isinstance(value, list) else value
        for key, value in case.state.items()
    }
    assert state == wanted
    journal = [entry async for entry in execution.events()]
    done = Counter(entry.n for entry in journal if entry.kind is EntryKind.COMPLETED)
    assert all(times == 1 for times in done.values())
    assert sum(entry.kind is EntryKind.COMPLETED and entry.state is not None for entry in journal) >= len(
        case.questions
    )


async def until_asked(app: Signoff, made: dict[str, Case], names: list[str]) -> dict[str, Execution]:
    started = {
        name: await made[name].flow.start(made[name].input, id=name.replace(" ", "-")) for name in names
    }
    for execution in started.values():
        assert await execution.get_pending_interrupts(wait_seconds=60)
    return started


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
@pytest.mark.parametrize("name", ALL)
@in_asyncio
async def test_in_the_same_process(tmp_path: Path, name: str, at_once: bool) -> None:
    app = new_app(tmp_path)
    made = register_all(app)
    async with opened(app), app.worker():
        execution = (await until_asked(app, made, [name]))[name]
        await answer_all(execution, made[name], random.Random(name), at_once=at_once)
        await check(execution, made[name])


@pytest.mark.parametrize("name", sample(f"{place}, {KINDS[index % 3]}" for index, place in enumerate(PLACES)))
@in_asyncio
async def test_wherever_the_worker_dies(name: str) -> None:
    app = Signoff(MemoryStore())
    case = make(*name.split(", "))
    app.register(case.flow)  # alone: each worker describes all that are registered

    async def scenario(env: Environment) -> Any:
        execution = await Executions(env.client, name).start(case.input, id="e")
        await env.idle()
        while pending := await execution.get_pending_interrupts(wait_seconds=0):
            for each in pending.values():
                await execution.continue_with(each.id, answer_to(each.question))
            await env.idle()
        await check(execution, case)

    assert await crash_everywhere(app, scenario) > 10


@in_asyncio
async def test_in_another_process_that_is_answered_while_no_worker_runs(tmp_path: Path) -> None:
    first = new_app(tmp_path)
    async with opened(first), first.worker():
        started = await until_asked(first, register_all(first), ALL)
        assert len(started) == len(ALL)
    second = new_app(tmp_path)
    made = register_all(second)
    async with opened(second):
        executions = {name: await made[name].flow.attach(name.replace(" ", "-")) for name in ALL}
        for execution in executions.values():
            for interrupt in (await execution.get_pending_interrupts(wait_seconds=0)).values():
                await answer(execution, interrupt)
        async with second.worker():
            for name, execution in executions.items():
                await answer_all(execution, made[name], random.Random(1), at_once=True)
                await check(execution, made[name])


@in_asyncio
async def test_after_save_and_load(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    first = new_app(_made(here))
    async with opened(first), first.worker():
        started = await until_asked(first, register_all(first), ALL)
        texts = {name: json.dumps(await execution.save()) for name, execution in started.items()}
    second = new_app(_made(there))
    made = register_all(second)
    async with opened(second), second.worker():
        for name, text in texts.items():
            execution = await made[name].flow.load(json.loads(text), by="user:ana")
            with pytest.raises(SnapshotRefused):
                await made[name].flow.load(json.loads(text))
            await answer_all(execution, made[name], random.Random(name), at_once=len(name) % 2 == 1)
            await check(execution, made[name])
            with pytest.raises(SnapshotRefused):
                await made[name].flow.load(json.loads(text))
        with pytest.raises(InvalidValue, match="not of flow"):
            await made[ALL[0]].flow.load(json.loads(texts[ALL[1]]))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.long
@in_asyncio
async def test_after_kill_9(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.flows.doomed", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert await asyncio.to_thread(child.stdout.readline) == "all asked\n"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
    app = new_app(tmp_path)
    made = register_all(app)
    async with AsyncClient(app), app.worker():
        for name in ALL:
            execution = await made[name].flow.attach(name.replace(" ", "-"))
            await answer_all(execution, made[name], random.Random(name), at_once=len(name) % 2 == 0)
            await check(execution, made[name])
    await app.store.close()
