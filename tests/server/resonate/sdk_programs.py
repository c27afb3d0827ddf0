"""Processes with the newest SDKs of Resonate, and the table of what their functions return and do."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signoff import AsyncClient, Context, Signoff
from signoff.errors import NotFound
from signoff.records import Promise, PromiseState
from signoff.records.tasks import TaskState
from signoff.server.server import Server
from signoff.stores.contract.store import Store
from tests.resonate_sdks import node_program, python_of_2026
from tests.support import comes

SECONDS = 180
FOLDER = Path(__file__).parent


def command_of(sdk: str) -> list[str]:
    """Return the command that runs the functions on an SDK: ``python`` or ``typescript``."""
    if sdk == "python":
        return [str(python_of_2026()), str(FOLDER / "sdk_program.py")]
    return node_program(FOLDER / "sdk_program.ts")


class Program:
    """A process with an SDK, which serves a group and takes orders.

    Args:
        sdk: Its SDK.
        process: The process.
        log: The file with what it writes to stderr.
    """

    def __init__(self, sdk: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.sdk = sdk
        self.process = process
        self._log = log
        self._outcomes: dict[str, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

    @staticmethod
    async def start(sdk: str, url: str, folder: Path, group: str, *, lease_seconds: int = 2) -> Program:
        """Start it. With a short lease, another process soon continues for a killed one; on a busy machine, a step may
        then run twice.
        """
        command = await asyncio.to_thread(command_of, sdk)
        log = folder / f"{group}.log"
        pipe = asyncio.subprocess.PIPE
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *command, url, str(folder), group, str(lease_seconds), stdin=pipe, stdout=pipe, stderr=errors
            )
        return Program(sdk, process, log)

    def order(self, kind: str, id: str, *rest: Any) -> asyncio.Future[Any]:
        """Give an order. The future has its outcome: ``("value", value)`` or ``("error", text)``."""
        outcome = self._outcomes[id] = asyncio.get_running_loop().create_future()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([kind, id, *rest]).encode() + b"\n")
        return outcome

    async def outcome(self, kind: str, id: str, *rest: Any) -> tuple[str, Any]:
        """Give an order, and wait for its outcome."""
        outcome = self.order(kind, id, *rest)
        try:
            async with asyncio.timeout(SECONDS):
                return await outcome
        except TimeoutError:
            raise AssertionError(f"{kind} {id} has no outcome: {self._log.read_text()[-4000:]}") from None

    def promise_of(self, id: str, number: int) -> str:
        """Return the id of the promise of a call within an invocation. ``number`` counts from 1."""
        return f"{id}:{number if self.sdk == 'python' else number - 1}"

    async def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def stop(self) -> None:
        """Let it end in order."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            async with asyncio.timeout(10):
                await self.process.wait()
        finally:
            await self.kill()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            id, kind, value = json.loads(line)
            self._outcomes.pop(id).set_result((kind, value))


@dataclass
class Place:
    """A server in this process, the programs that run against it, and their effects."""

    app: Signoff
    client: AsyncClient
    folder: Path
    url: str
    stack: AsyncExitStack

    async def program(self, sdk: str, group: str | None = None, *, lease_seconds: int = 2) -> Program:
        name = group or sdk
        program = await Program.start(sdk, self.url, self.folder, name, lease_seconds=lease_seconds)
        self.stack.push_async_callback(program.kill)
        return program

    def effects(self, id: str) -> list[str]:
        """Return the names of the effects of a call, sorted."""
        names = [name for name, _ in effects_in(self.folder)]
        return sorted(name for name in names if name == id or name.startswith(f"{id}-"))

    async def settled(self, promise_id: str) -> Promise:
        """Wait until a promise is settled, and return it."""
        return await settled(self.app.store, promise_id)


def effects_in(folder: Path) -> list[tuple[str, str]]:
    """Return each effect: its name, and the id of its invocation."""
    file = folder / "effects"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(name, id) for name, _, id in (line.partition(" ") for line in lines)]


async def settled(store: Store, promise_id: str) -> Promise:
    """Wait until a promise exists and is settled."""

    async def look() -> Promise | None:
        try:
            promise = await store.get_promise(promise_id)
        except NotFound:
            return None
        return None if promise.state is PromiseState.PENDING else promise

    return await comes(look)


def new_app(store: Store | str) -> Signoff:
    """Return an app with the workflow that the functions call."""
    app = Signoff(store, group="signoff-workers")

    @app.workflow
    async def double(ctx: Context, number: int) -> int:
        return number * 2

    return app


