"""However many rows there are, with or without statistics: no operation reads more than it needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from signoff.records import (
    Amendment,
    AuditKind,
    LiveText,
    NewAuditEvent,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    NewToken,
    PromiseKind,
    PromiseState,
    Rate,
    RunState,
    Seal,
    Settlement,
    TokenKind,
    WorkerInfo,
    paging,
)
from signoff.records.deliveries import DeliveryState, NewDelivery, Report
from signoff.records.invocations import InvocationFilter
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    TokenFilter,
)
from signoff.records.tasks import Listener, NewInvocation, TaskLease, TaskRef, TaskState
from signoff.stores.contract.leases import Write
from signoff.stores.postgres import invocations, reads
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.tokens import hash_of
from tests.halves import sample
from tests.postgres.databases import fresh_database, versions
from tests.stores.scene import GROUP, KEPT_FAILURE, NO, SUCCESS, WORKFLOW, YES, entry

LYING = 5_000  # rows of each kind
TIMES = 8  # each operation: after the fifth time a connection keeps its plans
HELD = 20  # runs that others hold: their leases are looked at, to know which one ends next
MOST_ROWS = 60  # that one operation may look at, where each has a few runs of its own

# Finished, failed, paused, running and ready runs of others, with journals, questions, messages and joined runs.
# A third of the questions is anybody's to answer, and half of what is recorded of them is sealed.
LIE = """
INSERT INTO signoff.runs (id, namespace, workflow, group_name, state, created_at, ready_at, ended_at, wake_at,
    deadline_at, deadline_passed, retryable, epoch, wakes, worker_id, claim_token, lease_until, slots, concurrency_key,
    concurrency_limit, blocked, parent_id, parent_n, arguments, arguments_digest, takeovers)
SELECT kind || n, 'default', CASE kind WHEN 'ready' THEN 'other' WHEN 'suspect' THEN 'lost' ELSE 'refund' END,
    'default', state, n, n,
    CASE WHEN kind IN ('done', 'failed') THEN 1e9 + n END, CASE kind WHEN 'paused' THEN 4e9 + n END,
    CASE WHEN kind IN ('paused', 'ready') THEN 4e9 END, kind = 'ready', kind = 'failed', 1, 1,
    CASE kind WHEN 'running' THEN 'another' END, 'token' || n, CASE kind WHEN 'running' THEN 4e9 END,
    CASE WHEN kind IN ('running', 'blocked') THEN 'slots' || n %% 1000 END, 'key' || n %% 1000, 1, kind = 'blocked',
    CASE kind WHEN 'done' THEN 'paused' || n %% 50 END, n, '{"args": []}', '',
    CASE kind WHEN 'suspect' THEN 2 + n %% 2 ELSE 0 END
FROM generate_series(1, %(count)s) AS n, (VALUES
    ('done', 'succeeded'), ('failed', 'failed'), ('paused', 'paused'), ('running', 'running'), ('ready', 'ready'),
    ('suspect', 'ready'), ('blocked', 'ready')
) AS kinds (kind, state)
WHERE kind NOT IN ('running', 'suspect') OR n <= CASE kind WHEN 'running' THEN %(held)s ELSE 500 END
"""
LIE_BESIDE = """
INSERT INTO signoff.journal (run_id, namespace, seq, at, kind)
SELECT id, namespace, seq, 1, 'started' FROM signoff.runs, generate_series(0, 3) AS seq WHERE arguments_digest = '';
INSERT INTO signoff.promises (shard, namespace, id, kind, state, created_at, run_id, n, due_at, act_at, assignees)
SELECT id, namespace, id || '.1', 'question', 'pending', 1, id, 1, 4e9, 4e9,
    CASE number % 3 WHEN 0 THEN '{}' WHEN 1 THEN '{group:finance}' ELSE ARRAY['user:' || number] END FROM signoff.runs
