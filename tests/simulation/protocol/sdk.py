"""A process that speaks the durable promise protocol, as the SDKs do: it polls, acquires tasks and runs programs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from signoff.records import PromiseState
from signoff.server.resonate.durable_promises import NEVER
from signoff.testing.simulation import Process
from signoff.testing.simulation.process import Main
from tests.simulation.protocol.network import Answer, Network
from tests.simulation.protocol.posts import posted_messages
from tests.simulation.protocol.programs import (
    FUNCTION,
    SIGNOFF,
    SLEEP,
    STEP,
    WAIT,
    Ask,
    Call,
    Local,
    Program,
    Remote,
    Several,
    Sleep,
    Wait,
    Workflow,
)

PENDING = "pending"
STATES = {"rejected": "rejected", "rejected_canceled": "cancelled", "rejected_timedout": "timed out"}

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """How a process works.

    Attributes:
        group: The group that it polls; or the URL that its messages are posted to.
        pid: Its id; None: another one for each process.
        ttl: Milliseconds of its leases.
        calls: Ids and programs of the invocations that it creates and runs itself.
        registered_at: Seconds from which on it has these programs. It has all others from the beginning.
    """

    group: str
    pid: str | None
    ttl: int
    calls: Sequence[tuple[str, str]] = ()
    registered_at: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def address(self) -> str:
        """The address of its group."""
        return address_of(self.group)


class Steps:
    """The steps that have begun in a world.

    Attributes:
        repeated: Those that have begun more than once.
    """

    def __init__(self) -> None:
        self.repeated: set[str] = set()
        self._begun: set[str] = set()

    def begin(self, id: str) -> None:
        """Note that a step begins."""
        (self.repeated if id in self._begun else self._begun).add(id)


@dataclass(frozen=True)
class Setting:
    """What all processes of a world share."""

    network: Network
    programs: Mapping[str, Program]
    steps: Steps = field(default_factory=Steps)


class LostError(Exception):
    """The process holds its task no longer."""


class BlockedError(Exception):
    """A program waits for promises."""

    def __init__(self, awaited: list[str]) -> None:
        super().__init__(awaited)
        self.awaited = awaited


def sdk_of(setting: Setting, settings: Settings) -> Main:
    """Return the code of a process."""

    async def main(process: Process) -> None:
        await Sdk(process, setting, settings).run()

    return main


class Sdk:
    """A process of an SDK."""

    def __init__(self, process: Process, setting: Setting, settings: Settings) -> None:
        self.process = process
        self.network = setting.network
        self.programs = setting.programs
        self.steps = setting.steps
        self.settings = settings
        self.pid = settings.pid or process.name.replace("#", "-")
        self.held: dict[str, int] = {}

    async def run(self) -> None:
        """Work until it ends."""
        async with asyncio.TaskGroup() as work:
            work.create_task(self._heartbeat())
            for id, program in self.settings.calls:
                work.create_task(self._call(id, program))
            async for message in self._messages():
                if message is not None:
                    work.create_task(self._acquire(message["data"]["task"]))

    def _messages(self) -> AsyncIterator[Record | None]:
        group = self.settings.group
        if "://" in group:
            return posted_messages(self.network, self.process, group)
        return self.network.messages(self.process, group, self.pid)

    def has(self, promise: Record) -> bool:
        """Whether it has the function that a promise calls."""
        registered_at = self.settings.registered_at.get(argument_of(promise), 0.0)
        return self.process.world.now >= registered_at

    async def insist(self, kind: str, data: dict[str, Any]) -> Answer:
        return await self.network.insist(self.process, kind, data)

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self.settings.ttl / 3000)
            if self.held:
                tasks = [{"id": id, "version": version} for id, version in self.held.items()]
                await self.insist("task.heartbeat", {"pid": self.pid, "tasks": tasks})

    async def _call(self, id: str, program: str) -> None:
        """Create an invocation, and run it."""
        tags = tags_of(id, id, f"{self.settings.address}/{self.pid}")
        data = create(id, tags, {"func": FUNCTION, "args": [program]})
        request = {
            "pid": self.pid,
            "ttl": self.settings.ttl,
            "action": {"kind": "promise.create", "data": data},
        }
        await self._work(await self._ask("task.create", request))

    async def _acquire(self, task: Record) -> None:
        await self._work(await self._ask("task.acquire", {**task, "pid": self.pid, "ttl": self.settings.ttl}))

    async def _ask(self, kind: str, data: dict[str, Any]) -> tuple[float, Answer]:
        asked_at = self.process.world.now
        return asked_at, await self.insist(kind, data)

    async def _work(self, replied: tuple[float, Answer]) -> None:
        asked_at, answer = replied
        if answer.status != 200 or answer.data["task"]["state"] != "acquired":
            return
        task, promise = answer.data["task"], answer.data["promise"]
        if not is_timer(promise) and not self.has(promise):
            await self.insist("task.release", {"id": task["id"], "version": task["version"]})
            return
        execution = Execution(self, task, promise)
        execution.learn(answer.data["preload"], asked_at)
        await self.work_on(execution)

    async def work_on(self, execution: Execution) -> None:
        """Run a task that the process holds."""
        self.held[execution.id] = execution.version
        try:
            await execution.run()
        except* LostError:
            pass
        finally:
            if self.held.get(execution.id) == execution.version:
                del self.held[execution.id]


class Execution:
    """A task that the process has acquired."""

    def __init__(self, sdk: Sdk, task: Record, promise: Record) -> None:
        self.id: str = task["id"]
        self.version: int = task["version"]
        self._sdk = sdk
        self._world = sdk.process.world
        self._promise = promise
        self._known: dict[str, tuple[Record, float]] = {}

    def learn(self, records: Sequence[Record], asked_at: float) -> None:
        """Take records over from a reply to a request of that time."""
        for record in records:
            self._known[record["id"]] = (record, asked_at)

    async def run(self) -> None:
        """Run the program until it is suspended or done. Raises LostError."""
        if is_timer(self._promise):
            return  # its lease lapses, or the timer settles it
        program = self._sdk.programs[argument_of(self._promise)]
        while True:
            try:
                value = await self._run(program)
            except BlockedError as blocked:
                if await self._suspend(program, blocked.awaited):
                    return
                continue
            await self._fulfil("rejected" if program.fails else "resolved", value)
            return

    async def _run(self, program: Program) -> list[Any]:
        outcomes: list[Any] = []
        number = 0
        for node in program.nodes:
            parts = node.parts if isinstance(node, Several) else (node,)
            awaited: list[tuple[Call, str]] = []
            async with asyncio.TaskGroup() as work:
                for part in parts:
                    id = id_of(self.id, number, part)
                    number += 1
                    record = await self._create(id, part)
                    awaited.append((part, id))
                    if isinstance(part, Local) and record["state"] == PENDING:
                        work.create_task(self._step(id, part))
            pending = [
                id for part, id in awaited if is_awaited(part) and self._known[id][0]["state"] == PENDING
            ]
            if pending:
                raise BlockedError(pending)
            outcomes += [outcome_of(self._known[id][0]) if is_awaited(part) else id for part, id in awaited]
        return outcomes

    async def _create(self, id: str, node: Call) -> Record:
        """Return the promise of a call, which is created unless it is known."""
        if id not in self._known:
            asked_at = self._world.now
            now = self._sdk.process.store.clock.now()
            self.learn([await self._open(request_of(self.id, id, node, now))], asked_at)
        return self._known[id][0]

    async def _step(self, id: str, step: Local) -> None:
        """Run a function, and settle its promise."""
        self._check_begin(id)
        await asyncio.sleep(step.seconds)
        state = "rejected" if step.fails else "resolved"
        asked_at = self._world.now
        self.learn([await self._settle(id, state, step.name)], asked_at)

    async def _open(self, request: dict[str, Any]) -> Record:
        action = {"kind": "promise.create", "data": request}
        return (await self._write("task.fence", {"action": action}))["action"]["data"]["promise"]

    async def _settle(self, id: str, state: str, value: Any) -> Record:
        action = {"kind": "promise.settle", "data": {"id": id, "state": state, "value": encoded(value)}}
        return (await self._write("task.fence", {"action": action}))["action"]["data"]["promise"]

    async def _fulfil(self, state: str, value: Any) -> None:
        action = {"kind": "promise.settle", "data": {"id": self.id, "state": state, "value": encoded(value)}}
        await self._write("task.fulfill", {"action": action})

    def _check_begin(self, id: str) -> None:
        """Check that a step that begins was not settled when the process asked for it."""
        world, (_, asked_at) = self._world, self._known[id]
        self._sdk.steps.begin(id)
        world.note("step", id, f"begins in {self._sdk.process.name}, version {self.version}")
        promise = world.store.model.tables.promises["default", id]
        settled = promise.state is not PromiseState.PENDING
        if settled and (promise.settled_at or 0.0) < world.start_at + asked_at:
            world.blame(
                f"step {id!r} runs again in version {self.version}, and was settled before it was asked for"
            )

    async def _suspend(self, program: Program, awaited: list[str]) -> bool:
        """Suspend the task. Returns False if it goes on at once."""
        if program.is_early:
            for id in awaited:
                await self._sdk.insist("promise.register_callback", {"awaited": id, "awaiter": self.id})
        actions = [
            {"kind": "promise.register_callback", "data": {"awaited": id, "awaiter": self.id}}
            for id in awaited
        ]
        asked_at = self._world.now
        answer = await self._write("task.suspend", {"actions": actions})
        if "preload" not in answer:
            return True
        self._known.clear()
        self.learn(answer["preload"], asked_at)
        return False

    async def _write(self, kind: str, data: dict[str, Any]) -> Any:
        """Write in the name of the task. Raises LostError."""
        answer = await self._sdk.insist(kind, {"id": self.id, "version": self.version, **data})
        if answer.status in (409, 404):
            self._world.note(self._sdk.process.name, "has lost", f"{self.id}/{self.version}")
            raise LostError
        assert answer.status in (200, 300), f"{kind} of {data}: {answer}"
        return answer.data


def address_of(group: str) -> str:
    """Return the address of a group of processes, which may be a URL."""
    return group if "://" in group else f"poll://any@{group}"


def is_timer(promise: Record) -> bool:
    """Whether a promise settles itself at its timeout."""
    return "true" in (promise["tags"].get("resonate:timer"), promise["tags"].get("resonate:timeout"))


def id_of(parent: str, number: int, node: Call) -> str:
    """Return the id of a call of a program."""
    return node.id if isinstance(node, Wait) and node.id is not None else f"{parent}.{number}"


def is_awaited(node: Call) -> bool:
    """Whether a program awaits a call."""
    return not isinstance(node, Remote) or node.is_awaited


def tags_of(parent: str, branch: str, target: str | None) -> dict[str, str]:
    """Return the tags that SDKs give to a promise."""
    scope = "local" if target is None else "global"
    tags = {
        "resonate:scope": scope,
        "resonate:branch": branch,
        "resonate:parent": parent,
        "resonate:origin": parent.partition(".")[0],
    }
    return tags if target is None else {**tags, "resonate:target": target}


def create(
    id: str, tags: dict[str, str], call: dict[str, Any], *, timeout_at: float | None = None
) -> dict[str, Any]:
    """Return the data of a promise to be created."""
    return {
        "id": id,
        "timeoutAt": NEVER if timeout_at is None else round(timeout_at * 1000),
        "param": encoded(call),
        "tags": tags,
    }


def request_of(task: str, id: str, node: Call, now: float) -> dict[str, Any]:
    """Return the data of the promise of a program's call."""
    match node:
        case Local():
            return create(id, tags_of(task, task, None), {"func": STEP, "args": [node.name]})
        case Remote():
            tags = tags_of(task, id, address_of(node.group))
            if node.delay is not None:
                tags["resonate:delay"] = str(round((now + node.delay) * 1000))
            call = {"func": FUNCTION, "args": [node.program]}
        case Workflow():
            tags = tags_of(task, id, f"poll://any@{SIGNOFF}")
            call = {"func": node.name, "args": [node.argument]}
        case Sleep():
            tags = tags_of(task, id, "poll://any@g0" if node.has_target else None)
            tags["resonate:timer"] = "true"
            return create(id, tags, {"func": SLEEP}, timeout_at=now + node.seconds)
        case Wait():
            tags, call = tags_of(task, id, None), {"func": WAIT}
        case Ask():
            terms = {"text": node.text, "input_type": node.input_type}
            if node.is_called:
                tags, call = tags_of(task, id, "poll://any@g0"), {"func": "signoff:question", "args": [terms]}
            else:
                tags, call = tags_of(task, id, None), {"func": "ask"}
                tags["signoff:question"] = json.dumps(terms)
    return create(id, tags, call, timeout_at=None if node.timeout is None else now + node.timeout)


def encoded(value: Any) -> dict[str, str]:
    """Return a value as the SDKs write it."""
    return {"data": base64.b64encode(json.dumps(value).encode()).decode()}


def decoded(value: Record) -> Any:
    """Return a value as the SDKs read it."""
    return json.loads(base64.b64decode(value["data"])) if value.get("data") else None


def argument_of(promise: Record) -> str:
    """Return the program that an invocation runs."""
    return decoded(promise["param"])["args"][0]


def outcome_of(promise: Record) -> Any:
    """Return what a program sees of a settled promise."""
    state, value = promise["state"], decoded(promise["value"])
    return value if state == "resolved" else [STATES[state], value]