@asynccontextmanager
async def place(folder: Path, store: Store | str) -> AsyncIterator[Place]:
    app = new_app(store)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.store.close)
        server = await stack.enter_async_context(Server(app, port=0, resonate_port=0))
        await stack.enter_async_context(app.worker())
        client = await stack.enter_async_context(AsyncClient(app))
        assert server.resonate_url is not None
        yield Place(app, client, folder, server.resonate_url, stack)


Act = Callable[[Place, Program, str], Awaitable[object]]


@dataclass(frozen=True)
class Case:
    """A function that is called, and what must come of it.

    Attributes:
        function: Its name. Its first argument is the id of the call, unless ``names`` is false.
        outcome: The outcome of the call. ``ID`` in it stands for the id.
        effects: The effects, without the id at their beginning.
        arguments: Further arguments.
        act: What happens from outside.
        names: Whether the function is given the id.
    """

    function: str
    outcome: tuple[str, Any]
    effects: Sequence[str] = ()
    arguments: Sequence[Any] = ()
    act: Act | None = None
    names: bool = True


async def _suspended(place: Place, id: str) -> None:
    async def look() -> bool:
        try:
            return (await place.app.store.get_task(id)).state is TaskState.SUSPENDED
        except NotFound:
            return False

    await comes(look)


async def answers(place: Place, program: Program, id: str) -> None:
    """Answer its question in the inbox."""
    await _suspended(place, id)
    await place.client.answer(program.promise_of(id, 1), {"cents": 700}, user_id="ana")


async def resolves(place: Place, program: Program, id: str) -> None:
    """Settle the promise that it waits for."""
    await _suspended(place, id)
    await place.client.promises.resolve(program.promise_of(id, 2), "settled")


async def cancels(place: Place, program: Program, id: str) -> None:
    """Cancel the promise that it waits for."""
    await _suspended(place, id)
    await place.client.promises.cancel(program.promise_of(id, 2), by="user:ana")


async def program_cancels(place: Place, program: Program, id: str) -> None:
    """Cancel the promise that it waits for, as a program does."""
    await _suspended(place, id)
    assert await program.outcome("cancel", program.promise_of(id, 2)) == ("value", None)


async def cancels_all(place: Place, program: Program, id: str) -> None:
    """Cancel the whole invocation, and then settle the promise that it waited for."""
    await _suspended(place, id)
    await place.client.promises.cancel(id, by="user:ana")
    await place.client.promises.resolve(program.promise_of(id, 2), "settled")


STEPS = [f"{kind}-{n}" for kind in ("local", "remote", "beside") for n in range(3)]

CASES = {
    "step": Case("step", ("value", "ID"), [""]),
    "calls": Case("calls", ("value", [f"ID-{name}" for name in STEPS]), [f"-{name}" for name in STEPS]),
    "chain": Case("chain", ("value", 4), ["-0", "-1", "-2-local", "-2-remote", "-3"], arguments=(4, 0)),
    "sleeps": Case("sleeps", ("value", "ID-after"), ["-after", "-before"]),
    "detaches": Case("detaches", ("value", "ID"), ["-detached"]),
    "retries": Case("retries", ("value", "ID"), [""] * 3),
    "releases": Case("releases", ("value", "ID"), [""] * 2),
    "fails": Case("fails", ("value", "caught: broken"), names=False),
    "rejected": Case("broken", ("error", "broken"), names=False),
    "asks": Case("asks", ("value", {"cents": 700}), act=answers, names=False),
    "double": Case("calls_signoff", ("value", 42), arguments=(21,), names=False),
    "resolved": Case("waits", ("value", "settled"), ["-after", "-before"], (60,), resolves),
    "cancelled": Case("waits", ("value", "none"), ["-after", "-before"], (60,), cancels),
    "withdrawn": Case("waits", ("value", "none"), ["-after", "-before"], (60,), program_cancels),
    "timed-out": Case("waits", ("value", "none"), ["-after", "-before"], (0.3,)),
    "stopped": Case("waits", ("error", "Promise canceled"), ["-before"], (60,), cancels_all),
}


async def try_case(place: Place, program: Program, id: str, case: Case) -> None:
    """Call a function, and check its result."""
    arguments = [*([id] if case.names else []), *case.arguments]
    acting = asyncio.ensure_future(case.act(place, program, id)) if case.act else None
    outcome = await program.outcome("run", id, case.function, *arguments)
    if acting is not None:
        await acting
    expected = json.loads(json.dumps(case.outcome).replace("ID", id))
    assert list(outcome) == expected, id
    wanted = sorted(f"{id}{name}" for name in case.effects)

    async def has_effects() -> bool:
        return len(place.effects(id)) >= len(wanted)

    await comes(has_effects)  # of what nothing awaits


def check_effects(place: Place, id: str, case: Case) -> None:
    """Check that each effect happened once, and no other."""
    assert Counter(place.effects(id)) == Counter(f"{id}{name}" for name in case.effects), id