WHERE state = 'paused' AND arguments_digest = '';
WITH sealed AS (DELETE FROM signoff.unsealed WHERE number % 2 = 0 RETURNING *)
INSERT INTO signoff.seals (namespace, seq, shard, event_id, hash)
SELECT namespace, 1 + row_number() OVER (ORDER BY number), shard, event_id, '' FROM sealed;
INSERT INTO signoff.promises (shard, namespace, id, kind, state, created_at, run_id, n, settled_at)
SELECT id, namespace, id || '.1', 'question', 'resolved', 1, id, 1, 2 FROM signoff.runs
WHERE state = 'succeeded' AND arguments_digest = '';
INSERT INTO signoff.messages (run_id, namespace, id, kind, at, name, value)
SELECT id, namespace, 1, 'signal', 1, 'go', '1' FROM signoff.runs
WHERE state = 'running' AND arguments_digest = '';
INSERT INTO signoff.requests (run_id, namespace, request_id, name, value)
SELECT id, namespace, '1', 'go', '1' FROM signoff.runs WHERE arguments_digest = '';
INSERT INTO signoff.waiters (shard, namespace, target, target_id, run_id, n)
SELECT id, namespace, 'run', id, 'paused1', 7 FROM signoff.runs
WHERE state = 'running' AND arguments_digest = '';
INSERT INTO signoff.runs (id, namespace, workflow, group_name, state, created_at, ready_at, ended_at, epoch,
    session_id, position, arguments, arguments_digest)
SELECT session || n, 'default', 'refund', 'default', CASE session WHEN 'long' THEN 'paused' ELSE 'succeeded' END, n, n,
    CASE session WHEN 'past' THEN 1e9 + n END, CASE WHEN session = 'past' OR n = 1 THEN 1 ELSE 0 END,
    session, n, '{"args": []}', ''
FROM generate_series(1, 5000) AS n, (VALUES ('long'), ('past')) AS sessions (session);
INSERT INTO signoff.sessions (id, namespace, created_at, last_at, last_position, last_number)
SELECT 'session' || n, 'default', 1, 1, 1, n FROM generate_series(1, 5000) AS n;
INSERT INTO signoff.promises (shard, namespace, id, kind, state, created_at, due_at, settled_at)
SELECT kind || n, 'default', kind || n, 'promise', CASE kind WHEN 'fulfilled' THEN 'resolved' ELSE 'pending' END, 1,
    4e9, CASE kind WHEN 'fulfilled' THEN 1 END
FROM generate_series(1, 5000) AS n,
    (VALUES ('due'), ('sent'), ('acquired'), ('suspended'), ('fulfilled')) AS kinds (kind);
INSERT INTO signoff.tasks (shard, namespace, id, state, target, queue, pid, ttl, send_at, lease_until)
SELECT id, 'default', id, CASE WHEN kind IN ('due', 'sent') THEN 'pending' ELSE kind END, 'poll://any@g/1',
    CASE kind WHEN 'due' THEN 'poll://any@other' ELSE 'poll://any@mine' END,
    CASE kind WHEN 'acquired' THEN 'another' END, CASE kind WHEN 'acquired' THEN 1000 END,
    CASE kind WHEN 'due' THEN 1 WHEN 'sent' THEN 4e9 END, CASE kind WHEN 'acquired' THEN 4e9 END
FROM (
    SELECT id, rtrim(id, '0123456789') AS kind FROM signoff.promises WHERE created_at = 1 AND kind = 'promise'
) AS lies;
INSERT INTO signoff.task_awaits (shard, namespace, awaited, awaiter)
SELECT 'due' || n, 'default', 'due' || n, 'suspended' || n FROM generate_series(1, 5000) AS n;
INSERT INTO signoff.promise_listeners (shard, namespace, promise_id, address, queue, send_at)
SELECT kind || n, 'default', kind || n, 'address' || n,
    CASE kind WHEN 'fulfilled' THEN 'poll://any@mine' ELSE 'poll://any@other' END,
    CASE kind WHEN 'fulfilled' THEN 4e9 ELSE 1 END
FROM generate_series(1, 5000) AS n, (VALUES ('due'), ('fulfilled')) AS kinds (kind);
INSERT INTO signoff.promise_branches (shard, namespace, promise_id, branch)
SELECT 'due' || n, 'default', 'due' || n, 'branch' FROM generate_series(1, 5000) AS n;
INSERT INTO signoff.sessions (id, namespace, created_at, last_at, last_position, last_number)
VALUES ('long', 'default', 1, 1, 5000, 1), ('past', 'default', 1, 1, 5000, 1)
ON CONFLICT (id, namespace) DO UPDATE SET last_position = 5000;
INSERT INTO signoff.groups (name, namespace, max_running)
SELECT 'group' || n, 'default', 5 FROM generate_series(1, 3000) AS n;
INSERT INTO signoff.rules (namespace, id, created_at, by, tool, arguments, expires_at, question_id, groups, roles)
SELECT 'default', 'rule' || n, 1, 'user' || n, 'mail', '{}', 2, 'q', '{}', '{}' FROM generate_series(1, 3000) AS n;
INSERT INTO signoff.schedules (id, namespace, workflow, group_name, arguments, cron, timezone, catch_up, next_at,
    priority, created_at, is_paused)
