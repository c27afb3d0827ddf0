"""A store full of rows of the maximum size, in every table that a caller can fill."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from hashlib import sha256

from signoff.people.questions.question import Question
from signoff.records import (
    Amendment,
    AuditKind,
    CallKind,
    Entry,
    EntryKind,
    LiveText,
    NewAuditEvent,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    NewToken,
    PromiseKind,
    PromiseState,
    RunState,
    Settlement,
    TokenKind,
    WorkflowInfo,
)
from signoff.records.checkpoints import (
    ChannelValue,
    CheckpointRef,
    CheckpointWrite,
    NewCheckpoint,
    Serialized,
)
from signoff.records.deliveries import NewDelivery
from signoff.records.tasks import NewInvocation
from signoff.stores.contract.checkpoints import BYTES_OF_WRITE, LARGEST_METADATA, LARGEST_STATE
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.store import Store

GROUP = "default"
WORKFLOW = "large"
LONG_RUN = "long"
"""A run that goes on: its journal, its messages and its questions are larger than what a server may use."""
QUESTION = f"{LONG_RUN}.1000"
OPEN_QUESTION = f"{LONG_RUN}.900"
"""A question that stays open: each answer of the tests is read, checked and refused."""
PROMISE = "promise-0"
BRANCH = "task-0"
RULE = "rule-0"
SCHEDULE = "schedule-0"
SESSION = "session"
THREAD = "thread"
"""Its only checkpoint is as large as may be."""
ENDED_RUN = "ended-0"

MIB = 1024 * 1024
ROOM = 4 * 1024  # for what is around a value

TEXT = json.dumps("x" * (MIB - ROOM) + "\N{PILE OF POO}", ensure_ascii=False)
"""A text of which each character takes four bytes in memory, for the sake of one."""
LISTS = f"[{','.join(['[]'] * ((MIB - ROOM) // 3))}]"
"""A value that takes twenty times as much memory as its text."""


def large(number: int) -> str:
    """Return the JSON of a value of a mebibyte."""
    return TEXT if number % 2 else LISTS


@functools.cache
def _within(prefix: str, parity: int) -> str:
    """Return the JSON of an object that ends in a large value: read and written once, not for each row."""
    return json.dumps(json.loads(f"{prefix}{large(parity)}{'}' * prefix.count('{')}"), ensure_ascii=False)


async def fill(store: Store, rows: int = 100) -> None:
    """Write so many large rows into each table."""
    await _fill_runs(store, rows)
    await _fill_long_run(store, rows)
    await _fill_people(store, rows)
    for number in range(rows):
        await store.create_promise(NewPromise(f"promise-{number}", data=large(number)))
        settled = Settlement(PromiseState.RESOLVED, large(number), by="user:ana")
        if number:
            await store.settle(f"promise-{number}", PromiseKind.PROMISE, settled)
        await store.put_schedule(
            NewSchedule(
                f"schedule-{number}", WORKFLOW, GROUP, _arguments(number), "0 0 1 1 *", "UTC", next_at=4e9
            )
        )
    for first in range(0, 1_000, 100):
        await store.announce(
            [
                WorkflowInfo(
                    GROUP,
                    f"workflow-{first + number}",
                    "1",
                    is_current=True,
                    description="d" * 1_000,
                    parameters=json.dumps({"x": "\N{PILE OF POO}" * 16_000}, ensure_ascii=False),
                )
                for number in range(100)
            ]
        )


def _arguments(number: int) -> str:
    return f'{{"args":[{large(number)}],"kwargs":{{}}}}'


async def _fill_runs(store: Store, rows: int) -> None:
    for number in range(rows):
        new = NewRun(f"ended-{number}", WORKFLOW, GROUP, _arguments(number))
        await store.create_run(new)
        [claim] = await store.claim("w", GROUP, [WORKFLOW], 1)
        outcome = Outcome(RunState.SUCCEEDED, result=large(number))
        if number % 3 == 2:
            outcome = Outcome(RunState.FAILED, error=large(number))
        await store.complete(Write(claim.run.id, claim.run.epoch), outcome)
    for number in range(rows):
        await store.create_run(NewRun(f"ready-{number}", WORKFLOW, GROUP, _arguments(number)))
    await store.create_run(
        NewRun("in-session", WORKFLOW, GROUP, '{"args":[],"kwargs":{}}', session_id=SESSION)
    )


async def _fill_long_run(store: Store, rows: int) -> None:
    await store.create_run(NewRun(LONG_RUN, "long", GROUP, _arguments(0)))
    [claim] = await store.claim("long-worker", GROUP, ["long"], 1)
    write = Write(LONG_RUN, claim.run.epoch)
    for seq in range(rows):
        entry = Entry(seq, 1.5, EntryKind.COMPLETED, n=seq, call=CallKind.STEP, name="step", value=large(seq))
        await store.append(replace(write, entries=[entry]))
        await store.signal(LONG_RUN, "news", large(seq))
        piece = LiveText(
            LONG_RUN, claim.run.epoch, seq, 2_000, "speak", 1, seq * MIB // 2, "text", "y" * (MIB // 2)
        )
        await store.publish([piece])


async def _fill_people(store: Store, rows: int) -> None:
    run = await store.get_run(LONG_RUN)
    seq = rows
    for number in range(rows):
        id = f"{LONG_RUN}.{1_000 + number}"
        data = _within('{"text":"Pay?","metadata":{"x":', number % 2)
        new = NewPromise(id, PromiseKind.QUESTION, LONG_RUN, 1_000 + number, data=data, act_at=4e9)
        opened = Entry(
            seq + number, 1.5, EntryKind.OPENED, n=1_000 + number, call=CallKind.QUESTION, name="Pay?"
        )
        await store.append(Write(LONG_RUN, run.epoch, entries=[opened], opens=[new]))
        details = _within('{"x":', number % 2)
        await store.record(
            [NewAuditEvent(f"said-{number}", AuditKind.VIEWED, QUESTION, LONG_RUN, "user:ana", details)]
        )
        await store.create_token(
            NewToken(
                f"link-{number}",
                TokenKind.LINK,
                sha256(str(number).encode()).hexdigest(),
                "user:ana",
                question_id=QUESTION,
                data=details,
            )
        )
        if number < rows // 2:
            rule = NewRule(f"rule-{number}", "ana", "tool", details, 4e9, id)
            settled = Settlement(PromiseState.RESOLVED, large(number), by="user:ana")
            await store.amend(
                id, Amendment(0, large(number), (), None, settlement=settled, rule=rule if number else None)
            )
    question = await store.get_promise(f"{LONG_RUN}.{1_000 + rows - 1}")
    made = NewRule(RULE, "ana", "tool", '{"x":1}', 4e9, question.id)
    await store.amend(
        question.id,
        Amendment(
            0,
            large(0),
            (),
            None,
            settlement=Settlement(PromiseState.RESOLVED, "true", by="user:ana"),
            rule=made,
        ),
    )
    asked = Question.make("Say all!", input_type="form", answer_type={"type": "integer"}).to_json()
    for number in range(rows):
        task = NewPromise(f"task-{number}", data=json.dumps("x" * 1_000_000))
        await store.open_invocation(NewInvocation(task, "poll://any@g", branch=BRANCH))
    await store.create_promise(NewPromise(OPEN_QUESTION, PromiseKind.QUESTION, data=asked))
    await _fill_thread(store)
    await store.expand("mail", None, 1, [_delivery(number) for number in range(1_000)])


def _delivery(number: int) -> NewDelivery:
    return NewDelivery(f"delivery-{number}", "ana", "said-0", 1, AuditKind.ASKED, QUESTION, LONG_RUN)


async def _fill_thread(store: Store) -> None:
    part = Serialized("msgpack", b"\xff" * (LARGEST_STATE // 4 - BYTES_OF_WRITE - 100))  # names count, too
    metadata = Serialized("msgpack", b"\xff" * LARGEST_METADATA)
    versions: dict[str, str] = {}
    for channel in "abcd":
        versions[channel] = "1"
        values = (ChannelValue(channel, "1", part),)
        new = NewCheckpoint("", "1", Serialized("msgpack", b"1"), metadata, dict(versions), values)
        await store.put_checkpoint(THREAD, new)
        write = CheckpointWrite(channel, 0, channel, part)
        await store.put_checkpoint_writes(THREAD, CheckpointRef("", "1"), [write])
