"""Workflows call functions: with two servers, many at once, on the real SDKs, and while servers are killed."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from signoff import AsyncClient, StepFailed
from signoff.records import PromiseKind, PromiseState, RunState, Settlement
from signoff.records.tasks import TaskState
from signoff.server.auth.stored_keys import StoredKeys
from signoff.server.resonate.function_calls import invocations_of
from signoff.server.server import Server
from tests.server.resonate.calling import FUNCTIONS, Database, Place, in_place, make_app, place, result
from tests.server.resonate.dying_server import Death, Servers, open_store
from tests.server.resonate.legacy_servers import legacy_server, program
from tests.server.resonate.process import Process
from tests.server.resonate.sdk_programs import Program, effects_in

SEED = int(os.environ.get("SIGNOFF_RESONATE_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)

OPERATIONS = (
    "enlist",
    "claim",
    "append",
    "open_invocation",
    "pause",
    "complete",
    "acquire_task",
    "settle_held",
)
"""The writes of a server between the start of a call's run and its end."""


def test_a_run_joins_the_invocation_that_a_dead_server_has_opened(database: Database) -> None:
    async def test(url: str) -> None:
        app = make_app(url)
        try:
            async with AsyncClient(app) as client:
                for id, is_settled in (("pending", False), ("settled", True)):
                    started = await client.start("double", 4, id=id, group="ts-workers")
                    await app.store.open_invocation(next(invocations_of(await app.store.get_run(id))))
                    if is_settled:
                        settlement = Settlement(PromiseState.RESOLVED, value="9")
                        await app.store.settle(id, PromiseKind.PROMISE, settlement)
                server = Server(app, port=0, resonate_port=0)
                async with server, Place(app, client, server).process() as process:
                    assert await result(await client.get("pending")) == 8
                    assert await result(started) == 9
                    assert len(process.calls) == 1
        finally:
            await app.store.close()

    with database() as url:
        asyncio.run(test(url))


def test_two_servers_call_each_function_once(database: Database) -> None:
    async def test(url: str) -> None:
        async with (
            place(url) as first,
            place(url) as second,
            first.process() as one,
            second.process() as other,
        ):
            started = [await first.client.start("calls", "double", n) for n in range(30)]
            assert [await result(each) for each in started] == [2 * n for n in range(30)]
            assert sorted(call[1] for call in [*one.calls, *other.calls]) == [[n] for n in range(30)]

    with database() as url:
        asyncio.run(test(url))


def test_a_call_stays_in_its_namespace(database: Database) -> None:
    async def test(url: str) -> None:
        apps = [make_app(url, namespace) for namespace in ("default", "acme")]
        async with AsyncExitStack() as stack:
            for app in apps:
                stack.push_async_callback(app.store.close)
            server = await stack.enter_async_context(
                Server(apps[0], port=0, resonate_port=0, require_auth=True)
            )
            assert server.resonate_url is not None
            for app, factor in zip(apps, (10, 100), strict=True):
                await stack.enter_async_context(app.worker())
                key, _ = await StoredKeys(app.store).create_for_worker("ts", groups=["ts-workers"])
                functions = {"double": factor.__mul__}
                await stack.enter_async_context(Process(server.resonate_url, functions, key=key))
            started = [
                await (await stack.enter_async_context(AsyncClient(app))).start(
                    "calls", "double", 2, id="same"
                )
                for app in apps
            ]
            assert [await result(each) for each in started] == [20, 200]

    with database() as url:
        asyncio.run(test(url))


@pytest.mark.long
@pytest.mark.timeout(300)  # on a busy machine
def test_hundreds_of_calls_at_once_are_made_once_each(
    database: Database, request: pytest.FixtureRequest
) -> None:
    number = 1000 if "sqlite" in request.node.name else 250  # the process of the test needs most of the time

    async def test(here: Place) -> None:
        async with here.process() as process:
            started = await here.client.start("beside", number)
            assert await result(started, seconds=280) == [2 * n for n in range(number)]
            assert sorted(call[1] for call in process.calls) == [[n] for n in range(number)]

    in_place(database, test)