SELECT 'schedule' || n, 'default', 'refund', 'default', '{}', '* * * * *', 'UTC', 'skip', 4e9, 0, 1, false
FROM generate_series(1, 2000) AS n;
INSERT INTO signoff.tokens (namespace, id, kind, hash, subject, created_at, question_id, expires_at)
SELECT 'default', 'token' || n, 'link', 'hash' || n, 'user:ana', 1, 'paused' || n || '.1', 4e9
FROM generate_series(1, 5000) AS n;
INSERT INTO signoff.deliveries (namespace, id, channel, recipient, event_id, seq, kind, question_id, state, created_at,
    due_at, ended_at)
SELECT 'default', 'delivery' || n, 'mail', 'user:bob', 'e', 1, 'asked', 'question' || n / 10,
    CASE WHEN n % 2 = 0 THEN 'pending' ELSE 'delivered' END, 1, CASE WHEN n % 20 = 0 THEN 4e9 END,
    CASE WHEN n % 2 = 1 THEN 4e9 END
FROM generate_series(1, 20000) AS n;
INSERT INTO signoff.live (run_id, namespace, epoch, seq, n, name, attempt, position, kind, text)
SELECT id, 'default', 1, n, 1, 'answer', 1, n, 'text', 'Hi' FROM signoff.runs, generate_series(1, 250) AS n
WHERE state = 'running' AND arguments_digest = ''
"""

READ = """
SELECT relname, sum(seq_tup_read), sum(coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables
WHERE schemaname = 'signoff' AND relname <> 'migrations' GROUP BY relname
"""
TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'signoff'::regnamespace AND relkind = 'r' AND relname <> 'migrations'
"""
OTHERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
WORKER = WorkerInfo("me", "host", 1, 1.0, GROUP)

Operation = Callable[[PostgresStore, str], Awaitable[Any]]


async def claimed(store: PostgresStore, id: str) -> int:
    """Have a run of our own, and return its epoch."""
    await store.create_run(NewRun(id, WORKFLOW, GROUP, '{"args": []}'))
    [claim] = await store.claim(WORKER.id, GROUP, [WORKFLOW, "another"], 1)
    return claim.run.epoch


async def journal(store: PostgresStore, id: str) -> None:
    epoch = await claimed(store, id)
    for seq in range(4):
        await store.append(Write(id, epoch, [entry(seq)]))
    await store.read_journal(id, after=1)


async def answer(store: PostgresStore, id: str) -> None:
    epoch = await claimed(store, id)
    await store.append(Write(id, epoch, opens=[NewPromise(f"{id}.1", PromiseKind.QUESTION, 1, due_at=4e9)]))
    assert await store.pause(Write(id, epoch, [entry(0)]), wakes=0, wake_at=None)
    assert (await store.get_promise(f"{id}.1")).run_id == id
    await store.settle(f"{id}.1", PromiseKind.QUESTION, YES)
    await store.read_messages([id])
    [claim] = await store.claim(WORKER.id, GROUP, [WORKFLOW], 1)
    await store.complete(Write(id, claim.run.epoch, [entry(1)], taken=[1]), SUCCESS)
    assert await store.ended([id, "paused1"]) == {id}


async def suspects(store: PostgresStore, id: str) -> None:
    """Of hundreds of runs that have lost workers, a claim looks at those that it takes, and at those that are held."""
    worker = f"{id}-suspects"
    for _ in range(2):
        claims = await store.claim(worker, GROUP, ["lost", WORKFLOW], 2)
        assert [claim.run.takeovers for claim in claims] == ([] if id == "first" else [3, 3])
    await claimed(store, id)  # the other workflows' runs are found beside them
    await store.release(worker)


async def children(store: PostgresStore, id: str) -> None:
    epoch = await claimed(store, id)
    starts = [NewRun(f"{id}-c", WORKFLOW, GROUP, "{}", parent_id=id, parent_n=1)]
    await store.append(Write(id, epoch, [entry(0)], starts=starts))
    await store.append(Write(id, epoch, [entry(1)], cancels=[f"{id}-c"]))
    await store.complete(Write(id, epoch, [entry(2)]), SUCCESS)


async def promises(store: PostgresStore, id: str) -> None:
    await store.create_promise(NewPromise(id, PromiseKind.PROMISE))
    await store.settle(id, PromiseKind.PROMISE, NO)


async def inboxes(store: PostgresStore, id: str) -> None:
    me = f"user:{id}"
    new = NewPromise(id, PromiseKind.QUESTION, assignees=(me, "group:finance"), act_at=1.0)
    asked, _ = await store.create_promise(new)
    for names in ({me}, {me, "group:finance"}):
        which = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, answerable_by=frozenset(names))
        page = await store.list_promises(which, limit=5)
        await store.list_promises(which, after=page.next, limit=5)
    [due], _ = await store.due_questions(5)
    assert due.id == id
    handed_on = Amendment(asked.version, "1", ("user:bob",), 4e9)
    assert (await store.amend(id, handed_on))[1]
    assert (await store.amend(id, replace(handed_on, version=1, settlement=YES)))[1]
    late = NewPromise(f"{id}-late", PromiseKind.QUESTION, due_at=1.0)
    await store.create_promise(late)
    assert not (await store.amend(late.id, Amendment(0, None, (), None)))[1]


