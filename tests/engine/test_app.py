"""The entry points of the engine: registering, starting, handles, promises, from blocking and async code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from signoff import (
    AlreadySettled,
    AsyncClient,
    Client,
    Context,
    IdConflict,
    NotFound,
    PromiseRejected,
    RunCancelled,
    RunState,
    Signoff,
)
from signoff.errors import (
    BlockingCall,
    ClientClosed,
    InvalidValue,
    NotSerializable,
    RegistrationError,
    RequestConflict,
)
from signoff.records import EntryKind, PromiseState
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import MemoryStore
from tests.support import in_asyncio, new_app, opened, running


class Order(BaseModel):
    id: str
    cents: int


class Failure(Exception):
    """Raised by a workflow."""


def _register(app: Signoff) -> None:
    @app.workflow
    async def echo(ctx: Context, value: Any) -> Any:
        return value

    @app.workflow
    async def double(ctx: Context, order: Order) -> Order:
        return Order(id=order.id, cents=2 * order.cents)

    @app.workflow
    async def fail(ctx: Context) -> None:
        raise Failure("why")

    @app.workflow
    async def wait(ctx: Context) -> Any:
        return await ctx.wait_for_signal("go")

    @app.workflow
    async def wait_for_promise(ctx: Context, id: str) -> Any:
        return await (await ctx.promise(id=id))


@contextmanager
def _blocking(folder: Path) -> Iterator[Signoff]:
    app = new_app(folder)
    _register(app)
    try:
        with app.worker():
            yield app
    finally:
        app.close()


def test_a_handle_tells_of_its_run(tmp_path: Path) -> None:
    with _blocking(tmp_path) as app:
        handle = app.start("wait", id="r")
        assert handle.id == "r"
        assert not handle.done
        assert handle.status in (RunState.READY, RunState.RUNNING, RunState.PAUSED)
        with pytest.raises(TimeoutError):
            handle.result(timeout=0.05)
        assert handle.signal("go", [1, 2])
        assert handle.result(timeout=60) == [1, 2]
        assert handle.done
        assert handle.status is RunState.SUCCEEDED
        kinds = [entry.kind for entry in handle.events()]
        assert kinds[0] is EntryKind.STARTED
        assert kinds[-1] is EntryKind.SUCCEEDED
        assert [entry.kind for entry in handle.events(after=0)] == kinds[1:]
        assert app.get("r").result() == [1, 2]


def test_a_handle_returns_the_declared_result_and_the_typed_error(tmp_path: Path) -> None:
    with _blocking(tmp_path) as app:
        double = app.registry.program("double", None).function
        assert app.start(double, Order(id="o", cents=2)).result() == Order(id="o", cents=4)
        with pytest.raises(Failure, match="why"):
            app.start("fail").result()
        cancelled = app.start("wait")
        cancelled.cancel("not needed")
        with pytest.raises(RunCancelled, match="not needed"):
            cancelled.result(60)


def test_events_are_followed_live(tmp_path: Path) -> None:
    with _blocking(tmp_path) as app:
        handle = app.start("wait", id="r")
        events = handle.events()
        assert next(events).kind is EntryKind.STARTED
        app.signal("r", "go", 1)
        kinds = [entry.kind for entry in events]
        assert kinds[-2:] == [EntryKind.SIGNALLED, EntryKind.SUCCEEDED]


def test_starting_an_id_twice_starts_once_and_other_arguments_conflict(tmp_path: Path) -> None:
    with _blocking(tmp_path) as app:
        assert app.start("echo", {"a": 1, "b": 2}, id="r").result() == {"a": 1, "b": 2}
        assert app.start("echo", {"b": 2, "a": 1}, id="r").result() == {"a": 1, "b": 2}
        for again in (("echo", {"a": 2}), ("wait",)):
            with pytest.raises(IdConflict):
                app.start(*again, id="r")
        assert len(list(app.get("r").events())) == 2


def test_what_cannot_be_started_is_refused_at_once(tmp_path: Path) -> None:
    with _blocking(tmp_path) as app:
        double = app.registry.program("double", None).function
        with pytest.raises(NotSerializable, match="args"):
            app.start("echo", object())
        for wrong in ((), (1, 2), ({"id": "o"},)):
            with pytest.raises(InvalidValue):
                app.start(double, *wrong)
        for id in ("", " r", "a\nb", "x" * 257):
            with pytest.raises(InvalidValue):
                app.start("echo", 1, id=id)
        with pytest.raises(RegistrationError):
            app.start(lambda ctx: None)
        with pytest.raises(NotFound):
            app.get("nothing")


def test_the_generator_styles_terms(tmp_path: Path) -> None:
    with _blocking(tmp_path) as app:
        echo = app.registry.program("echo", None).function
        assert app.run("a", echo, 1) == 1
        assert app.begin_run("b", echo, 2).result() == 2
        assert app.rpc("c", "echo", 3) == 3
        assert app.begin_rpc("d", "echo", 4).result() == 4
        with pytest.raises(RegistrationError):
            app.run("e", len, 5)


def test_options_route_a_run_to_the_workers_of_a_group(tmp_path: Path) -> None:
    with _blocking(tmp_path) as app:
        elsewhere = app.options(target="poll://any@gpu", timeout_seconds=60)
        handle = elsewhere.begin_rpc("r", "echo", 1)
        with pytest.raises(TimeoutError):
            handle.result(timeout=0.2)
        with app.worker(group="gpu"):
            assert handle.result(timeout=60) == 1
        assert app.options(target="default").rpc("s", "echo", 2) == 2
        for wrong in ("poll://gpu", "http://any@gpu", "poll://any@"):
            with pytest.raises(RegistrationError):
                app.options(target=wrong)


def test_promises_are_settled_once_by_their_id(tmp_path: Path) -> None:
    with _blocking(tmp_path) as app:
        assert app.promises.create("p", data={"for": "you"}).state is PromiseState.PENDING
        assert app.promises.create("p").id == "p"
        waiting = app.start("wait_for_promise", "p")
        settled = app.promises.resolve("p", {"x": 1}, by="ana", request_id="q")
        assert (settled.state, settled.settled_by) == (PromiseState.RESOLVED, "ana")
        assert waiting.result(60) == {"x": 1}
        assert app.promises.resolve("p", {"x": 1}, by="ana", request_id="q") == settled
        with pytest.raises(RequestConflict):
            app.promises.resolve("p", {"x": 2}, request_id="q")
        with pytest.raises(AlreadySettled, match="ana"):
            app.promises.reject("p")
        assert app.promises.get("p") == settled
        for unknown in (app.promises.get, app.promises.resolve, app.promises.cancel):
            with pytest.raises(NotFound):
                unknown("nothing")
        rejected = app.start("wait_for_promise", "q")
        app.promises.create("q2")
        assert app.promises.cancel("q2").state is PromiseState.CANCELLED
        while True:
            try:
                app.promises.reject("q", "no")
                break
            except NotFound:
                continue
        with pytest.raises(PromiseRejected, match="no"):
            rejected.result(60)


@in_asyncio
async def test_blocking_methods_refuse_to_block_an_event_loop(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    _register(app)
    client = await asyncio.to_thread(Client, app)
    blocking = [
        lambda: client.start("echo", 1),
        lambda: client.get("r"),
        lambda: client.promises.get("p"),
        client.list,
        client.close,
    ]
    for call in blocking:
        with pytest.raises(BlockingCall, match="AsyncClient"):
            call()
    await asyncio.to_thread(client.close)
    await app.store.close()


def test_closing_a_client_ends_calls_of_other_threads_and_refuses_new_ones(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    _register(app)
    client = Client(app)
    run = client.start("echo", 1)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(run.result)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        client.close()
        with pytest.raises(ClientClosed, match=r"result: .* closed"):
            waiting.result(60)
    with pytest.raises(ClientClosed, match="start"):
        client.start("echo", 1)
    client.close()
    asyncio.run(app.store.close())


def test_a_client_lets_go_of_its_thread_though_its_store_cannot_be_closed(tmp_path: Path) -> None:
    class Stuck(SqliteStore):
        async def close(self) -> None:
            raise RuntimeError("it does not close")

    before = set(threading.enumerate())
    store = Stuck(tmp_path / "signoff.db")
    app = Signoff(store)
    _register(app)
    app.start("echo", 1)
    with pytest.raises(RuntimeError, match="it does not close"):
        app.close()
    assert not [each for each in set(threading.enumerate()) - before if each.name == "signoff client"]
    asyncio.run(SqliteStore.close(store))


@in_asyncio
async def test_runs_and_questions_are_listed_in_pages(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    _register(app)
    async with running(app) as client:
        for n in range(5):
            await (await client.start("echo", n, id=f"r{n}")).result(60)
        first = await client.list(workflow="echo", limit=3)
        rest = await client.list(workflow="echo", limit=3, after=first.next)
        assert [run.id for run in (*first.items, *rest.items)] == ["r4", "r3", "r2", "r1", "r0"]
        assert rest.next is None
        assert not (await client.list(states=["failed"])).items


@in_asyncio
async def test_an_apps_namespace_is_its_own(tmp_path: Path) -> None:
    apps = [Signoff(f"sqlite:///{tmp_path}/signoff.db", namespace=name) for name in ("a", "b")]
    for app in apps:
        _register(app)
    async with opened(apps[0]) as a, opened(apps[1]) as b, apps[0].worker():
        await (await a.start("echo", 1, id="r")).result(60)
        with pytest.raises(NotFound):
            await b.get("r")
        assert not (await b.list()).items


def test_a_store_of_another_namespace_is_refused() -> None:
    """It would keep the runs of this tenant with those of another."""
    with pytest.raises(InvalidValue, match="namespace 'default'.*namespace='acme'"):
        Signoff(MemoryStore(), namespace="acme")
    for given in (None, "acme"):
        assert Signoff(MemoryStore(namespace="acme"), namespace=given).store.namespace == "acme"


@pytest.mark.parametrize("store", [None, 5, Path("signoff.db")])
def test_an_object_that_is_not_a_store_is_refused(store: Any) -> None:
    with pytest.raises(InvalidValue, match="store: .* is neither a URL"):
        Signoff(store)


# Registering


def test_what_is_not_a_workflow_cannot_be_registered(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def no_context() -> None: ...

    class Shop:
        async def refund(self, ctx: Context) -> None: ...

    for wrong in (lambda ctx: None, len, no_context, Shop().refund):
        with pytest.raises(RegistrationError):
            app.workflow(wrong)


def test_a_name_and_version_is_registered_once(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None: ...

    assert app.workflow(flow) is flow

    async def other(ctx: Context) -> None: ...

    with pytest.raises(RegistrationError, match="twice"):
        app.workflow(name="flow")(other)
    app.workflow(name="flow", version="2")(other)
    assert app.registry.program("flow", None).version == "2"
    assert app.registry.program("flow", "1").function is flow


def test_a_refused_registration_leaves_the_known_one(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None: ...

    async def other(ctx: Context) -> None: ...

    with pytest.raises(RegistrationError):
        app.workflow(name="flow")(other)
    assert app.registry.program("flow", "1").function is flow


def test_a_client_leaves_the_apps_store_open(tmp_path: Path) -> None:
    with _blocking(tmp_path) as app:
        with Client(app) as client:
            assert client.start("echo", 1).result() == 1

        async def use() -> Any:
            async with AsyncClient(app) as again:
                return await (await again.start("echo", 2)).result(60)

        assert asyncio.run(use()) == 2
