"""Workers on the SDKs of Resonate, and the server, are killed with SIGKILL: results are the same, settled steps stay.

A step whose outcome was not settled may run again. Each test prints its seed; SIGNOFF_RESONATE_SEED repeats it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient
from signoff.records import PromiseState
from signoff.records.paging import PromiseFilter
from signoff.stores.contract.store import Store
from tests.server.resonate.dying_server import Death, Servers
from tests.server.resonate.sdk_programs import Program, effects_in, new_app, place
from tests.server.resonate.speaker import open_store

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

SDKS = ("python", "typescript")
SEED = int(os.environ.get("SIGNOFF_RESONATE_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)

LENGTH = 6
STEPS = sorted(
    name for n in range(LENGTH) for name in ((f"-{n}-local", f"-{n}-remote") if n % 3 == 2 else (f"-{n}",))
)

# The last two are rare: a server does not live for long.
OPERATIONS = (
    "open_invocation",
    "settle_held",
    "acquire_task",
    "suspend_task",
    "take_task_messages",
    "listen_promise",
    "finish_task_message",
    "heartbeat_tasks",
    "release_task",
)


class SettledSteps:
    """The steps that were settled when a process had just died. None of them may run again."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._times: dict[str, int] = {}

    async def note(self) -> None:
        """Note how often each settled step has run."""
        settled = set[str]()
        after: str | None = None
        while True:
            page = await self._store.list_promises(PromiseFilter(), after=after, limit=500)
            settled |= {each.id for each in page.items if each.state is not PromiseState.PENDING}
            if (after := page.next) is None:
                break
        for id, times in self._runs().items():
            if id in settled:
                self._times.setdefault(id, times)

    def check(self) -> int:
        """Check that none has run since. Returns their number."""
        runs = self._runs()
        assert {id: runs[id] for id in self._times} == self._times
        return len(self._times)

    def _runs(self) -> Counter[str]:
        return Counter(id for _, id in effects_in(self._folder))


def check_chain(folder: Path, id: str) -> None:
    """Check that each step of a chain has run, and no other."""
    names = {name for name, _ in effects_in(folder) if name.startswith(f"{id}-")}
    assert names == {f"{id}{step}" for step in STEPS}, id


@pytest.mark.parametrize("sdk", SDKS)
def test_killed_workers_repeat_no_settled_step(tmp_path: Path, sdk: str) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")

    async def run() -> None:
        async with place(tmp_path, f"sqlite:///{tmp_path}/signoff.db") as here:
            caller = await here.program("python", "caller")
            workers = [await here.program(sdk, "workers") for _ in range(2)]
            ids = [f"c{n}" for n in range(6)]
            calls = asyncio.gather(
                *(caller.outcome("send", id, "workers", "chain", id, LENGTH, 0.05) for id in ids)
            )
            settled = SettledSteps(here.app.store, tmp_path)
            kills = 0
            while not calls.done() and kills < 5:
                await progress(tmp_path, chance.randint(2, 5), calls)
                await workers.pop(chance.randrange(2)).kill()
                await settled.note()
                workers.append(await here.program(sdk, "workers"))
                kills += 1
            assert await calls == [("value", LENGTH)] * len(ids)
            for id in ids:
                check_chain(tmp_path, id)
            assert (settled.check() > 0, kills > 0) == (True, True)

    asyncio.run(run())


async def progress(folder: Path, steps: int, calls: asyncio.Future[Any]) -> None:
    """Wait until so many further steps have begun, or all calls are done."""
    begun = len(effects_in(folder)) + steps
    while len(effects_in(folder)) < begun and not calls.done():
        await asyncio.sleep(0.01)


@asynccontextmanager
async def two_workers(url: str, folder: Path) -> AsyncIterator[dict[str, Program]]:
    async with AsyncExitStack() as stack:
        programs = {sdk: await Program.start(sdk, url, folder, sdk) for sdk in SDKS}
        for program in programs.values():
            stack.push_async_callback(program.kill)
        yield programs


def deaths(is_sqlite: bool, chance: random.Random) -> list[Death | None]:
    """Return places to die at; None is any time. Those on Postgres are other ones, and fewer."""
    places: list[Death | None] = [
        Death(
            operation, is_after=(number % 2 == 0) == is_sqlite, nth=chance.randint(1, 2 if number > 6 else 4)
        )
        for number, operation in enumerate(OPERATIONS)
    ]
    chance.shuffle(places)
    return [*places, None, None] if is_sqlite else [*places[:5], None]


def test_a_server_killed_at_any_place_changes_no_result(store: str, tmp_path: Path) -> None:
    """Both SDKs run chains of steps, give tasks back, ask people and call Signoff; one server after the other dies."""
    chance = random.Random(SEED)
    print(f"seed {SEED}")

    async def run(url: str) -> None:
        async with AsyncExitStack() as stack:
            app = new_app(open_store(url))
            stack.push_async_callback(app.store.close)
            client = await stack.enter_async_context(AsyncClient(app))
            await stack.enter_async_context(app.worker())
            servers = Servers(url, tmp_path)
            stack.push_async_callback(servers.kill)
            programs = await stack.enter_async_context(two_workers(servers.url, tmp_path))
            settled = SettledSteps(app.store, tmp_path)
            expected: dict[str, Any] = {}
            calls: dict[str, asyncio.Task[tuple[str, Any]]] = {}

            def call(id: str, result: Any, group: str, function: str, *arguments: Any) -> None:
                expected[id] = ("value", result)
                order = programs["python"].outcome("send", id, group, function, *arguments)
                calls[id] = asyncio.ensure_future(order)

            places = deaths(url.startswith("sqlite"), chance)
            for number, death in enumerate(places):
                await servers.start(death)
                for group in SDKS:
                    id = f"{group}-{number}"
                    call(id, LENGTH, group, "chain", id, LENGTH, 0.02)
                    call(f"back-{id}", f"back-{id}", group, "releases", f"back-{id}")
                    call(f"double-{id}", 2 * number, group, "calls_signoff", number)
                    call(f"ask-{id}", {"cents": 700}, group, "asks")
                if death is None:
                    await asyncio.sleep(chance.uniform(0.3, 1.5))
                    await servers.kill()
                else:
                    await servers.dies()
                await settled.note()
                await answer_all(client)
            await servers.start(None)
            answering = asyncio.create_task(answer_all(client, until=list(calls.values())))
            outcomes = dict(zip(calls, await asyncio.gather(*calls.values()), strict=True))
            await answering
        assert outcomes == expected
        for number, group in itertools.product(range(len(places)), SDKS):
            check_chain(tmp_path, f"{group}-{number}")
        assert settled.check() > 0

    asyncio.run(run(store))


async def answer_all(client: AsyncClient, until: Sequence[asyncio.Task[Any]] = ()) -> None:
    """Answer the open questions in the inbox: once, or until these tasks are done."""
    while True:
        for question in (await client.questions()).items:
            await client.answer(question.id, {"cents": 700}, user_id="ana")
        if all(task.done() for task in until):
            return
        await asyncio.sleep(0.1)