async def inboxes_of_workflows(store: PostgresStore, id: str) -> None:
    """However many questions are open, a page looks through a part of them."""
    pending = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING)
    with pytest.MonkeyPatch.context() as patch:
        for module in (paging, reads):
            patch.setattr(module, "LOOKED_THROUGH", 5)
        for which in (pending, replace(pending, answerable_by=frozenset({"group:finance"}))):
            for workflow in ("refund", "unknown"):
                page = await store.list_promises(replace(which, workflow=workflow, group="default"), limit=5)
                assert id == "first" or page.next is not None
        await store.list_promises(replace(pending, run_id="paused7", workflow="refund"), limit=5)


async def rules(store: PostgresStore, id: str) -> None:
    made = NewRule(id, id, "mail", "{}", None, id, session_id=id)
    for place, change in enumerate(({"rule": made}, {"by_rule": id})):
        asked, _ = await store.create_promise(NewPromise(f"{id}-{place}", PromiseKind.QUESTION))
        amendment = Amendment(asked.version, None, (), None, YES)
        assert (await store.amend(asked.id, replace(amendment, **change)))[1]
    assert (await store.get_rule(id)).uses == 1
    for which in (
        RuleFilter(by=id),
        RuleFilter(in_force=True),
        RuleFilter(by=id, tool="mail", in_force=True),
        RuleFilter(in_force=True, session_id=id),
        RuleFilter(by=id, session_id=id),
    ):
        assert [rule.id for rule in (await store.list_rules(which)).items] == [id]
    page = await store.list_rules(RuleFilter(tool="mail"), limit=5)
    await store.list_rules(RuleFilter(), after=page.next, limit=5)
    await store.revoke_rule(id, NewAuditEvent(id, AuditKind.RULE_REVOKED, id))
    await store.revoke_rule(id, NewAuditEvent(id, AuditKind.RULE_REVOKED, id))


