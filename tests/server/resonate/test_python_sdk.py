"""Programs on the newest Python SDK of Resonate, unmodified, as they run against a Signoff server."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.records import Promise, PromiseKind, PromiseState, Settlement
from signoff.records.tasks import TaskState
from signoff.server.server import Server
from tests.postgres.databases import migrated_database
from tests.resonate_sdks import python_of_2026
from tests.support import comes

PROGRAM = Path(__file__).with_name("sdk_program.py")
SECONDS = 90

EXPECTED: dict[str, tuple[Any, list[str]]] = {
    "calls": (
        [f"{kind}-{n}" for kind in ("local", "remote", "beside") for n in range(3)],
        sorted(f"{kind}-{n}" for kind in ("local", "remote", "beside") for n in range(3)),
    ),
    "sleeps": ("after", ["after", "before"]),
    "retries": ("flaky", ["flaky"] * 3),
    "fails": ("ValueError: broken", []),
    "calls_signoff": (42, []),
}


@dataclass
class Place:
    """A server, and the programs that run against it."""

    app: Signoff
    server: Server
    folder: Path

    async def program(self, name: str, argument: str = "") -> asyncio.subprocess.Process:
        python = await asyncio.to_thread(python_of_2026)
        assert self.server.resonate_url is not None
        arguments = (PROGRAM, name, self.server.resonate_url, self.folder, argument)
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(python, *arguments, stdout=pipe, stderr=pipe)

    async def result(self, name: str, argument: str = "") -> Any:
        return await result_of(await self.program(name, argument))

    @property
    def effects(self) -> list[str]:
        """What the steps did, sorted."""
        file = self.folder / "effects"
        return sorted(file.read_text().splitlines()) if file.exists() else []

    async def until_suspended(self, task_id: str) -> None:
        async def look() -> bool:
            suspended = await self.app.store.list_tasks(state=TaskState.SUSPENDED)
            return task_id in {task.id for task in suspended.items}

        await comes(look)

    async def settled(self, promise_id: str) -> Promise:
        """Wait until a promise is settled, and return it."""

        async def look() -> Promise | None:
            promise = await self.app.store.get_promise(promise_id)
            return None if promise.state is PromiseState.PENDING else promise

        return await comes(look)


async def result_of(process: asyncio.subprocess.Process) -> Any:
    async with asyncio.timeout(SECONDS):
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(output.splitlines()[-1])


@asynccontextmanager
async def place(folder: Path, database: str) -> AsyncIterator[Place]:
    app = Signoff(database, group="signoff-workers")

    @app.workflow
    async def double(ctx: Context, number: int) -> int:
        return number * 2

    try:
        async with Server(app, port=0, resonate_port=0) as server, app.worker():
            yield Place(app, server, folder)
    finally:
        await app.store.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], AbstractContextManager[str]]:
    if request.param == "postgres":
        return migrated_database
    return lambda: nullcontext(f"sqlite:///{tmp_path}/signoff.db")


Database = Callable[[], AbstractContextManager[str]]


def test_programs_have_the_effects_that_they_have_anywhere(database: Database, tmp_path: Path) -> None:
    async def run(url: str) -> None:
        async with place(tmp_path, url) as here:
            for name, (expected, effects) in EXPECTED.items():
                assert (name, await here.result(name)) == (name, expected)
                assert (name, here.effects) == (name, effects)
                (tmp_path / "effects").unlink(missing_ok=True)

    with database() as url:
        asyncio.run(run(url))


def test_a_person_answers_the_question_of_a_program(database: Database, tmp_path: Path) -> None:
    async def run(url: str) -> None:
        async with place(tmp_path, url) as here, AsyncClient(here.app) as client:
            program = await here.program("asks")

            async def asked() -> Sequence[Promise]:
                return (await client.questions()).items

            questions = await comes(asked)
            await client.answer(questions[0].id, {"cents": 700}, user_id="ana")
            assert await result_of(program) == {"cents": 700}

    with database() as url:
        asyncio.run(run(url))


@pytest.mark.long
def test_a_call_that_nothing_awaits_runs_once(database: Database, tmp_path: Path) -> None:
    async def run(url: str) -> None:
        async with place(tmp_path, url) as here:
            id = await here.result("detaches")
            serving = await here.program("serve")
            await here.settled(id)
            serving.terminate()
            await serving.wait()
            assert here.effects == ["detached"]

    with database() as url:
        asyncio.run(run(url))


@pytest.mark.long
def test_another_process_continues_for_a_killed_one(database: Database, tmp_path: Path) -> None:
    async def run(url: str) -> None:
        async with place(tmp_path, url) as here:
            killed = await here.program("waits")
            await here.until_suspended("waits")
            killed.send_signal(signal.SIGKILL)
            await killed.communicate()
            serving = await here.program("serve")
            settlement = Settlement(PromiseState.RESOLVED, value='"settled"')
            await here.app.store.settle("waits:2", PromiseKind.PROMISE, settlement)
            done = await here.settled("waits")
            serving.terminate()
            await serving.communicate()
            assert (done.value, here.effects) == ('"settled"', ["after", "before"])

    with database() as url:
        asyncio.run(run(url))


@pytest.mark.long
def test_many_invocations_at_once_run_once_each(database: Database, tmp_path: Path) -> None:
    async def run(url: str) -> None:
        async with place(tmp_path, url) as here:
            expected = [f"many-{n}" for n in range(300)]
            assert await here.result("many", "300") == expected
            assert here.effects == sorted(expected)

    with database() as url:
        asyncio.run(run(url))