@pytest.mark.long
@pytest.mark.parametrize("sdk", ["python", "typescript"])
def test_workflows_call_functions_on_the_real_sdks(database: Database, tmp_path: Path, sdk: str) -> None:
    async def test(here: Place) -> None:
        sdk_program = await Program.start(sdk, here.url, tmp_path, "ts-workers", lease_seconds=60)
        try:
            assert await result(await here.client.start("calls", "chain", "c", 4, 0)) == 4
            names = [name for name, _ in effects_in(tmp_path)]
            assert sorted(names) == ["c-0", "c-1", "c-2-local", "c-2-remote", "c-3"]
            with pytest.raises(StepFailed) as failed:
                await result(await here.client.start("calls", "broken"))
            assert failed.value.message == "broken"
            assert failed.value.type_name == ("ValueError" if sdk == "python" else "Error")
            waiting = await here.client.start("calls", "nobody has it", id="unknown")
            await here.run("unknown.1")
            await waiting.cancel()
            await here.run("unknown.1", RunState.CANCELLED)
        finally:
            await sdk_program.kill()

    in_place(database, test)


@pytest.mark.long
def test_workflows_call_functions_on_the_sdk_of_2024(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/signoff.db"

    async def test() -> None:
        app = make_app(url)
        try:
            async with app.worker(), AsyncClient(app) as client:
                options = {"group": "default"}
                assert await result(await client.start("begin", "b", **options)) == 1
                (tmp_path / "go").touch()
                assert await result(await client.start("workflow", "w", **options)) == 6
        finally:
            await app.store.close()

    with legacy_server(tmp_path, url) as server:
        worker = program(server, Path(__file__).with_name("legacy_program.py"), "w1", "work", cwd=tmp_path)
        try:
            asyncio.run(test())
        finally:
            worker.kill()
            worker.communicate()


@pytest.mark.long
@pytest.mark.parametrize("sdk", ["python", "typescript"])
def test_a_killed_process_on_an_sdk_is_replaced(database: Database, tmp_path: Path, sdk: str) -> None:
    async def test(here: Place) -> None:
        async with AsyncExitStack() as stack:
            killed = await Program.start(sdk, here.url, tmp_path, "ts-workers")
            stack.push_async_callback(killed.kill)
            started = await here.client.start("calls", "waits", "w", 3600, id="w")
            while (await here.run("w.1")) and (
                await here.app.store.get_task("w.1")
            ).state is not TaskState.SUSPENDED:
                await asyncio.sleep(0.05)
            await killed.kill()
            other = await Program.start(sdk, here.url, tmp_path, "ts-workers")
            stack.push_async_callback(other.kill)
            await here.settle(other.promise_of("w.1", 2), PromiseState.RESOLVED, '"settled"')
            assert await result(started) == "settled"
            assert sorted(name for name, _ in effects_in(tmp_path)) == ["w-after", "w-before"]

    in_place(database, test)


# On a busy machine a socket whose server was killed was left to the garbage collector. Servers run in processes of
# their own, and the client uses the database: in this process only the httpx client of ``Process`` opens sockets.
@pytest.mark.filterwarnings(
    r"ignore:Exception ignored in. <(socket\.socket|function _SelectorTransport\.__del__) "
    ":pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.long
def test_a_server_killed_at_any_write_loses_and_repeats_no_run(database: Database, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    places = [
        Death(each, is_after, chance.randint(1, 2)) for each in OPERATIONS for is_after in (False, True)
    ]
    chance.shuffle(places)

    async def test(url: str) -> None:
        app = make_app(url)
        checked = open_store(url)
        await checked.open()
        servers = Servers(url, tmp_path)
        started = []
        try:
            async with (
                app.worker(),
                AsyncClient(app) as client,
                Process(servers.url, FUNCTIONS, ttl=1000, waits=False) as process,
            ):
                for death in places:
                    await servers.start(death)
                    for _ in range(2):
                        started.append(
                            await client.start("calls", "double", len(started), id=f"k{len(started)}")
                        )
                    await servers.dies()
                await servers.start(None)
                assert [await result(each) for each in started] == [2 * n for n in range(len(started))]
                for number in range(len(started)):
                    promise = await checked.get_promise(f"k{number}.1")
                    assert (promise.state, promise.value) == (PromiseState.RESOLVED, str(2 * number))
                assert {call[1][0] for call in process.calls} == set(range(len(started)))
        finally:
            await servers.kill()
            await app.store.close()
            await checked.close()

    with database() as url:
        asyncio.run(test(url))
