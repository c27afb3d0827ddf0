"""Malformed arguments of store operations, derived from valid ones by a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, cast

from pydantic_core import from_json

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
    Promise,
    PromiseKind,
    PromiseState,
    Rate,
    Run,
    RunState,
    Settlement,
    TokenKind,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import DeliveryState, NewDelivery, Report
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.operations import OPERATIONS
from signoff.stores.contract.snapshots import Saved, SavedRun
from signoff.stores.contract.store import Store

GROUP: Final = "elsewhere"
"""The group of the attacker's runs: no worker of the tests serves it."""

WORKFLOW: Final = "hostile"
ARGUMENTS: Final = '{"args":[1],"kwargs":{}}'
ERROR: Final = '{"type":"builtins:ValueError","message":"no","args":["no"]}'

HUGE: Final = "huge"
"""What stands for a number in JSON that readers take for infinity."""

SCALARS: Final[tuple[Any, ...]] = (
    HUGE,
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
    10**400,
    0.5,
    -1e300,
    1e300,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    " ",
    "x",
    "\n",
    "null",
    "1",
    "[]",
    "{}",
    "NaN",
    "user:",
    "user:ana",
    "group:",
    "signoff:callback",
    "service:bot",
    "r.0",
    "../../x",
    "a/b?c#d",
    "javascript:alert(1)",
    "\u202e\u2066\ufeff",
    "ü" * 300,
    "Mars/Olympus",
    "America",
    "/etc/passwd",
    "0 0 30 2 *",
    "* * * * * *",
    "@daily",
    "@reboot",
)
NESTED: Final[tuple[Any, ...]] = (
    [],
    {},
    [None],
    [1, "x"],
    [[]],
    {"": None},
    {"text": 1},
    {"text": None},
    {"$ref": "#"},
    {"type": "object", "properties": {"a": 1}},
    {"__proto__": 1, "constructor": 2, "toString": None},
    {"toString": None, "valueOf": None},
    {"length": 3},
)
TEXTS: Final = (
    "",
    " ",
    "{",
    "nul",
    "NaN",
    "[Infinity]",
    "-Infinity",
    "1e999",
    '{"a":1,"a":2}',
    '{"a":1}{}',
    '{"text":1}',
    '"\\ud800"',
    '"\\u0000"',
    "[" * 2000 + "]" * 2000,
    "[" * 250 + "]" * 250,
    '{"a":' * 300 + "1" + "}" * 300,
    "9" * 5000,
    ',"action_as_proposed":1}',
    '{"text":"x","action_as_proposed":1}',
    '{"action":1,"text":"x","action_as_proposed":1}',
    '{"encrypted":1}',
    '"signoff-encrypted:"',
    "\ufeff{}",
)
"""What is put where JSON text belongs."""


def questions() -> list[str]:
    """Good questions of each kind."""
    policy = {
        "excluded": ["user:req"],
        "quorum": {"approvals": 1, "of": 2},
        "remind_every": 60.0,
        "escalations": [{"after_seconds": 60.0, "to": ["group:heads"], "replace": False}],
        "deadline": 3600.0,
        "timeout_answer": {"approved": False},
        "asked_at": 1.0,
    }
    made = [
        Question.make(
            "Pay?", metadata={"order": "o-1"}, help="more", attachments=[{"name": "a", "url": "https://x.y/"}]
        ),
        Question.make(
            "Which?",
            input_type="select",
            options=["a", {"value": "b", "label": "B", "help": "h"}],
            other="Else",
        ),
        Question.make("Which ones?", input_type="multiselect", options=["a", "b"], default=["a"]),
        Question.make("Say", input_type="text", default="x", max_length=10, skippable=True),
        Question.make("Send?", proposal={"to": "bob", "cents": 1}),
    ]
    texts = [each.to_json() for each in made]
    asked = cast("dict[str, Any]", json.loads(texts[0]))
    texts.append(json.dumps({**asked, "policy": policy}))
    texts.append(json.dumps({**asked, "action": {"tool": "send", "arguments": {"to": "bob"}}}))
    return texts


QUESTIONS: Final = questions()

ATTACKED: Final = (
    *("create_run", "cancel", "signal", "suspend", "terminate", "append", "pause", "complete"),
    *("create_promise", "settle", "amend", "record", "put_schedule", "resume_schedule", "fire_schedule"),
    *("limit_group", "enlist", "announce", "publish", "heartbeat", "claim", "expire_token", "load_run"),
    *("expand", "claim_deliveries", "finish_delivery", "create_promise", "append", "amend", "record"),
)
"""Operations that write, those that people read most of twice."""