async def trail(store: PostgresStore, id: str) -> None:
    await store.record([NewAuditEvent(f"{id}-{n}", AuditKind.VIEWED, f"{id}.0", id) for n in range(3)])
    for which in (AuditFilter(f"{id}.0"), AuditFilter(run_id=id), AuditFilter(f"{id}.0", id)):
        assert len((await store.list_audit(which, limit=5)).items) == 3
    page = await store.list_audit(AuditFilter(), limit=5)
    await store.list_audit(AuditFilter(), after=page.next, limit=5)
    waiting = await store.unsealed(2)
    chain = await store.read_chain(after=LYING // 2 - 5)
    end = chain[-1][0].seq + 1 if chain else 0
    assert await store.seal([Seal(end + place, event.id, "h") for place, event in enumerate(waiting)])


async def signals(store: PostgresStore, id: str) -> None:
    epoch = await claimed(store, id)
    await store.signal(id, "go", "1", request_id="r")
    await store.cancel(id, reason="enough")
    await store.complete(Write(id, epoch, [entry(0)], taken=[1, 2]), KEPT_FAILURE)
    await store.retry(id)
    [claim] = await store.claim(WORKER.id, GROUP, [WORKFLOW], 1)
    await store.complete(Write(id, claim.run.epoch), SUCCESS)


async def keys(store: PostgresStore, id: str) -> None:
    for k in range(2):
        await store.create_run(
            NewRun(f"{id}-{k}", WORKFLOW, GROUP, "{}", concurrency_key=id, concurrency_limit=1)
        )
    for k in range(2):
        [claim] = await store.claim(WORKER.id, GROUP, [WORKFLOW], 2)
        await store.complete(Write(f"{id}-{k}", claim.run.epoch, [entry(0)]), SUCCESS)


async def beats(store: PostgresStore, id: str) -> None:
    await store.enlist(WORKER)
    epoch = await claimed(store, id)
    assert await store.heartbeat(WORKER.id, {id: epoch}) == set()
    await store.due()
    await store.release(WORKER.id)
    [claim] = await store.claim(WORKER.id, GROUP, [WORKFLOW], 1)
    await store.complete(Write(id, claim.run.epoch, [entry(0)]), SUCCESS)


async def schedules(store: PostgresStore, id: str) -> None:
    await store.put_schedule(NewSchedule(id, WORKFLOW, GROUP, "{}", "* * * * *", "UTC", next_at=1.0))
    [due], _ = await store.due_schedules(5)
    assert await store.fire_schedule(due.id, 1.0, [NewRun(f"{id}-run", "another", GROUP, "{}")], 4e9)
    await store.list_schedules(limit=5)
    await store.delete_schedule(id)


async def tokens(store: PostgresStore, id: str) -> None:
    new = NewToken(id, TokenKind.LINK, hash_of(id), f"user:{id}", f"{id}.1", expires_at=1.0)
    made = await store.create_token(new)
    assert await store.create_token(new) == await store.find_token(new.hash) == made
    for which in (TokenFilter(new.kind, new.subject), TokenFilter(new.kind, question_id=new.question_id)):
        assert (await store.list_tokens(which)).items == (made,)
    page = await store.list_tokens(TokenFilter(new.kind), limit=5)
    await store.list_tokens(TokenFilter(new.kind, "user:ana"), after=page.next, limit=5)
    await store.touch_token(id)
    await store.revoke_token(id)
    assert await store.delete_tokens(time.time() + 60, 5) == 1


async def notifications(store: PostgresStore, id: str) -> None:
    cursor = await store.read_cursor("mail")
    new = [NewDelivery(f"{id}-{n}", "user:ana", id, 1, AuditKind.ASKED, id) for n in range(2)]
    assert await store.expand("mail", cursor, (cursor or 0) + 1, new)
    for delivery in new:
        [taken], _ = await store.claim_deliveries("mail", 5, 60.0)
        assert taken.id == delivery.id
        await store.finish_delivery(taken.id, 1, Report(DeliveryState.DELIVERED))
    await store.redeliver(f"{id}-0")
    await store.claim_deliveries("mail", 5, 60.0)
    await store.finish_delivery(f"{id}-0", 2, Report(DeliveryState.DELIVERED))


async def outbox(store: PostgresStore, id: str) -> None:
    new = NewDelivery(id, "user:ana", id, 1, AuditKind.ASKED, id)
    assert await store.expand(id, None, 1, [new])
    [taken], _ = await store.claim_deliveries(id, 5, 60.0)
    await store.finish_delivery(taken.id, 1, Report(DeliveryState.DEAD))
    for state in (None, DeliveryState.PENDING):
        for which in (None, "mail"):
            page = await store.list_deliveries(DeliveryFilter(state, which), limit=5)
            await store.list_deliveries(DeliveryFilter(state, which), after=page.next, limit=5)
    assert len((await store.list_deliveries(DeliveryFilter(question_id=id), limit=5)).items) == 1
    assert await store.delete_deliveries(time.time() + 60, 1) == 1


async def lists(store: PostgresStore, id: str) -> None:
    await store.list_runs(RunFilter(), limit=5)
    await store.list_runs(RunFilter(states=frozenset({RunState.PAUSED, RunState.SUCCEEDED})), limit=5)
    await store.list_runs(RunFilter(workflow=WORKFLOW), limit=5)
    await store.list_runs(RunFilter(parent_id="paused7"), limit=5)
    page = await store.list_promises(PromiseFilter(), limit=5)
    await store.list_promises(PromiseFilter(), after=page.next, limit=5)
    await store.list_promises(PromiseFilter(run_id="paused7"), limit=5)


async def limits(store: PostgresStore, id: str) -> None:
    await store.limit_group("mine", max_running=3, starts_per=Rate(1000, 60.0))
    await store.pause_group("mine")
    await store.resume_group("mine")
    await store.create_run(NewRun(id, WORKFLOW, "mine", "{}"))
    [claim] = await store.claim(WORKER.id, "mine", [WORKFLOW], 5)
    await store.complete(Write(id, claim.run.epoch, [entry(0)]), SUCCESS)


async def own_sessions(store: PostgresStore, id: str) -> None:
    await chain(store, id, session=id)


async def past_sessions(store: PostgresStore, id: str) -> None:
    """In a session with thousands that have ended."""
    await chain(store, id, session="past")


async def long_sessions(store: PostgresStore, id: str) -> None:
    """In a session with thousands that wait."""
    for number in range(2):
        new = NewRun(f"{id}-{number}", WORKFLOW, GROUP, "{}", session_id="long")
        await store.create_run(new)
    assert await store.claim(WORKER.id, GROUP, [WORKFLOW], 1) == [] or id == "first"
    await store.cancel(f"{id}-1")
    await store.get_session("long")
    await store.list_runs(RunFilter(session_id="long"), limit=5)
    page = await store.list_sessions(limit=5)
    await store.list_sessions(after=page.next, limit=5)


async def chain(store: PostgresStore, id: str, session: str) -> None:
    for number in range(2):
        new = NewRun(f"{id}-{number}", WORKFLOW, GROUP, "{}", session_id=session)
        assert (await store.create_run(new))[0].awaits_turn is (number > 0)
    for number in range(2):
        [claim] = await store.claim(WORKER.id, GROUP, [WORKFLOW], 1)
        assert claim.run.id == f"{id}-{number}"
        await store.complete(Write(claim.run.id, 1, [entry(0)]), SUCCESS)
    await store.list_runs(RunFilter(session_id=session), limit=5)


async def live_texts(store: PostgresStore, id: str) -> None:
    epoch = await claimed(store, id)
    for seq, position in enumerate((0, 2, 200_000)):
        await store.publish([LiveText(id, epoch, seq, 1, "answer", 1, position, "text", "Hi")])
    assert [piece.seq for piece in await store.read_live(id)] == [2]
    await store.append(Write(id, epoch, [entry(0)], unpublishes=[1]))
    await store.complete(Write(id, epoch, [entry(1)]), SUCCESS)


async def tasks(store: PostgresStore, id: str) -> None:
    lease, target = TaskLease("mine", 60_000), "poll://any@mine/1"
    awaited = NewInvocation(NewPromise(f"{id}-a"), branch=id, parent=f"{id}-task")
    await store.open_invocation(awaited)
    new = NewInvocation(NewPromise(f"{id}-task", due_at=4e9), target, id)
    await store.open_invocation(new)
    [message] = await store.take_task_messages(["poll://any@mine"], 5)
    assert message.task is not None
    assert message.task.id == new.id
    await store.acquire_task(TaskRef(new.id, 0), lease)
    child = NewInvocation(NewPromise(f"{id}-b"), lease=lease, target=target, holder=TaskRef(new.id, 1))
    await store.open_invocation(child)
    assert await store.heartbeat_tasks("mine", None) == 2
    assert await store.heartbeat_tasks("mine", [TaskRef(new.id, 1)]) == 1
    await store.await_promise(awaited.id, child.id)
    await store.listen_promise(awaited.id, target)
    assert await store.suspend_task(TaskRef(new.id, 1), [awaited.id, child.id])
    await store.settle(awaited.id, PromiseKind.PROMISE, YES)
    await store.resend_task_messages([TaskRef(new.id, 1)], [Listener(awaited.id, target)])
    await store.finish_task_message(awaited.id, target)
    await store.settle_held(TaskRef(child.id, 1), child.id, YES)
    await store.settle(new.id, PromiseKind.PROMISE, YES)


async def task_states(store: PostgresStore, id: str) -> None:
    ref, lease, target = TaskRef(id, 1), TaskLease("mine", 60_000), "poll://any@mine/1"
    await store.open_invocation(NewInvocation(NewPromise(id, due_at=4e9), target, id, lease=lease))
    assert [each.id for each in await store.list_branch(id)] == [id]
    await store.list_branch("branch", limit=5)
    await store.halt_task(id)
    await store.continue_task(id)
    await store.acquire_task(ref, lease)
    await store.release_task(TaskRef(id, 2))
    await store.settle(id, PromiseKind.PROMISE, YES)
    assert (await store.get_task(id)).state is TaskState.FULFILLED


async def task_lists(store: PostgresStore, id: str) -> None:
    for state in (None, *TaskState):
        page = await store.list_tasks(state=state, limit=3)
        await store.list_tasks(state=state, after=page.next, limit=3)
    await store.queued_namespaces("push", limit=3)
    page = await store.list_tasks(pid="process", limit=3)
    await store.list_tasks(pid="process", after=page.next, limit=3)
    await store.due()


async def invocation_lists(store: PostgresStore, id: str) -> None:
    """However many promises there are, a page looks through a part of them."""
    pending, held = PromiseState.PENDING, TaskState.ACQUIRED
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(invocations, "LOOKED_THROUGH", 5)
        for which in (
            InvocationFilter(),
            InvocationFilter(pending),
            InvocationFilter(pending, held, nested=True),
        ):
            page = await store.list_invocations(which, limit=3)
            await store.list_invocations(which, after=page.next, limit=3)
    await store.open_invocation(NewInvocation(NewPromise(id), "poll://any@mine", parent=f"{id}-parent"))
    [node] = (await store.list_calls(f"{id}-parent", limit=3)).items
    assert node.task is not None
    page = await store.list_calls("branch", limit=3)
    await store.list_calls("branch", after=page.next, limit=3)


async def deletes(store: PostgresStore, id: str) -> None:
    epoch = await claimed(store, id)
    await store.complete(Write(id, epoch, [entry(0)]), SUCCESS)
    await store.delete_ended(time.time() + 60, 1)
    await store.create_promise(NewPromise(f"{id}.settled"))
    await store.settle(f"{id}.settled", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED))
    _, after = await store.delete_settled(time.time() + 60, 1)
    assert after is not None
    await store.delete_settled(time.time() + 60, 1, after=after)


