"""Runs every program in bad conditions, and checks the results."""

from __future__ import annotations

import asyncio
import collections
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from signoff import AsyncClient, Signoff
from signoff.records import CallKind, Entry, EntryKind, RunState
from signoff.records.paging import RunFilter
from tests.crash import programs
from tests.remote.processes import lines
from tests.support import PATIENCE_SECONDS

CLOCKS_DIFFER_SECONDS = (
    0.25  # what a worker's estimate of the server's time may be off, through a bad network
)


EXPECTED: Mapping[str, Any] = {
    "agent": ["all done", 2, ["refunded 400", "o-1 is late", "mailed bob"]],
    "sequential": [1, 2, "paid", "a uuid"],
    "parallel": [[["a0", "a1"], ["b0", "b1"], ["c0", "c1"]], ["a", "b"]],
    "children": ["mine", [4, 2], [2, 1], [6, 3]],
    "timers": [1, "late", 2],
    "questions": [True, 1, "blue", "because", "acted"],
    "flow": {
        "order": "o-1",
        "seen": ["o-1"],
        "answers": {"first": {"approved": True}, "why": ["o-1", "because"]},
    },
}


async def answer_everything(client: AsyncClient) -> None:
    """Play the people, over the same network, and without request ids: an answer is given once."""
    answered: set[str] = set()
    while True:
        for question in (await client.questions(limit=500)).items:
            assert question.id not in answered, f"{question.id} was answered, and is open"
            asked = json.loads(question.data or "{}")
            if asked["text"] in programs.ANSWERS:
                answer = programs.ANSWERS[asked["text"]]
            else:
                answer = {"action": "done", "result": unclear_result(asked["metadata"])}
            await client.answer(question.id, answer, user_id=programs.asked_person(question))
            answered.add(question.id)
        await asyncio.sleep(0.05)


def unclear_result(metadata: Mapping[str, str]) -> object:
    """What a step that may have happened would have returned."""
    if metadata["step"] in programs.UNCLEAR:
        return programs.UNCLEAR[metadata["step"]]
    return {"1": 1, "2": 2, "chosen": 3}[re.split("[.-]", metadata["run_id"])[-1]]


def check_results(results: Mapping[str, Any]) -> None:
    for run_id, result in results.items():
        name = run_id.partition("-")[0]
        if name == "sequential":
            uuid.UUID(result[3])
            result = [*result[:3], "a uuid"]
        if name == "agent":
            parts = [part for message in result[2] for part in message["parts"]]
            result = [*result[:2], [part["content"] for part in parts if part["part_kind"] == "tool-return"]]
        assert result == EXPECTED[name], run_id


def check_effects(effects: Path, journals: Mapping[str, Sequence[Entry]]) -> int:
    """Compare when steps were executed with when their outcomes were journaled. Returns how many were repeated."""
    executed: dict[str, list[float]] = collections.defaultdict(list)
    for line in lines(effects):
        at, _, step = line.partition(" ")
        executed[step].append(float(at))
    once: set[str] = set()
    for run_id, entries in journals.items():
        assert [entry.seq for entry in entries] == list(range(len(entries))), run_id
        completed = [entry for entry in entries if entry.kind is EntryKind.COMPLETED]
        assert len({entry.n for entry in completed}) == len(completed), f"{run_id} completed a call twice"
        for entry in entries:
            step = f"{run_id}.{entry.n} {entry.name}"
            if entry.kind is EntryKind.STEP_STARTED:
                once.add(step)
            elif entry.kind is EntryKind.COMPLETED and entry.call is CallKind.STEP:
                late = [at for at in executed[step] if at > entry.at + CLOCKS_DIFFER_SECONDS]
                assert late == [], f"{step} was journaled at {entry.at} and ran again at {late}"
    assert once
    for step in once:
        assert len(executed[step]) <= 1, f"{step} ran {len(executed[step])} times, and its effect is once"
    return sum(len(times) - 1 for times in executed.values() if times)


async def everything(app: Signoff) -> dict[str, tuple[Any, Sequence[Entry]]]:
    """All runs and their journals."""
    runs = (await app.store.list_runs(RunFilter())).items
    return {run.id: (run, list(await app.store.read_journal(run.id))) for run in runs}


async def pauses(app: Signoff, run_id: str) -> None:
    """Wait until no worker holds a run."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await everything(app))[run_id][0].state is not RunState.PAUSED:
            await asyncio.sleep(0.02)


async def comes(look: Any) -> None:
    """Wait for what another process does."""
    async with asyncio.timeout(PATIENCE_SECONDS * 3):
        while not look():
            await asyncio.sleep(0.02)
