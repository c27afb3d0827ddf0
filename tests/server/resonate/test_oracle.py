"""Rule: random requests get the statuses and the records that the Python SDK's own local server gives.

``docs/resonate.md`` lists the differences, which ``Pair`` takes out. SIGNOFF_RESONATE_OPERATIONS sets how many requests
are sent, SIGNOFF_RESONATE_SEED repeats a failed run.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from signoff.codec.ciphers import Ciphers, EncryptionKey
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.encrypted import encrypted
from signoff.testing import VirtualClock
from tests.resonate_sdks import python_of_2026
from tests.server.resonate.speaker import (
    START,
    TARGET,
    Speaker,
    await_action,
    create_action,
    envelope,
    open_store,
    settle_action,
    speaking_on,
)
from tests.support import OnThread

OPERATIONS = int(os.environ.get("SIGNOFF_RESONATE_OPERATIONS", "3000"))
SEED = int(os.environ.get("SIGNOFF_RESONATE_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
ORACLE = Path(__file__).with_name("oracle.py")
VALUES = ("", "MQ==", "WzEsMl0=", "bm8ganNvbg==", "eyJiIjogMSwiYSI6MX0=")
SETTLED = ("resolved", "rejected", "rejected_canceled")
LATER = START + 10**12
PER_WORLD = 60
"""Requests with the same ids. Then others begin, so that there are always some that are new."""


class Pair:
    """The two servers.

    The oracle raises a task's version when it is sent again, ours when it is acquired. So a request names each server's
    own version to it, or a wrong one to both.
    """

    def __init__(self, speaker: Speaker, oracle: subprocess.Popen[str], rng: random.Random) -> None:
        self.speaker, self.oracle, self.rng = speaker, oracle, rng
        self.now = START
        self.world = 0
        self.counts: Counter[tuple[str, int]] = Counter()
        self.versions: dict[str, int] = {}

    def ids(self) -> list[str]:
        return [f"w{self.world}-{letter}" for letter in "abcdefgh"]

    def tell(self, request: Any, task: str | None) -> Any:
        assert self.oracle.stdin is not None
        assert self.oracle.stdout is not None
        self.oracle.stdin.write(json.dumps({"now": self.now, "request": request, "task": task}) + "\n")
        self.oracle.stdin.flush()
        return json.loads(self.oracle.stdout.readline())

    def pass_time(self) -> None:
        """Move on, by less than a lease: when one ends, the oracle learns of it at its next look only."""
        self.now += self.rng.choice((1, 50, 1000))
        self.speaker.clock.set(self.now / 1000)

    def compare(self, kind: str, data: Any, task: str | None = None) -> None:
        """Send a request to both, and compare the replies. ``task`` is the task whose version it names."""
        asked = dict(data)
        if task is not None:
            asked["version"] = self.versions.get(task, 0)
        if kind == "task.fence" and self.rng.random() < 0.1:  # the oracle checks the version of no other kind
            asked["version"], task = 99, None
        response = self.speaker.send(kind, asked)
        mine, theirs = response.json(), self.tell(envelope(kind, asked), task)
        said = f"seed {SEED}, {kind} {asked}: ours {mine}, theirs {theirs}"
        assert response.status_code == mine["head"]["status"], said
        assert status_of(mine) == status_of(theirs), said
        self.counts[kind, status_of(mine)] += 1
        if status_of(mine) < 400:
            assert shown(mine, self.now) == shown(theirs, self.now), said
            if (known := mine["data"].get("task")) is not None:
                self.versions[known["id"]] = known["version"]


def status_of(reply: Any) -> int:
    """Return the status of a reply. The oracle says 201 for what is new."""
    return {201: 200}.get(reply["head"]["status"], reply["head"]["status"])


def shown(reply: Any, now: int) -> Any:
    """Return what must be equal in both replies."""
    data = reply["data"]
    if not isinstance(data, dict):
        return None
    found: dict[str, Any] = {}
    if (task := data.get("task")) is not None:
        found["task"] = {name: task.get(name) for name in ("id", "state", "pid", "ttl")}
        if task["state"] == "fulfilled":
            found["task"] |= {"pid": None, "ttl": None}
    inner = data.get("action", {}).get("data")
    for holder in (data, inner if isinstance(inner, dict) else {}):  # a text says that there is no promise
        if (promise := holder.get("promise")) is not None:
            found["promise"] = record(promise)
    is_late = (data.get("task") or {}).get("state") == "fulfilled"  # the oracle then preloads nothing
    if reply["kind"] != "task.fence" and not is_late and "preload" in data:
        found["preload"] = sorted(
            (preloaded(each, now) for each in data["preload"]), key=lambda each: each["id"]
        )
    return found


def preloaded(promise: Any, now: int) -> Any:
    """Return a promise of a preload. Past its timeout it is pending until a request or a timer settles it."""
    is_late = promise["timeoutAt"] <= now and promise.get("settledAt") in (None, promise["timeoutAt"])
    return {"id": promise["id"]} if is_late else record(promise)


def record(promise: Any) -> Any:
    """Return a promise with its values as the oracle keeps them: as they were sent, or null."""
    values = {name: {k: v for k, v in (promise.get(name) or {}).items() if v} for name in ("param", "value")}
    return {**promise, **values}


def step(pair: Pair) -> None:
    """Send one random request."""
    rng, ids = pair.rng, pair.ids()
    id, other = rng.sample(ids if rng.random() < 0.5 else ids[:-1], 2)
    value = {"data": rng.choice(VALUES)}
    tags = {**TARGET} if ids.index(id) % 2 == 0 else {}
    tags |= {"resonate:branch": ids[0]} if rng.random() < 0.5 else {}
    tags |= {"resonate:timer": "true"} if rng.random() < 0.3 else {}
    timeout = LATER if ids[-1] in (id, other) else pair.now + rng.choice((-10, 5000, *(10**9,) * 6))
    new = {"timeoutAt": timeout, "param": value, "tags": tags}
    settlement = {"state": rng.choice(SETTLED), "value": value}
    kind = rng.choice(KINDS)
    if kind.startswith("promise"):
        send_of_promise(pair, kind, id, new, settlement)
    else:
        id = ids[0] if rng.random() < 0.6 else id  # one that often has a task
        send_of_task(pair, kind, (id, other), new, settlement)


def send_of_promise(pair: Pair, kind: str, id: str, new: Any, settlement: Any) -> None:
    match kind:
        case "promise.create":
            pair.compare(kind, {"id": id, **new})
        case "promise.settle":
            pair.compare(kind, {"id": id, **settlement})
        case "promise.register_listener":
            pair.compare(kind, {"awaited": id, "address": "poll://uni@g/p"})
        case _:
            pair.compare(kind, {"id": id})


def send_of_task(pair: Pair, kind: str, chosen: tuple[str, str], new: Any, settlement: Any) -> None:
    ids, (id, other) = pair.ids(), chosen
    lease = {"pid": pair.rng.choice("pq"), "ttl": 10**9}
    settle = settle_action(other, settlement["state"], **settlement["value"])
    match kind:
        case "task.create":
            if ids.index(id) % 2 == 0:  # the oracle says 409 if there is a promise without a task, ours 422
                action = create_action(id, **{**new, "tags": {**new["tags"], **TARGET}})
                pair.compare(kind, {**lease, "action": action})
        case "task.acquire":
            pair.compare(kind, {"id": id, **lease}, id)
        case "task.fulfill":
            action = settle_action(id, settlement["state"], **settlement["value"])
            pair.compare(kind, {"id": id, "action": action}, id)
        case "task.fence":
            if ids.index(other) % 2 == 1:
                new["tags"].pop("resonate:target", None)
                action = pair.rng.choice((create_action(other, **new), settle))
                pair.compare(kind, {"id": id, "action": action}, id)
        case "task.suspend":
            awaited = ids[-1]  # the oracle times out no promise without a target, unless it is asked for
            pair.compare("promise.create", {"id": awaited, "timeoutAt": LATER})
            if id != awaited:
                pair.compare(kind, {"id": id, "actions": [await_action(awaited, id)]}, id)
        case "task.heartbeat":
            pair.compare(kind, {"pid": lease["pid"], "tasks": [{"id": id, "version": 1}]})
        case _:
            pair.compare(kind, {"id": id}, id)


KINDS = (
    *("promise.create",) * 3,
    "promise.settle",
    "promise.get",
    "promise.register_listener",
    "task.create",
    *("task.acquire",) * 3,
    "task.release",
    "task.fulfill",
    *("task.fence",) * 3,
    *("task.suspend",) * 3,
    "task.heartbeat",
)


def await_what_is_settled(pair: Pair) -> None:
    """Suspend a task that awaits a settled promise: few random requests do."""
    ids = pair.ids()
    action = create_action(ids[0], timeoutAt=LATER, tags=TARGET)
    pair.compare("task.create", {"pid": "p", "ttl": 10**9, "action": action})
    pair.compare("promise.create", {"id": ids[-1], "timeoutAt": LATER})
    pair.compare("promise.settle", {"id": ids[-1], "state": "resolved", "value": {}})
    pair.compare("task.suspend", {"id": ids[0], "actions": [await_action(ids[-1], ids[0])]}, ids[0])


def test_random_requests_get_what_the_sdks_own_server_gives(store: str) -> None:
    clock = VirtualClock(START / 1000)
    send_random_requests(
        open_store(store, clock=clock), clock, OPERATIONS if store.startswith("sqlite") else OPERATIONS // 3
    )


def test_random_requests_on_an_encrypted_store_get_the_same_replies(store: str) -> None:
    clock = VirtualClock(START / 1000)
    ciphers = Ciphers([EncryptionKey("k", b"k" * 32)])
    send_random_requests(encrypted(open_store(store, clock=clock), ciphers), clock, OPERATIONS // 5)


def send_random_requests(store: Store, clock: VirtualClock, count: int) -> None:
    """Send random requests to a server on a store and to the oracle, and compare the replies."""
    print(f"seed {SEED}: {count} requests")
    command = [str(python_of_2026()), str(ORACLE)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as oracle,
        OnThread(lambda: speaking_on(store, clock)) as speaker,
        speaker,
    ):
        try:
            pair = Pair(speaker, oracle, random.Random(SEED))
            for number in range(count):
                pair.world = number // PER_WORLD
                pair.pass_time()
                step(pair)
            pair.world += 1
            await_what_is_settled(pair)
            assert {status for _, status in pair.counts} == {200, 300, 404, 409}, pair.counts
        finally:
            oracle.kill()