OPERATIONS: Sequence[Operation] = (
    journal,
    answer,
    suspects,
    children,
    promises,
    inboxes,
    inboxes_of_workflows,
    rules,
    trail,
    signals,
    keys,
    beats,
    schedules,
    tokens,
    notifications,
    outbox,
    lists,
    limits,
    own_sessions,
    past_sessions,
    long_sessions,
    live_texts,
    tasks,
    task_states,
    task_lists,
    invocation_lists,
    deletes,
)


KINDS = {
    f"{'counted' if is_counted else 'uncounted'}-postgres-{major}": (major, is_counted)
    for major, is_counted in ((versions()[0], False), (versions()[0], True), (versions()[-1], False))
}


@dataclass(frozen=True)
class Database:
    """Full tables that all operations are tried on, one after the other, and the stores that saw them empty."""

    url: str
    keeper: psycopg.Connection
    runner: asyncio.Runner
    stores: Mapping[Operation, PostgresStore]
    known: set[int]
    """The processes behind the connections of these stores."""
    filled: int
    """What an earlier transaction wrote stays."""


@pytest.fixture(
    scope="module",
    params=sample(KINDS.values()),
    ids=KINDS,
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """To fill the tables takes ten times as long as to try an operation."""
    major, is_counted = request.param
    with (
        fresh_database(major) as url,
        asyncio.Runner() as runner,
        psycopg.connect(url, autocommit=True) as keeper,
    ):
        stores = {operation: PostgresStore(url) for operation in OPERATIONS}
        try:
            for store in stores.values():
                runner.run(store.open())
            for table in _tables(keeper):  # Postgres counts no rows on its own
                keeper.execute(SQL("ALTER TABLE {} SET (autovacuum_enabled = false)").format(table))
            for operation, store in stores.items():
                made = _now(keeper)
                # A connection that makes its plans while the tables are empty keeps them.
                runner.run(_run(operation, store, "first"))
                _remove_since(keeper, made)
            known = _others(keeper)
            keeper.execute(LIE, {"count": LYING, "held": HELD})
            keeper.execute(LIE_BESIDE)
            if is_counted:
                keeper.execute("ANALYZE")
            yield Database(url, keeper, runner, stores, known, _now(keeper))
        finally:
            for store in stores.values():
                runner.run(store.close())


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_no_operation_reads_what_it_is_not_about(operation: Operation, database: Database) -> None:
    database.keeper.execute("SELECT pg_stat_force_next_flush()")  # what this connection has read itself
    database.keeper.execute("SELECT pg_stat_reset()")

    async def run() -> None:
        for turn in range(TIMES):
            await operation(database.stores[operation], f"r{turn}")
        await database.stores[operation].close()
        other = PostgresStore(database.url)
        await other.open()
        for turn in range(TIMES):
            await operation(other, f"again{turn}")
        await other.close()

    try:
        database.runner.run(run())
        give_up_at = time.monotonic() + 60  # another one's connection would never end
        while _others(database.keeper) - database.known and time.monotonic() < give_up_at:
            time.sleep(0.002)  # connections report what they read as they end
        read = database.keeper.execute(READ).fetchall()
    finally:
        _remove_since(database.keeper, database.filled)
    assert not {name: scanned for name, scanned, _ in read if scanned > MOST_ROWS * TIMES}, (
        "whole tables were read"
    )
    assert not {name: found for name, _, found in read if found > 2 * MOST_ROWS * TIMES}
    assert sum(found for _, _, found in read) > TIMES


async def _run(operation: Operation, store: PostgresStore, id: str) -> None:
    await operation(store, id)


def _others(keeper: psycopg.Connection) -> set[int]:
    return {pid for (pid,) in keeper.execute(OTHERS).fetchall()}


def _now(keeper: psycopg.Connection) -> int:
    [[now]] = keeper.execute("SELECT pg_current_xact_id()::text::bigint").fetchall()
    return now


def _remove_since(keeper: psycopg.Connection, since: int) -> None:
    """Remove the rows that were written since a moment, which ``_now`` has returned."""
    with keeper.transaction():
        keeper.execute("SET LOCAL session_replication_role = replica")  # without the triggers
        for table in _tables(keeper):
            keeper.execute(SQL("DELETE FROM {} WHERE xmin::text::bigint > %s").format(table), [since])


def _tables(keeper: psycopg.Connection) -> list[Identifier]:
    return [Identifier("signoff", name) for (name,) in keeper.execute(TABLES).fetchall()]


@pytest.mark.parametrize("by", ["workflow", "group", "parent"])
def test_a_list_uses_its_own_index_before_postgres_has_statistics(by: str) -> None:
    """All estimates are alike then, and the smallest index would win."""
    statement = reads.list_runs_statement(
        frozenset({RunState.PAUSED}),
        workflow=by == "workflow",
        group=by == "group",
        parent=by == "parent",
        session=False,
    )
    values = {
        "namespace": "default",
        "before": 10**6,
        "limit": 6,
        "workflow": "w",
        "group": "w",
        "parent_id": "w",
    }
    with fresh_database() as url, asyncio.Runner() as runner, psycopg.connect(url, autocommit=True) as db:
        store = PostgresStore(url)
        runner.run(store.open())
        runner.run(store.close())
        db.execute("ALTER TABLE signoff.runs SET (autovacuum_enabled = false)")
        db.execute(
            "INSERT INTO signoff.runs (id, namespace, workflow, group_name, parent_id, state, arguments, "
            "arguments_digest, created_at, ready_at) SELECT n, 'default', repeat('w', 50) || n, repeat('g', 50) || n, "
            "repeat('p', 50) || n, 'paused', '{}', '', 0, 0 FROM generate_series(1, 7000) AS n"
        )
        plan = "\n".join(
            row for (row,) in psycopg.ClientCursor(db).execute("EXPLAIN " + statement, values).fetchall()
        )
    assert f"using runs_by_{by} " in plan


PROMISES_OF_A_RUN = {
    "all": reads.list_promises_statement(tuple(PromiseState), tuple(PromiseKind), of_run=True),
    "of a workflow": reads.of_runs_statement(of_names=False, of_run=True),
}
MORE_PROMISES = """
INSERT INTO signoff.promises (shard, namespace, id, kind, state, created_at, run_id)
SELECT {run} || n % 500, 'default', {run} || n || '.1', 'question', 'pending', 1, {run} || n % 500
FROM generate_series(1, {count}) AS n
"""


@pytest.mark.parametrize("statement", PROMISES_OF_A_RUN.values(), ids=PROMISES_OF_A_RUN)
@pytest.mark.parametrize("run", ["repeat('r', 120)", "'r'"], ids=["long ids", "short ids"])
def test_the_promises_of_a_run_use_its_index_even_if_it_is_deeper(statement: str, run: str) -> None:
    """Or is taken for that: a connection knows the height of each index from when it was used last."""
    values = {
        "namespace": "default",
        "run_id": "r7",
        "after": 0,
        "limit": 6,
        "looked": 1000,
        "workflow": "w",
        "group": "g",
    }
    with fresh_database() as url, asyncio.Runner() as runner, psycopg.connect(url, autocommit=True) as db:
        store = PostgresStore(url)
        runner.run(store.open())
        runner.run(store.close())
        db.execute("ALTER TABLE signoff.promises SET (autovacuum_enabled = false)")
        db.execute(MORE_PROMISES.format(run="'first'", count=1))
        with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as old:
            old.execute("EXPLAIN " + statement, values)
            db.execute(MORE_PROMISES.format(run=run, count=5_000))
            for _ in range(3):
                old.execute(statement, values)
                plan = "\n".join(row for (row,) in old.execute("EXPLAIN " + statement, values).fetchall())
                assert "Index Scan using promises_by_run on promises" in plan
                assert "promises_by_state" not in plan