@dataclass
class Attack:
    """One operation with arguments as no client of ours would send them.

    Attributes:
        do: The operation.
        arguments: As they cross the wire.
        changed: Where they were changed, for messages.
    """

    do: str
    arguments: dict[str, Any]
    changed: str = ""


class Attacker:
    """Makes attacks, each with an id of its own, so that what one has left does not hide the next.

    Args:
        random: What all of them grow from.
        prefix: How their ids begin.
    """

    def __init__(self, random: Random, prefix: str = "bad") -> None:
        self._random = random
        self._prefix = prefix
        self._count = 0

    async def attacks(self, store: Store, count: int) -> list[Attack]:
        """Make attacks, on each operation in turn. What they build on is put into the store."""
        made: list[Attack] = []
        for number in range(count):
            do = ATTACKED[number % len(ATTACKED)]
            self._count += 1
            good = await getattr(self, f"_{do}")(f"{self._prefix}-{self._count}", store)
            arguments = from_json(OPERATIONS[do].write_arguments(good))
            changed = [self._change(arguments) for _ in range(self._random.choice((1, 1, 1, 2, 3)))]
            made.append(Attack(do, arguments, ", ".join(changed)))
        return made

    # Good arguments, by operation

    async def _create_run(self, id: str, store: Store) -> dict[str, Any]:
        new = replace(_run(id), deadline_at=9e9, start_at=2.0, started_by="user:ana", priority=1)
        return {"new": replace(new, concurrency_key="k", concurrency_limit=2), "token": f"{id}-t"}

    async def _cancel(self, id: str, store: Store) -> dict[str, Any]:
        await store.create_run(_run(id))
        return {"run_id": id, "reason": "why", "by": "user:ana"}

    async def _signal(self, id: str, store: Store) -> dict[str, Any]:
        await store.create_run(_run(id))
        return {"run_id": id, "name": "go", "value": "1", "by": "user:ana", "request_id": f"{id}-q"}

    async def _suspend(self, id: str, store: Store) -> dict[str, Any]:
        await store.create_run(_run(id))
        return {"run_id": id, "event": _event(id, AuditKind.SUSPENDED, run_id=id), "reason": "why"}

    async def _terminate(self, id: str, store: Store) -> dict[str, Any]:
        await store.create_run(_run(id))
        return {"run_id": id, "event": _event(id, AuditKind.TERMINATED, run_id=id), "reason": "why"}

    async def _append(self, id: str, store: Store) -> dict[str, Any]:
        return {"write": (await self._write(id, store))[0]}

    async def _pause(self, id: str, store: Store) -> dict[str, Any]:
        write, wakes = await self._write(id, store)
        return {"write": write, "wakes": wakes, "wake_at": 9e9}

    async def _complete(self, id: str, store: Store) -> dict[str, Any]:
        write, _ = await self._write(id, store)
        failed = Outcome(RunState.FAILED, error=ERROR, retryable=self._random.random() < 0.5)
        outcome = self._random.choice([failed, Outcome(RunState.SUCCEEDED, result='{"a":1}')])
        return {"write": write, "outcome": outcome}

    async def _create_promise(self, id: str, store: Store) -> dict[str, Any]:
        return {"new": self._promise(id)}

    async def _settle(self, id: str, store: Store) -> dict[str, Any]:
        new, _ = await store.create_promise(self._promise(id))
        return {"promise_id": id, "kind": new.kind, "settlement": _settlement(id)}

    async def _amend(self, id: str, store: Store) -> dict[str, Any]:
        new = replace(self._promise(id), kind=PromiseKind.QUESTION, data=self._random.choice(QUESTIONS))
        question, _ = await store.create_promise(new)
        vote = {"user_id": "ana", "approved": True, "note": None, "at": 1.0}
        progress = {"votes": [vote], "claimed_by": "user:ana", "escalated": 1, "reminders": 1}
        amendment = Amendment(
            question.version,
            json.dumps(progress),
            ("user:ana",),
            1.5e9,
            events=(_event(id, AuditKind.DELEGATED, question_id=id),),
            due_at=9e9,
        )
        if self._random.random() < 0.4:
            rule = NewRule(
                f"{id}-rule", "ana", "send", '{"/to":"bob"}', 9e9, id, max_uses=3, groups=("desk",)
            )
            settled = replace(amendment, settlement=_settlement(id), rule=rule)
            amendment = replace(settled, act_at=None, due_at=None)
        return {"question_id": id, "amendment": amendment}

    async def _record(self, id: str, store: Store) -> dict[str, Any]:
        await store.create_promise(self._promise(id))
        kinds = (AuditKind.COMMENTED, AuditKind.VIEWED, AuditKind.ESCALATED, AuditKind.REMINDED)
        kind = self._random.choice((*kinds, AuditKind.REFUSED, AuditKind.DELEGATED))
        return {"events": [_event(id, kind, question_id=id)]}

    async def _put_schedule(self, id: str, store: Store) -> dict[str, Any]:
        return {"new": replace(_schedule(id), concurrency_key="k", concurrency_limit=1)}

    async def _resume_schedule(self, id: str, store: Store) -> dict[str, Any]:
        await store.put_schedule(_schedule(id))
        await store.pause_schedule(id)
        return {"schedule_id": id, "next_at": 9e9}

    async def _fire_schedule(self, id: str, store: Store) -> dict[str, Any]:
        await store.put_schedule(_schedule(id))
        return {"schedule_id": id, "expected": 9e9, "runs": [_run(f"{id}:1")], "next_at": 9.1e9}

    async def _limit_group(self, id: str, store: Store) -> dict[str, Any]:
        return {"name": id, "max_running": 2, "starts_per": Rate(1, 60.0)}

    async def _enlist(self, id: str, store: Store) -> dict[str, Any]:
        return {"worker": WorkerInfo(id, "host", 17, 1.5, GROUP, store.namespace, "1.0", "3.12", "abc", 4)}

    async def _announce(self, id: str, store: Store) -> dict[str, Any]:
        schema = '{"type":"object","properties":{"a":{"type":"integer"}}}'
        return {"workflows": [WorkflowInfo(GROUP, id, "1", True, "It does.", schema)]}

    async def _publish(self, id: str, store: Store) -> dict[str, Any]:
        run = await self._held(id, store)
        return {"pieces": [LiveText(run.id, run.epoch, 0, 1, "say", 1, 0, "text", "hello")]}

    async def _heartbeat(self, id: str, store: Store) -> dict[str, Any]:
        run = await self._held(id, store)
        return {"worker_id": "w", "held": {run.id: run.epoch}}

    async def _claim(self, id: str, store: Store) -> dict[str, Any]:
        await store.create_run(replace(_run(id), group=f"{GROUP}-{id}"))
        claim = {"worker_id": "w", "group": f"{GROUP}-{id}", "workflows": [WORKFLOW]}
        return {**claim, "limit": 10, "token": f"{id}-t"}

    async def _expire_token(self, id: str, store: Store) -> dict[str, Any]:
        await store.create_token(NewToken(id, TokenKind.LINK, f"{self._count:064x}", "user:ana"))
        return {"token_id": id, "at": 9e9}

    async def _expand(self, id: str, store: Store) -> dict[str, Any]:
        new = NewDelivery(id, "user:ana", f"{id}-e", 0, AuditKind.ASKED, id)
        return {"channel": id, "expected": None, "seq": 0, "deliveries": [new]}

    async def _claim_deliveries(self, id: str, store: Store) -> dict[str, Any]:
        return {"channel": id, "limit": 10, "lease_seconds": 30.0}

    async def _finish_delivery(self, id: str, store: Store) -> dict[str, Any]:
        return {"delivery_id": id, "attempt": 1, "report": Report(DeliveryState.PENDING, 9e9, "error")}

    async def _load_run(self, id: str, store: Store) -> dict[str, Any]:
        run = Run(store.namespace, id, WORKFLOW, GROUP, ARGUMENTS, RunState.PAUSED, 1.0, epoch=1, wakes=1)
        asked = Promise(
            store.namespace, f"{id}.0", PromiseKind.QUESTION, PromiseState.PENDING, 1.0, id, 0,
            data=self._random.choice(QUESTIONS), assignees=("user:ana",),
        )  # fmt: skip
        opened = Entry(1, 1.0, EntryKind.OPENED, 0, CallKind.QUESTION, "Pay?")
        entries = (Entry(0, 1.0, EntryKind.STARTED, value=ARGUMENTS), opened)
        saved = Saved((SavedRun(run, entries, (asked,)),))
        return {"saved": saved, "event": _event(id, AuditKind.LOADED, run_id=id)}

    def _promise(self, id: str) -> NewPromise:
        choose = self._random.choice
        if self._random.random() < 0.15:
            return NewPromise(id, data='{"a":1}', due_at=9e9)
        assignees = choose([(), ("user:ana", "group:finance")])
        act_at = choose([None, 1.5e9])
        return NewPromise(
            id, PromiseKind.QUESTION, data=choose(QUESTIONS), due_at=9e9, assignees=assignees, act_at=act_at
        )

    async def _held(self, id: str, store: Store) -> Run:
        group = f"{GROUP}-{id}"
        await store.create_run(replace(_run(id), group=group, started_by="user:ana"))
        [claim] = await store.claim("w", group, [WORKFLOW], 10)
        return claim.run

    async def _write(self, id: str, store: Store) -> tuple[Write, int]:
        run = await self._held(id, store)
        choose = self._random.choice
        facts = '{"attempt":1,"state":"resolved","from":0,"n":1,"issued":2,"at":1.0,"by":"ana","id":"x"}'
        kind, call, error = choose(list(EntryKind)), choose(list(CallKind)), choose([None, ERROR])
        entries = [
            Entry(0, 1.0, EntryKind.STARTED, value=ARGUMENTS, details='{"inputs":{"a":1},"version":"1"}'),
            Entry(1, 1.0, EntryKind.OPENED, 0, CallKind.QUESTION, "Pay?", details='{"url":"https://x/y"}'),
            Entry(2, 1.0, kind, 1, call, "fetch", value='{"a":1}', error=error, details=facts),
        ]
        asked = replace(self._promise(f"{id}.0"), run_id=id, n=0)
        child = replace(_run(f"{id}.5"), parent_id=id, parent_n=5, started_by="user:ana")
        more = {"closes": ["x"], "cancels": ["y"], "taken": [1], "unpublishes": [1]}
        return Write(run.id, run.epoch, entries, [asked], starts=[child], **more), run.wakes

    # Malformed ones

    def _change(self, arguments: dict[str, Any]) -> str:
        places = list(_places(arguments, ""))
        if not places:
            return "(nothing left)"
        written = [each for each in places if _is_json(each[1][each[2]])]
        path, holder, key = self._random.choice(
            written if written and self._random.random() < 0.6 else places
        )
        value = holder[key]
        if _is_json(value) and self._random.random() < 0.8:
            whole = json.loads(value)
            inner = list(_places(whole, "")) if isinstance(whole, dict | list) else []
            if inner and self._random.random() < 0.8:
                deep, within, name = self._random.choice(inner)
                if isinstance(within, dict) and self._random.random() < 0.2:
                    del within[name]
                else:
                    within[name] = self._value()
                holder[key] = json.dumps(whole).replace(f'"{HUGE}"', "1e999")
                return f"{path}:{deep}"
            holder[key] = self._random.choice((*TEXTS, *(json.dumps(each) for each in (*SCALARS, *NESTED))))
            return path
        if isinstance(holder, dict) and self._random.random() < 0.1:
            del holder[key]
            return f"{path} (left out)"
        kin = [each for each in SCALARS if type(each) is type(value)]
        if isinstance(value, int | float):
            kin = [each for each in SCALARS if isinstance(each, int | float)]
        holder[key] = self._random.choice(kin) if kin and self._random.random() < 0.7 else self._value()
        return path

    def _value(self) -> Any:
        return json.loads(json.dumps(self._random.choice((*SCALARS, *NESTED))))


def _is_json(value: Any) -> bool:
    return isinstance(value, str) and value[:1] in ("{", "[")


def _run(id: str) -> NewRun:
    return NewRun(id, WORKFLOW, GROUP, ARGUMENTS)


def _schedule(id: str) -> NewSchedule:
    return NewSchedule(id, WORKFLOW, GROUP, ARGUMENTS, "0 3 * * *", "Europe/Berlin", next_at=9e9)


def _event(id: str, kind: AuditKind, *, question_id: str = "", run_id: str | None = None) -> NewAuditEvent:
    told = '{"text":"hi","to":["user:ana"],"from":["user:bob"],"reason":"x"}'
    return NewAuditEvent(f"{id}-e", kind, question_id, run_id, "user:ana", told)


def _settlement(id: str) -> Settlement:
    return Settlement(PromiseState.RESOLVED, '{"approved":true}', "user:ana", "note", f"{id}-q")


def _places(value: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield all places in JSON data: a path, and what holds the place under which key."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    for key in keys:
        here = f"{path}.{key}" if path else str(key)
        yield here, value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key], here)
