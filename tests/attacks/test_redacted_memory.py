"""A server that redacts takes no more memory for a request than another one, whatever is hidden."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signoff.people.questions.question import Question
from signoff.records import CallKind, Entry, EntryKind, NewPromise, NewRun, PromiseKind, RunState
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.large_rows import GROUP, MIB, ROOM, WORKFLOW
from tests.attacks.served import JSON, MOST_KIB, NAMES, Served
from tests.postgres.databases import fresh_database

ROWS = 12
RUNS = 12

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc"),
]


def _long_text(number: int) -> str:
    """A text that no other number has, of wide characters that all spellings write at length."""
    return f"{number} " + "".join(f"é{each} \N{PILE OF POO}" for each in range(75_000))[: MIB // 5]


def _plain_text(number: int) -> str:
    return "".join(f"{number}x{each}" for each in range(120_000))[: MIB - ROOM]


def _short_texts(number: int) -> list[str]:
    return [f"{number}-{each:06}" for each in range(80_000)]


def _numbers(number: int) -> list[int]:
    return [number * 10_000_000 + each for each in range(90_000)]


SECRETS = {
    "long texts": _plain_text,
    "wide texts": _long_text,
    "short texts": _short_texts,
    "numbers": _numbers,
}


def _written(number: int, make: Any) -> str:
    return json.dumps({"secret": make(number), "note": f"row {number}"}, ensure_ascii=False)


async def _fill(store: Store, make: Any) -> None:
    """Write runs, and one with a journal and questions, that each hide a value of their own."""
    await store.open()
    try:
        for number in range(RUNS):
            arguments = f'{{"args":[],"kwargs":{_written(number, make)}}}'
            await store.create_run(NewRun(f"ended-{number}", WORKFLOW, GROUP, arguments))
            [claim] = await store.claim("w", GROUP, [WORKFLOW], 1)
            outcome = Outcome(RunState.SUCCEEDED, result=_written(100 + number, make))
            await store.complete(Write(claim.run.id, claim.run.epoch), outcome)
        await store.create_run(NewRun("asks", "asks", GROUP, '{"args":[],"kwargs":{}}'))
        [claim] = await store.claim("w", GROUP, ["asks"], 1)
        write = Write("asks", claim.run.epoch)
        for seq in range(ROWS):
            value = _written(200 + seq, make)
            entry = Entry(seq, 1.5, EntryKind.COMPLETED, n=seq, call=CallKind.STEP, name="step", value=value)
            await store.append(replace(write, entries=[entry]))
        for seq in range(ROWS, 2 * ROWS):
            data = Question.make("Pay?", metadata=json.loads(_written(300 + seq, make))).to_json()
            new = NewPromise(f"asks.{seq}", PromiseKind.QUESTION, "asks", seq, data=data, act_at=4e9)
            opened = Entry(seq, 1.5, EntryKind.OPENED, n=seq, call=CallKind.QUESTION, name="Pay?")
            await store.append(replace(write, entries=[opened], opens=[new]))
    finally:
        await store.close()


@pytest.fixture(params=[*SECRETS])
def make(request: pytest.FixtureRequest) -> Any:
    return SECRETS[request.param]


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.long) if name == "postgres" else name for name in NAMES]
)
def redacting(request: pytest.FixtureRequest, make: Any, tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            store: Store = SqliteStore(tmp_path / "signoff.db")
            url = f"sqlite:///{tmp_path}/signoff.db"
        else:
            url = stack.enter_context(fresh_database())
            store = PostgresStore(url)
        asyncio.run(_fill(store, make))
        yield Served(stack, url, tmp_path, "--redact", "secret")


def test_no_redacted_request_takes_much_of_a_server_s_memory(redacting: Served) -> None:
    taken: dict[str, int] = {}
    for path in (
        "/v1/runs?limit=1000",
        "/v1/runs/asks",
        "/v1/runs/ended-0",
        "/v1/runs/asks/journal?limit=1000",
        "/v1/questions?limit=1000",
        f"/v1/questions/asks.{ROWS}",
        "/v1/audit?limit=1000",
        f"/v1/questions/asks.{ROWS}/history",
    ):
        with redacting.memory.rise() as risen:
            assert redacting.take("GET", path) == 200, path
        taken[path] = risen[0]
    answered = f"/v1/questions/asks.{ROWS}/answer"
    with redacting.memory.rise() as risen:
        assert (
            redacting.take("POST", answered, content=b'{"user_id":"ana","value":"no"}', headers=JSON) == 422
        )
    taken[answered] = risen[0]
    assert {path: kib for path, kib in taken.items() if kib > MOST_KIB} == {}
