"""Policy events happen once each, with three concurrent servers that are killed all the time."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections import Counter
from multiprocessing.context import ForkServerProcess

import pytest

from signoff import Escalation
from signoff.people.audit.hash_chain import verify
from signoff.people.questions.policies import Policy
from signoff.people.questions.question import Question
from signoff.records import AuditEvent, AuditKind, NewPromise, Promise, PromiseKind, PromiseState
from signoff.records.paging import AuditFilter, PromiseFilter
from signoff.stores.postgres.store import PostgresStore
from tests.crash.servers import serve
from tests.forks import fork
from tests.postgres.databases import fresh_database
from tests.support import PATIENCE_SECONDS, in_asyncio

QUESTIONS = 30
EVERY = 1.0
LEVELS = (2.5, 4.2)
DEADLINE = 6.5
KILLS_EVERY = 0.3
KILLING_SECONDS = 20.0  # then servers live as long as a slow machine needs

POLICY = Policy.make(
    "Deploy?",
    input_type="approval",
    assignees=["user:ana"],
    remind_every=EVERY,
    escalations=[Escalation(after, [f"group:level{after}"]) for after in LEVELS],
    timeout_seconds=DEADLINE,
    timeout_answer='{"approved": false}',
)


class Servers:
    """Three servers on one database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._all = [self._start() for _ in range(3)]

    def kill_one(self, chance: random.Random) -> None:
        """kill -9 one of them, and start another."""
        place = chance.randrange(3)
        self._all[place].kill()
        self._all[place].join()
        self._all[place] = self._start()

    def close(self) -> None:
        for server in self._all:
            server.kill()
            server.join()

    def _start(self) -> ForkServerProcess:
        return fork(serve, self._url)


async def _ask(store: PostgresStore, n: int) -> None:
    data = Question.make("Deploy?").to_json(POLICY)
    act_at = store.clock.now() + EVERY
    await store.create_promise(
        NewPromise(f"q{n}", PromiseKind.QUESTION, data=data, assignees=POLICY.assignees, act_at=act_at)
    )


async def _settled(store: PostgresStore) -> tuple[Promise, ...]:
    which = PromiseFilter(PromiseKind.QUESTION, PromiseState.RESOLVED)
    return (await store.list_promises(which, limit=1000)).items


def _check(question: Promise, events: list[AuditEvent]) -> None:
    """Each thing happened once, none before its time, and in an order that can be."""
    began = question.created_at
    kinds = Counter(event.kind for event in events)
    assert kinds.keys() <= {
        AuditKind.ASKED,
        AuditKind.REMINDED,
        AuditKind.ESCALATED,
        AuditKind.DEFAULTED,
        AuditKind.RESOLVED,
    }
    assert [kinds[kind] for kind in (AuditKind.ASKED, AuditKind.DEFAULTED, AuditKind.RESOLVED)] == [1, 1, 1]
    reminders = [event for event in events if event.kind is AuditKind.REMINDED]
    numbers = [json.loads(event.details or "")["number"] for event in reminders]
    assert numbers == sorted(set(numbers))
    for event, number in zip(reminders, numbers, strict=True):
        assert event.at >= began + number * EVERY - 1e-6
    escalations = [event for event in events if event.kind is AuditKind.ESCALATED]
    assert [json.loads(event.details or "")["level"] for event in escalations] == [1, 2]
    for event, after in zip(escalations, LEVELS, strict=True):
        assert event.at >= began + after - 1e-6
    assert (question.settled_at or 0) >= began + DEADLINE - 1e-6
    assert question.value == '{"approved": false}'
    assert question.assignees == ("user:ana", *(f"group:level{after}" for after in LEVELS))


@pytest.mark.long
@in_asyncio
async def test_reminders_escalations_and_deadlines_happen_once_despite_kills() -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with fresh_database() as url:
        store = PostgresStore(url)
        await store.open()
        servers = Servers(url)
        try:
            await asyncio.gather(*(_ask(store, n) for n in range(QUESTIONS)))
            calm_at = time.monotonic() + KILLING_SECONDS
            async with asyncio.timeout(KILLING_SECONDS + PATIENCE_SECONDS):
                while len(settled := await _settled(store)) < QUESTIONS:
                    await asyncio.sleep(KILLS_EVERY)
                    if chance.random() < 0.7 and time.monotonic() < calm_at:
                        servers.kill_one(chance)
                while await store.unsealed(1):
                    await asyncio.sleep(0.1)
        finally:
            servers.close()
        late: list[float] = []
        for question in settled:
            events = list((await store.list_audit(AuditFilter(question_id=question.id))).items)
            _check(question, events)
            late.append((question.settled_at or 0) - question.created_at - DEADLINE)
        verdict = await verify(store)
        assert not verdict.problems
        print(f"deadlines were {statistics.median(late):.2f} s late, at most {max(late):.2f} s")
        await store.close()
