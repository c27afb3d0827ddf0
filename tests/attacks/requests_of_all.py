"""Every kind of request that a server accepts, on a store of ``large_rows``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from signoff.stores.contract.operations import OPERATIONS
from signoff.stores.contract.wire import PATH
from tests.attacks.large_rows import (
    BRANCH,
    ENDED_RUN,
    GROUP,
    LISTS,
    LONG_RUN,
    MIB,
    OPEN_QUESTION,
    PROMISE,
    QUESTION,
    RULE,
    SCHEDULE,
    SESSION,
    THREAD,
    WORKFLOW,
)

Request = tuple[str, str, str, dict[str, Any]]
"""Its name, method, path and what else it is sent with."""

IDS = {
    "run_id": (LONG_RUN, ENDED_RUN),
    "promise_id": (PROMISE,),
    "question_id": (QUESTION,),
    "schedule_id": (SCHEDULE,),
    "session_id": (SESSION,),
    "rule_id": (RULE,),
    "link_id": ("link-0",),
    "delivery_id": ("delivery-0",),
    "key_id": ("none",),
    "name": (GROUP,),
    "channel": ("none",),
    "asset": ("swagger-ui-bundle.js",),
}


def get_requests(description: dict[str, Any]) -> Iterator[Request]:
    """All that is read, with as much of it as can be asked for."""
    for path, methods in description["paths"].items():
        if "get" not in methods:
            continue
        query = [each["name"] for each in methods["get"].get("parameters", ()) if each["in"] == "query"]
        asked = {"limit": "1000"} if "limit" in query else {}
        for filled in _filled(path):
            yield f"GET {filled}", "GET", filled, {"params": asked}
            if "live" in query:
                yield f"GET {filled}?live", "GET", filled, {"params": {"live": "true"}}
            if "last_event_id" in json.dumps(methods["get"]) or "last-event-id" in json.dumps(methods["get"]):
                yield f"GET {filled} resumed", "GET", filled, {"headers": {"last-event-id": "0"}}


def _filled(path: str) -> list[str]:
    for name, ids in IDS.items():
        if f"{{{name}}}" in path:
            return [filled for id in ids for filled in _filled(path.replace(f"{{{name}}}", id))]
    assert "{" not in path, f"{path} has a part that is not in IDS"
    return [path]


def posts(description: dict[str, Any]) -> Iterator[Request]:
    """All that is sent, with a body that takes as much memory as can be."""
    for path, methods in description["paths"].items():
        if "post" not in methods:
            continue
        for filled in _filled(path):
            for name, body in BODIES.items():
                headers = {"content-type": "application/json"}
                yield f"POST {filled} {name}", "POST", filled, {"content": body, "headers": headers}
    headers = {"content-type": "application/json"}
    for name, value in VALUES.items():
        for path, body in (
            ("/v1/runs", b'{"workflow":"w","args":[%b]}'),
            (f"/v1/runs/{LONG_RUN}/signals", b'{"name":"n","value":%b}'),
            ("/v1/promises", b'{"id":"p-%b","data":%%b}' % name.encode()),
            ("/v1/questions", b'{"id":"q-%b","text":"?","metadata":{"x":%%b}}' % name.encode()),
            ("/v1/schedules", b'{"id":"s","workflow":"w","cron":"0 0 1 1 *","args":[%b]}'),
            (f"/v1/questions/{OPEN_QUESTION}/answer", b'{"user_id":"ana","value":%b}'),
            ("/v1/snapshots", b'{"snapshot":{"x":%b}}'),
        ):
            yield f"POST {path} whole {name}", "POST", path, {"content": body % value, "headers": headers}
    yield f"POST /v1/runs/{LONG_RUN}/save", "POST", f"/v1/runs/{LONG_RUN}/save", {}


VALUES = {
    "lists": LISTS.encode(),
    "objects": b"[" + b",".join([b'{"":1}'] * 149_000) + b"]",
    "nested": b"[" + b",".join([b'{"":{"":{}}}'] * 80_000) + b"]",
    "floats": b"[" + b",".join([b"0.1"] * 260_000) + b"]",
    "integers": b"[" + b",".join([b"300"] * 260_000) + b"]",
    "keys": b"{" + b",".join(b'"%d":0' % n for n in range(100_000)) + b"}",
    "texts": b"[" + b",".join([b'"ab"'] * 209_000) + b"]",
}

_ROOM = 1024 * 1024
BODIES = {
    "lists": b'{"x":[' + b",".join([b"[]"] * (_ROOM // 3)) + b"]}",
    "objects": b'{"x":[' + b",".join([b'{"":1}'] * (_ROOM // 7)) + b"]}",
    "deep": b"[" * _ROOM,
}


def operation(do: str, **arguments: Any) -> dict[str, Any]:
    return {"namespace": "default", "do": do, "arguments": arguments}


def batch(operations: list[dict[str, Any]], client: str = "c") -> bytes:
    numbered = [{"id": number, **each} for number, each in enumerate(operations)]
    return json.dumps({"client": client, "floor": 0, "operations": numbered}).encode()


_PAGE = {"limit": 1_000}
_ANY_RUN = {"states": None}
READS: dict[str, list[dict[str, Any]]] = {
    "get_run": [operation("get_run", run_id=ENDED_RUN)],
    "ended": [operation("ended", run_ids=[f"ended-{n}" for n in range(100)])],
    "list_runs": [operation("list_runs", which={}, **_PAGE), operation("list_runs", which={})],
    "read_journal": [
        operation("read_journal", run_id=LONG_RUN),
        operation("read_journal", run_id=LONG_RUN, limit=1_000),
    ],
    "read_messages": [operation("read_messages", run_ids=[LONG_RUN])],
    "get_promise": [operation("get_promise", promise_id=PROMISE)],
    "list_promises": [operation("list_promises", which={}, **_PAGE)],
    "due_questions": [operation("due_questions", limit=1_000)],
    "get_session": [operation("get_session", session_id=SESSION)],
    "list_sessions": [operation("list_sessions", **_PAGE)],
    "get_rule": [operation("get_rule", rule_id=RULE)],
    "list_rules": [operation("list_rules", which={}, **_PAGE)],
    "list_audit": [operation("list_audit", which={}, **_PAGE)],
    "read_chain": [operation("read_chain", **_PAGE)],
    "last_seal": [operation("last_seal")],
    "unsealed": [operation("unsealed", limit=1_000)],
    "find_token": [operation("find_token", hash="0" * 64)],
    "heads": [operation("heads", limit=1_000)],
    "queued_namespaces": [operation("queued_namespaces", queue="push", limit=1_000)],
    "has_token": [operation("has_token", kinds=["link"])],
    "get_token": [operation("get_token", token_id="link-0")],
    "list_tokens": [operation("list_tokens", which={"kind": "link"}, **_PAGE)],
    "read_cursor": [operation("read_cursor", channel="mail")],
    "list_deliveries": [operation("list_deliveries", which={}, **_PAGE)],
    "list_groups": [operation("list_groups")],
    "get_schedule": [operation("get_schedule", schedule_id=SCHEDULE)],
    "list_schedules": [operation("list_schedules", **_PAGE)],
    "due_schedules": [operation("due_schedules", limit=1_000)],
    "get_task": [operation("get_task", task_id=BRANCH)],
    "list_tasks": [operation("list_tasks", **_PAGE)],
    "list_branch": [operation("list_branch", branch=BRANCH, **_PAGE)],
    "list_invocations": [operation("list_invocations", which={"nested": True}, **_PAGE)],
    "list_calls": [operation("list_calls", promise_id=BRANCH, **_PAGE)],
    "get_promise_schedule": [operation("get_promise_schedule", schedule_id=SCHEDULE)],
    "list_promise_schedules": [operation("list_promise_schedules", **_PAGE)],
    "due_promise_schedules": [operation("due_promise_schedules", limit=1_000)],
    "get_checkpoint": [operation("get_checkpoint", thread_id=THREAD, path="")],
    "list_checkpoints": [operation("list_checkpoints", which={}, **_PAGE)],
    "list_workers": [operation("list_workers")],
    "list_workflows": [operation("list_workflows", which={}, **_PAGE)],
    "read_live": [operation("read_live", run_id=LONG_RUN)],
    "save_run": [operation("save_run", run_id=LONG_RUN)],
}


def store_operations() -> Iterator[Request]:
    """Each operation that reads, alone; and those that a client would repeat in one batch, often."""
    assert READS.keys() == {name for name, each in OPERATIONS.items() if each.is_read}
    for name, operations in READS.items():
        for number, each in enumerate(operations):
            yield f"store {name} {number}", "POST", PATH, _sent(batch([each]))
        yield f"store {name} x30", "POST", PATH, _sent(batch(operations[:1] * 30))
    yield "store claim", "POST", PATH, _sent(batch([_claim()]))
    yield "store claims", "POST", PATH, _sent(batch([_claim()] * 20))
    cancels = [operation("cancel", run_id=f"ended-{number % 100}") for number in range(100)]
    yield "store cancel x100", "POST", PATH, _sent(batch(cancels))
    yield "store settle x100", "POST", PATH, _sent(batch([_settle()] * 100))
    for number in range(12):
        repeats = [operation("cancel", run_id=ENDED_RUN)] * 100
        yield f"store kept replies {number}", "POST", PATH, _sent(batch(repeats, f"client-{number}"))
    for name, body in STORE_BODIES.items():
        yield f"store body {name}", "POST", PATH, _sent(body)


def _claim() -> dict[str, Any]:
    return operation("claim", worker_id="w", group=GROUP, workflows=[WORKFLOW], limit=100)


def _settle() -> dict[str, Any]:
    settlement = {"state": "resolved", "value": "1", "request_id": None}
    return operation("settle", promise_id="promise-1", kind="promise", settlement=settlement)


_HEAD = b'{"client":"c","floor":0,"operations":[{"id":1,"namespace":"default","do":'
_LONGEST = 19 * 1024 * 1024
STORE_BODIES = {
    "lists": _HEAD + b'"get_run","arguments":{"run_id":[' + b",".join([b"[]"] * (_LONGEST // 3)) + b"]}}]}",
    "operations": b'{"client":"c","floor":0,"operations":['
    + b",".join(
        [b'{"id":%d,"namespace":"","do":"get_run","arguments":{}}' % n for n in range(_LONGEST // 80)]
    )
    + b"]}",
    "text": _HEAD + b'"get_run","arguments":{"run_id":"' + b"x" * _LONGEST + b"\xf0\x9f\x92\xa9" + b'"}}]}',
    "ids": _HEAD + b'"ended","arguments":{"run_ids":[' + b",".join([b'"a"'] * (_LONGEST // 4)) + b"]}}]}",
}


def _written(value: str, run_id: str, epoch: int) -> bytes:
    """A batch that appends one value to a journal."""
    return _appended([{**entry_of(1), "value": value}], run_id, epoch)


def _paused(value: str, run_id: str, epoch: int) -> bytes:
    """A batch that appends one value and pauses the run, as a flow does with its state."""
    write = {"run_id": run_id, "epoch": epoch, "entries": [{**entry_of(1), "value": value}]}
    return _one("pause", write=write, wakes=0, wake_at=None)


def _completed(result: str, run_id: str, epoch: int) -> bytes:
    """A batch that ends a run with a result."""
    write = {"run_id": run_id, "epoch": epoch, "entries": [entry_of(1)]}
    return _one("complete", write=write, outcome={"state": "succeeded", "result": result})


def _appended(entries: list[dict[str, Any]], run_id: str, epoch: int) -> bytes:
    return _one("append", write={"run_id": run_id, "epoch": epoch, "entries": entries})


def _one(do: str, **arguments: Any) -> bytes:
    asked = {"id": 1, **operation(do, **arguments)}
    return json.dumps({"client": "c", "floor": 0, "operations": [asked]}, ensure_ascii=False).encode()


def entry_of(seq: int) -> dict[str, Any]:
    return {"seq": seq, "at": 1.5, "kind": "completed", "n": seq, "call": "step", "value": "1"}


def _list(unit: str, mebibytes: float) -> str:
    return f"[{f'{unit},' * int(mebibytes * MIB / (len(unit) + 1))}1]"


_OWN = b'{"client":"c","floor":0,"operations":[{"id":1,"namespace":"default","do":"get_run","arguments":{"run_id":'

LONG_BATCHES: dict[str, Callable[[str, int], bytes]] = {
    "text": partial(_written, f'"{"x" * 15 * MIB}"'),
    "text with a euro": partial(_written, f'"{"x" * 10 * MIB}€"'),
    "text with an emoji": partial(_written, f'"{"x" * 7 * MIB}\N{PILE OF POO}"'),
    "text with an escaped emoji": partial(_written, f'"{"x" * 7 * MIB}\\ud83d\\udca9"'),
    "text with a pause": partial(_paused, f'"{"x" * 10 * MIB}€"'),
    "result": partial(_completed, f'"{"x" * 15 * MIB}"'),
    "texts": partial(_written, _list('"abcdefgh"', 5)),
    "long texts": partial(_written, _list(f'"{"x" * 100}"', 13)),
    "objects": partial(_written, _list('{"a":1}', 12)),
    "nested objects": partial(_written, _list('{"a":{"":0}}', 8)),
    "lists": partial(_written, _list("[]", 2)),
    "numbers": partial(_written, _list("0.25", 3)),
    "entries": partial(_appended, [entry_of(seq) for seq in range(1, 20_001)]),
    "large entries": partial(
        _appended, [{**entry_of(seq), "value": _list('{"":1}', 0.9)} for seq in range(1, 13)]
    ),
    "several": lambda run_id, epoch: batch(
        [operation("signal", run_id=run_id, name="n", value=_list('{"a":1}', 1.5)) for _ in range(2)]
    ),
    "objects of its own": lambda run_id, epoch: _OWN + b"[" + b'{"a":1},' * 370_000 + b"0]}}]}",
    "members of its own": lambda run_id, epoch: (
        _OWN + b"{" + b",".join(b'"%017d":0' % n for n in range(700_000)) + b"}}}]}"
    ),
}
"""Batches of the holder of a lease that take much memory for their length."""


def _sent(content: bytes) -> dict[str, Any]:
    return {"content": content, "headers": {"content-type": "application/json"}}
