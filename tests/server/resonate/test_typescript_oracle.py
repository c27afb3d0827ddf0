"""Rule: random requests, and the passing of time, do what they do to the TypeScript SDK's own local server.

It knows callbacks, halted tasks, versions, leases and schedules. The Python SDK's server (``test_oracle.py``) does not.
``docs/resonate.md`` lists the differences. SIGNOFF_RESONATE_OPERATIONS sets how many requests are sent,
SIGNOFF_RESONATE_SEED repeats a failed run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from signoff.server.resonate.schedules import ScheduledPromises
from signoff.stores.shared.outages import Outages
from signoff.testing import VirtualClock
from tests.resonate_sdks import node_program
from tests.server.resonate.speaker import (
    START,
    Speaker,
    await_action,
    create_action,
    envelope,
    open_store,
    speaking_on,
)
from tests.support import OnThread

OPERATIONS = int(os.environ.get("SIGNOFF_RESONATE_OPERATIONS", "1500"))
SEED = int(os.environ.get("SIGNOFF_RESONATE_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
ORACLE = Path(__file__).with_name("oracle.mjs")
VALUES = ("", "MQ==", "WzEsMl0=", "bm8ganNvbg==", "eyJhIjogMX0=")
SETTLED = ("resolved", "rejected", "rejected_canceled")
LATER = 10**9
TTLS = (1549, 4049, LATER)
"""Leases in milliseconds. Time passes in steps that rarely end exactly with one."""
PER_WORLD = 50
"""Requests with the same ids. Then others begin, so that there are always some that are new."""

KINDS = (
    *("promise.create",) * 4,
    "promise.settle",
    "promise.get",
    "promise.register_callback",
    "promise.register_listener",
    *("task.create",) * 2,
    *("task.acquire",) * 3,
    "task.get",
    "task.release",
    "task.fulfill",
    *("task.fence",) * 3,
    *("task.suspend",) * 3,
    "task.halt",
    "task.continue",
    "task.heartbeat",
    "schedule.create",
    "schedule.get",
    "schedule.delete",
    *("time",) * 8,
)


@dataclass
class Pair:
    """Both servers, on one clock that the test moves.

    Attributes:
        do: Runs something on the event loop of ours.
        versions: The last known version of each task.
        without_target: When promises without a target time out.
    """

    speaker: Speaker
    do: Callable[[Coroutine[Any, Any, Any]], Any]
    oracle: subprocess.Popen[str]
    rng: random.Random
    now: int = START
    world: int = 0
    versions: dict[str, int] = field(default_factory=dict[str, int])
    without_target: dict[str, int] = field(default_factory=dict[str, int])
    counts: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    @property
    def ids(self) -> list[str]:
        return [f"w{self.world}-{letter}" for letter in "abcdefgh"]

    def tell(self, kind: str, data: Any) -> Any:
        """Send a request to the oracle."""
        assert self.oracle.stdin is not None
        assert self.oracle.stdout is not None
        request = envelope(kind, data)
        self.oracle.stdin.write(json.dumps({"now": self.now, "request": request}) + "\n")
        self.oracle.stdin.flush()
        return json.loads(self.oracle.stdout.readline())

    def pass_time(self) -> None:
        """Move on, and let both do what is due: time-outs, expired leases, schedules."""
        self.now += self.rng.choice((1, 50, 1000, 5000))
        self.speaker.clock.set(self.now / 1000)
        self.tell("debug.tick", {"time": self.now})
        for id, timeout in [*self.without_target.items()]:  # its ticks leave them alone
            if timeout <= self.now:
                self.tell("promise.get", {"id": id})
                del self.without_target[id]
        self.do(self.work())

    def is_settled(self, id: str) -> bool:
        data = self.tell("promise.get", {"id": id})["data"]
        return isinstance(data, dict) and data["promise"]["state"] != "pending"

    async def work(self) -> None:
        store = self.speaker.app.store
        await store.due()
        await ScheduledPromises(store).create_due()

    def compare(self, kind: str, data: Any) -> Any:
        """Send a request to both, and compare the replies."""
        response = self.speaker.send(kind, data)
        mine, theirs = response.json(), self.tell(kind, data)
        said = f"seed {SEED}, {kind} {data}: ours {mine}, theirs {theirs}"
        status = mine["head"]["status"]
        assert (response.status_code, status) == (status, theirs["head"]["status"]), said
        self.counts[kind, status] += 1
        if status < 400:
            found = shown(kind, mine["data"])
            assert found == shown(kind, theirs["data"]), said
            promise = found.get("inner", found.get("promise"))
            if promise is not None and promise["state"] == "pending" and not has_target(promise["id"]):
                self.without_target[promise["id"]] = promise["timeoutAt"]
            if (task := mine["data"].get("task")) is not None:
                self.versions[task["id"]] = task["version"]
        return mine["data"]


def shown(kind: str, data: Any) -> Any:
    """Return what must be equal in both replies."""
    found: dict[str, Any] = {}
    if (task := data.get("task")) is not None:
        found["task"] = counted(task)
    if (promise := data.get("promise")) is not None:
        found["promise"] = record(promise)
    if (schedule := data.get("schedule")) is not None:
        found["schedule"] = schedule
    if (action := data.get("action")) is not None:
        found["action"] = action["head"]["status"]
        if action["head"]["status"] < 400:
            found["inner"] = record(action["data"]["promise"])
    is_late = kind == "task.create" and data["task"]["state"] == "fulfilled"  # the oracle may preload nothing
    if "preload" in data and not is_late:
        found["preload"] = sorted((record(each) for each in data["preload"]), key=lambda each: each["id"])
    return found


def counted(task: Any) -> Any:
    """Return a task with the number of promises that resumed it: the oracle names them."""
    resumes = task["resumes"]
    return {**task, "resumes": len(resumes) if isinstance(resumes, list) else resumes}


def record(promise: Any) -> Any:
    """Return a promise without the parts of values that are empty."""
    values = {name: {k: v for k, v in (promise.get(name) or {}).items() if v} for name in ("param", "value")}
    return {**promise, **values}


def step(pair: Pair) -> None:
    """Send one random request, or let time pass."""
    rng, ids = pair.rng, pair.ids
    kind = rng.choice(KINDS)
    chosen = rng.sample(ids, 3)
    if kind == "time":
        pair.pass_time()
    elif kind == "promise.register_callback":
        awaiter, awaited, _ = chosen
        if not pair.is_settled(
            awaited
        ):  # the oracle then does not resume the awaiter, as the Rust server does
            pair.compare(kind, {"awaited": awaited, "awaiter": awaiter})
    elif kind.startswith("promise"):
        pair.compare(kind, promise_data(pair, kind, chosen[0]))
    elif kind.startswith("schedule"):
        pair.compare(kind, schedule_data(pair, kind, f"s-{rng.choice(ids[:2])}"))
    else:
        if rng.random() < 0.8:
            chosen = [rng.choice([ids[0], ids[2]]), *rng.sample([ids[1], *ids[3:]], 2)]  # one that has a task
        if kind != "task.create" or has_target(chosen[0]):
            pair.compare(kind, task_data(pair, kind, *chosen))


def begin(pair: Pair) -> None:
    """Begin a world: two tasks that are held, and some promises. Schedules of the last one end, lest they add up."""
    for id in pair.ids[:2]:
        pair.compare("schedule.delete", {"id": f"s-{id}"})
    pair.world += 1
    for number, id in enumerate(pair.ids[:6]):
        kind = "task.create" if number in (0, 2) else "promise.create"
        pair.compare(
            kind, task_data(pair, kind, id, "", "") if number in (0, 2) else {"id": id, **new(pair, id)}
        )


def promise_data(pair: Pair, kind: str, id: str) -> dict[str, Any]:
    match kind:
        case "promise.create":
            return {"id": id, **new(pair, id)}
        case "promise.settle":
            return {"id": id, **settlement(pair)}
        case "promise.register_listener":
            return {"awaited": id, "address": "poll://uni@g/p"}
        case _:
            return {"id": id}


def task_data(pair: Pair, kind: str, id: str, other: str, third: str) -> dict[str, Any]:
    rng = pair.rng
    version = pair.versions.get(id, 0)
    if rng.random() < 0.1:
        version += rng.choice((-1, 1)) if version else 1
    ref = {"id": id, "version": version}
    lease = {"pid": rng.choice("pq"), "ttl": rng.choice(TTLS)}
    match kind:
        case "task.create":
            terms = new(pair, id)
            terms["tags"].pop("resonate:delay", None)
            return {**lease, "action": create_action(id, **terms)}
        case "task.acquire":
            return {**ref, **lease}
        case "task.fulfill":
            action = {"kind": "promise.settle", "head": {}, "data": {"id": id, **settlement(pair)}}
            return {**ref, "action": action}
        case "task.fence":
            if rng.random() < 0.5:
                return {**ref, "action": create_action(other, **new(pair, other))}
            action = {"kind": "promise.settle", "head": {}, "data": {"id": other, **settlement(pair)}}
            return {**ref, "action": action}
        case "task.suspend":
            awaited = rng.choice(([other], [other, third]))
            return {**ref, "actions": [await_action(each, id) for each in awaited]}
        case "task.heartbeat":
            return {"pid": lease["pid"], "tasks": [ref]}
        case "task.release":
            return ref
        case _:
            return {"id": id}


def schedule_data(pair: Pair, kind: str, id: str) -> dict[str, Any]:
    if kind != "schedule.create":
        return {"id": id}
    return {
        "id": id,
        "cron": pair.rng.choice(("* * * * *", "*/2 * * * *", "0 3 * * 1")),
        "promiseId": "{{.id}}-{{.timestamp}}",
        "promiseTimeout": 5000,
        "promiseParam": {"data": pair.rng.choice(VALUES)},
        "promiseTags": {"resonate:target": "poll://any@workers"},
    }


def settlement(pair: Pair) -> dict[str, Any]:
    return {"state": pair.rng.choice(SETTLED), "value": {"data": pair.rng.choice(VALUES)}}


def has_target(id: str) -> bool:
    return id[-1] in "aceg"


def new(pair: Pair, id: str) -> dict[str, Any]:
    """Return the terms of a new promise. A promise with some id always has a target, or never."""
    rng = pair.rng
    timeout_at = pair.now + rng.choice((-10, 3000, 9000, 9000, *(LATER,) * 8))
    tags = {"resonate:scope": "global"}
    if has_target(id):
        tags["resonate:target"] = "poll://any@workers"
        if rng.random() < 0.2 and timeout_at > pair.now:
            tags["resonate:delay"] = str(pair.now + 2000)
    if rng.random() < 0.5:
        tags["resonate:branch"] = pair.ids[0]
    if rng.random() < 0.3:
        tags["resonate:timer"] = "true"
    return {"timeoutAt": timeout_at, "param": {"data": rng.choice(VALUES)}, "tags": tags}


@asynccontextmanager
async def opened(url: str, clock: VirtualClock) -> AsyncIterator[tuple[Speaker, asyncio.AbstractEventLoop]]:
    async with speaking_on(open_store(url, clock=clock, lease_clock=clock), clock) as speaker:
        yield speaker, asyncio.get_running_loop()


def test_random_requests_and_time_do_what_they_do_to_the_sdks_own_server(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {SEED}: {OPERATIONS} requests")
    monkeypatch.setattr(
        Outages, "held_for", lambda *_: 0.0
    )  # leases end on time, however slow the machine is
    clock = VirtualClock(START / 1000)
    command = node_program(ORACLE)
    pipe = subprocess.PIPE
    environment = {**os.environ, "TZ": "UTC"}
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as oracle,
        OnThread(lambda: opened(store, clock)) as (speaker, loop),
        speaker,
    ):
        try:

            def do(work: Coroutine[Any, Any, Any]) -> Any:
                return asyncio.run_coroutine_threadsafe(work, loop).result(60)

            pair = Pair(speaker, do, oracle, random.Random(SEED))
            for number in range(OPERATIONS):
                if number % PER_WORLD == 0:
                    begin(pair)
                step(pair)
            print(sorted(pair.counts.items()))
            check_searches(pair)
        finally:
            oracle.kill()


def check_searches(pair: Pair) -> None:
    """Compare everything that both have, as searches of ours find it."""
    snap = pair.tell("debug.snap", {})["data"]
    for noun, show in (("promise", record), ("task", counted)):
        mine, theirs = searched(pair, noun), snap[f"{noun}s"]
        assert by_id(map(show, mine)) == by_id(map(show, theirs)), f"seed {SEED}"


def by_id(records: Iterable[Any]) -> dict[str, Any]:
    """Return records by id, but for those of schedules: the oracle gives them other tags."""
    return {each["id"]: each for each in records if not each["id"].startswith("s-")}


def searched(pair: Pair, noun: str) -> Iterator[Any]:
    cursor = None
    while True:
        page = pair.speaker.ask(f"{noun}.search", {"limit": 100, **({"cursor": cursor} if cursor else {})})
        yield from page[f"{noun}s"]
        if (cursor := page.get("cursor")) is None:
            return
