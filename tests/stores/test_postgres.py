"""Rules of the Postgres store alone: a server that goes away, lost replies, other processes."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.errors import AlreadySettled, InvalidValue, NotFound, SchemaTooNew, StoreUnavailable
from signoff.records import (
    Amendment,
    AuditKind,
    LiveText,
    MessageKind,
    NewAuditEvent,
    NewPromise,
    NewRun,
    PromiseKind,
    PromiseState,
    Run,
    RunState,
    Settlement,
)
from signoff.records.paging import AuditFilter, PromiseFilter, RunFilter
from signoff.records.workers import WorkerInfo
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Change
from signoff.stores.postgres import database as postgres_database
from signoff.stores.postgres import functions, schema, writer
from signoff.stores.postgres.pipelined_connection import Link, Statement
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.postgres.writer import LOOP_WAITS
from signoff.testing import VirtualClock
from tests.halves import sample
from tests.postgres.databases import fresh_database
from tests.postgres.pgbouncer import PgBouncer, needs_pgbouncer
from tests.postgres.server import PostgresServer
from tests.stores.scene import (
    GROUP,
    KEPT_FAILURE,
    SUCCESS,
    WORKFLOW,
    YES,
    Scene,
    entry,
    postgres_scene,
    question,
    until,
)
from tests.support import PATIENCE_SECONDS, in_asyncio


@pytest.fixture
def database() -> Iterator[str]:
    with fresh_database() as url:
        yield url


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that the tests of this module stop and start; what it acknowledged is on the disk."""
    with PostgresServer() as started:
        yield started


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


# Replies that are lost


class LossyLink(Link):
    """Loses the reply to what is sent next, once it is armed: the statement is done, unknown to this process."""

    armed = False

    def receive(self, seconds: float | None) -> bytes | None:
        reply = super().receive(seconds)
        if reply is not None and LossyLink.armed:
            LossyLink.armed = False
            self.close()
            raise psycopg.OperationalError("the connection was cut before the reply came")
        return reply


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_database, "Link", LossyLink)
    LossyLink.armed = False


async def _with_message(scene: Scene, run: Run) -> Run:
    await scene.store.signal(run.id, "go", "1")
    return replace(run, wakes=1)


OPERATIONS: dict[str, Callable[[Scene, str], Awaitable[Any]]] = {}


def operation(prepare: Callable[[Scene, str], Awaitable[Any]]) -> Callable[[Any], Any]:
    """Register an operation that is done on what ``prepare`` returns."""

    def register(do: Callable[[Scene, str, Any], Awaitable[Any]]) -> Any:
        async def both(scene: Scene, id: str) -> Any:
            made = await prepare(scene, id)
            LossyLink.armed = id == "lost"
            return await do(scene, id, made)

        OPERATIONS[do.__name__] = both
        return do

    return register


async def _nothing(scene: Scene, id: str) -> None:
    pass


async def _ready(scene: Scene, id: str) -> Run:
    return await scene.start(id)


async def _running(scene: Scene, id: str) -> Run:
    return await scene.run(id)


async def _paused(scene: Scene, id: str) -> Run:
    return await scene.paused(id)


async def _kept(scene: Scene, id: str) -> Run:
    run = await scene.run(id)
    await scene.complete(run, KEPT_FAILURE)
    return run


def _voted(id: str) -> tuple[NewAuditEvent, ...]:
    return tuple(
        NewAuditEvent(f"{id}-{n}", AuditKind.VOTED, f"{id}.0", id, "user:ana", "{}") for n in range(2)
    )


@operation(_nothing)
async def create_run(scene: Scene, id: str, _: None) -> Any:
    return await scene.store.create_run(NewRun(id, WORKFLOW, GROUP, '{"args": []}'))


@operation(_nothing)
async def create_promise(scene: Scene, id: str, _: None) -> Any:
    return await scene.store.create_promise(NewPromise(id, PromiseKind.QUESTION))


@operation(_ready)
async def claim(scene: Scene, id: str, _: Run) -> Any:
    return await scene.claim()


@operation(_running)
async def append(scene: Scene, id: str, run: Run) -> Any:
    return await scene.append(run, entry(0), entry(1))


@operation(_running)
async def append_with_all(scene: Scene, id: str, run: Run) -> Any:
    run = await _with_message(scene, run)
    child = NewRun(f"{id}-child", WORKFLOW, GROUP, "{}", id, 3)
    return await scene.append(run, entry(0), opens=[question(id)], starts=[child], taken=[1], first_seq=0)


@operation(_running)
async def pause(scene: Scene, id: str, run: Run) -> Any:
    return await scene.pause(run, entry(0), opens=[question(id)])


@operation(_running)
async def pause_that_something_came_before(scene: Scene, id: str, run: Run) -> Any:
    await _with_message(scene, run)
    return await scene.pause(run, entry(0), opens=[question(id)])


@operation(_running)
async def complete(scene: Scene, id: str, run: Run) -> Any:
    return await scene.complete(run, SUCCESS, entries=[entry(0)])


@operation(_paused)
async def settle(scene: Scene, id: str, _: Run) -> Any:
    return await scene.settle(f"{id}.0")


@operation(_paused)
async def settle_a_late_one(scene: Scene, id: str, _: Run) -> Any:
    await scene.store.create_promise(NewPromise(f"{id}-late", PromiseKind.QUESTION, due_at=1.0))
    with pytest.raises(AlreadySettled) as error:
        await scene.settle(f"{id}-late")
    return error.value.state


@operation(_paused)
async def amend(scene: Scene, id: str, _: Run) -> Any:
    return await scene.store.amend(f"{id}.0", Amendment(0, "1", ("user:bob",), 5e6, events=_voted(id)))


@operation(_paused)
async def amend_and_settle(scene: Scene, id: str, _: Run) -> Any:
    return await scene.store.amend(f"{id}.0", Amendment(0, "1", (), None, YES, _voted(id)))


@operation(_paused)
async def amend_a_late_one(scene: Scene, id: str, _: Run) -> Any:
    await scene.store.create_promise(NewPromise(f"{id}-late", PromiseKind.QUESTION, due_at=1.0))
    return await scene.store.amend(f"{id}-late", Amendment(0, "1", (), None, YES))


@operation(_nothing)
async def record(scene: Scene, id: str, _: None) -> Any:
    return await scene.store.record(_voted(id))


@operation(_paused)
async def signal(scene: Scene, id: str, _: Run) -> Any:
    return await scene.store.signal(id, "go", "1")


@operation(_paused)
async def signal_with_a_request_id(scene: Scene, id: str, _: Run) -> Any:
    return await scene.store.signal(id, "go", "1", request_id="q")


@operation(_paused)
async def cancel(scene: Scene, id: str, _: Run) -> Any:
    return await scene.store.cancel(id, reason="enough", by="user:ana")


@operation(_ready)
async def cancel_at_once(scene: Scene, id: str, _: Run) -> Any:
    return await scene.store.cancel(id)


@operation(_kept)
async def retry(scene: Scene, id: str, _: Run) -> Any:
    return await scene.store.retry(id, token="t")


async def _everything_of(scene: Scene, id: str) -> str:
    """All of a run's stored state, in words that are the same for every id and every claim."""
    found: list[Any] = [
        run for run in (await scene.store.list_runs(RunFilter())).items if run.id.startswith(id)
    ]
    for run in list(found):
        found += await scene.store.read_journal(run.id)
        found += await scene.store.read_messages([run.id])
    promises = (await scene.store.list_promises(PromiseFilter())).items
    found += [promise for promise in promises if promise.id.startswith(id)]
    events = (await scene.store.list_audit(AuditFilter())).items
    found += [replace(event, id="") for event in events if event.question_id.startswith(id)]
    return repr(found).replace(id, "ID")


@pytest.mark.usefixtures("lossy")
@pytest.mark.parametrize("name", sample(OPERATIONS, every=6))
@in_asyncio
async def test_an_operation_whose_reply_was_lost_is_done_once(name: str, tmp_path: Path) -> None:
    outcomes: list[tuple[str, str]] = []
    for id in ("kept", "lost"):
        async with postgres_scene(tmp_path) as scene:
            result = await OPERATIONS[name](scene, id)
            assert not LossyLink.armed, "the reply was lost"
            outcomes.append((repr(result).replace(id, "ID"), await _everything_of(scene, id)))
    assert outcomes[0] == outcomes[1]


# A server that goes away


async def _signal_all(store: PostgresStore, run_id: str, count: int, done: list[str]) -> None:
    async def one(number: int) -> None:
        await asyncio.sleep(number * 0.004)
        assert await store.signal(run_id, "go", str(number))
        done.append(str(number))

    await asyncio.gather(*(one(number) for number in range(count)))


async def _values(store: PostgresStore, run_id: str) -> list[str | None]:
    return [message.value for message, _ in await store.read_messages([run_id])]


@pytest.mark.parametrize("mode", sample(["kill", "fast", "immediate"]))
@in_asyncio
async def test_a_restart_of_the_server_is_waited_for_and_nothing_is_done_twice(
    mode: Any, server: PostgresServer
) -> None:
    def restart() -> None:
        for _ in range(2):
            time.sleep(0.2)
            if mode == "kill":
                server.kill()
                server.start()
            else:
                server.restart(mode)

    async with opened(server.url()) as store:
        await store.create_run(NewRun(f"r-{mode}", WORKFLOW, GROUP, "{}"))
        done: list[str] = []
        await asyncio.gather(asyncio.to_thread(restart), _signal_all(store, f"r-{mode}", 200, done))
        values = await _values(store, f"r-{mode}")
        assert sorted(values, key=str) == sorted(done) == sorted(str(n) for n in range(200))
        await store.due()
        assert (await store.get_run(f"r-{mode}")).state is RunState.READY


@in_asyncio
async def test_back_ends_that_are_killed_again_and_again_lose_and_double_nothing(database: str) -> None:
    stopped = threading.Event()
    done: list[str] = []

    def kill() -> None:
        killed_at = -1
        with psycopg.connect(database, autocommit=True) as connection:
            while not stopped.wait(0.1):
                if killed_at == len(
                    done
                ):  # where connecting takes longer than that, nothing would ever be done
                    continue
                killed_at = len(done)
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'signoff' AND datname = current_database()"
                )

    async with opened(database) as store:
        await store.create_run(NewRun("r", WORKFLOW, GROUP, "{}"))
        killing = asyncio.get_running_loop().run_in_executor(None, kill)
        try:
            await _signal_all(store, "r", 100, done)
            for _ in range(20):
                await store.get_run("r")
                done.append("read")
                await store.due()
                done.append("looked")
        finally:
            stopped.set()
            await killing
        assert sorted(await _values(store, "r"), key=str) == sorted(str(n) for n in range(100))


@pytest.mark.long
@in_asyncio
async def test_a_caller_out_of_patience_gets_an_error_and_may_retry_later(
    server: PostgresServer,
) -> None:
    async with opened(server.url(), patience_seconds=5) as store:
        await store.create_run(NewRun("patience", WORKFLOW, GROUP, "{}"))
        await asyncio.to_thread(server.stop)
        try:
            attempts: list[Awaitable[Any]] = [
                store.signal("patience", "go", "1"),
                store.get_run("patience"),
                store.due(),
            ]
            password = server.url().split(":")[2].split("@")[0]
            for error in await asyncio.gather(*attempts, return_exceptions=True):
                assert isinstance(error, StoreUnavailable)
                assert password not in str(error)
                assert "127.0.0.1" in str(error)
        finally:
            await asyncio.to_thread(server.start)
        assert await store.signal("patience", "go", "2")
        assert (await store.get_run("patience")).wakes in (1, 2)


@in_asyncio
async def test_a_store_can_be_closed_while_the_server_is_gone(server: PostgresServer) -> None:
    store = PostgresStore(server.url())
    await store.open()
    waiting = None
    try:
        await asyncio.to_thread(server.stop)
        waiting = asyncio.create_task(store.signal("r", "go", "1"))
        await asyncio.sleep(0.05)
    finally:
        async with asyncio.timeout(60):
            await store.close()
        await asyncio.to_thread(server.start)
    assert waiting is not None
    with pytest.raises(StoreUnavailable):
        await waiting
    with pytest.raises(StoreUnavailable):
        await store.get_run("r")


# Several processes


@in_asyncio
async def test_serialization_failures_are_tried_again(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")  # type: ignore[arg-type]
    async with opened(database) as one, opened(database) as two, opened(database) as three:
        stores = (one, two, three)
        await one.create_run(NewRun("r", WORKFLOW, GROUP, "{}"))
        await one.create_promise(NewPromise("p"))
        signals = [store.signal("r", "go", f"{n}") for n in range(30) for store in stores]
        settles = [
            store.settle("p", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, f"{n}", by=f"user:{n}"))
            for n, store in enumerate(stores * 5)
        ]
        results = await asyncio.gather(*signals, *settles, return_exceptions=True)
        assert results[: len(signals)] == [True] * len(signals)
        assert sum(isinstance(result, tuple) for result in results) == 1
        assert sum(isinstance(result, AlreadySettled) for result in results) == len(settles) - 1
        assert len(await _values(two, "r")) == len(signals)


@in_asyncio
async def test_each_deadline_fires_once_however_many_look(database: str) -> None:
    clock = VirtualClock(1_000_000.0)
    async with opened(database, clock=clock) as one, opened(database, clock=clock) as two:
        for number in range(60):
            await one.create_run(NewRun(f"r{number}", WORKFLOW, GROUP, "{}", deadline_at=1_000_010.0))
        await one.enlist(WorkerInfo("w", "host", 10, 1.5, GROUP))
        runs = [claim.run for claim in await one.claim("w", GROUP, [WORKFLOW], 100)]
        for run in runs:
            opens = [question(run.id, due_at=1_000_010.0)]
            write = Write(run.id, run.epoch, entries=[entry(0)], opens=opens)
            await one.pause(write, wakes=0, wake_at=1_000_010.0)
        clock.advance(10)
        await asyncio.gather(*(store.due() for _ in range(5) for store in (one, two)))
        await two.due()
        messages = await two.read_messages([run.id for run in runs])
        told = sorted((message.run_id, message.kind) for message, _ in messages)
        kinds = (MessageKind.DEADLINE, MessageKind.SETTLED)
        assert told == sorted((run.id, kind) for run in runs for kind in kinds)


@in_asyncio
async def test_parents_and_children_in_two_processes_never_deadlock(
    database: str,
) -> None:
    """A child that ends tells its parent, while the parent cancels the child: both lock both."""
    async with (
        opened(database, inline_below_seconds=0) as one,
        opened(database, inline_below_seconds=0) as two,
    ):
        stores = (one, two)
        families = 60
        for number in range(families):
            await one.create_run(NewRun(f"p{number}", "parent", GROUP, "{}"))
        parents = [claim.run for claim in await one.claim("w", GROUP, ["parent"], families)]
        for number, run in enumerate(parents):
            child = NewRun(f"c{number}", "child", GROUP, "{}", run.id, 1)
            await one.append(Write(run.id, run.epoch, opens=[question(run.id)], starts=[child]))
        children = [claim.run for claim in await two.claim("v", GROUP, ["child"], families)]
        jobs: list[Awaitable[Any]] = []
        for parent, child in zip(parents, children, strict=True):
            jobs.append(stores[1].complete(Write(child.id, child.epoch), SUCCESS))
            jobs.append(
                stores[0].append(
                    Write(parent.id, parent.epoch, closes=[f"{parent.id}.0"], cancels=[child.id])
                )
            )
            jobs.append(stores[1].settle(f"{parent.id}.0", PromiseKind.QUESTION, YES))
        results = await asyncio.gather(*jobs, return_exceptions=True)
        assert not [
            error
            for error in results
            if isinstance(error, Exception) and not isinstance(error, AlreadySettled)
        ]
        with psycopg.connect(database) as connection:
            counted = connection.execute(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        assert counted == (0,)


@in_asyncio
async def test_votes_and_the_ends_of_their_runs_never_deadlock(database: str) -> None:
    """A vote that settles wakes the run, while the run gives its questions up: both lock both."""
    async with (
        opened(database, inline_below_seconds=0) as one,
        opened(database, inline_below_seconds=0) as two,
    ):
        count = 100
        for number in range(count):
            await one.create_run(NewRun(f"r{number}", WORKFLOW, GROUP, "{}"))
        runs = [claim.run for claim in await one.claim("w", GROUP, [WORKFLOW], count)]
        for run in runs:
            await one.append(Write(run.id, run.epoch, opens=[question(run.id), question(run.id, 1)]))
        vote = Amendment(0, "1", (), None, YES)

        async def give_up() -> None:
            for run in runs:
                await one.append(Write(run.id, run.epoch, closes=[f"{run.id}.1", f"{run.id}.0"]))

        async def decide() -> None:
            for run in runs:
                await asyncio.gather(*(two.amend(f"{run.id}.{n}", vote) for n in range(2)))

        await asyncio.gather(give_up(), decide())
        with psycopg.connect(database) as connection:
            counted = connection.execute(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        assert counted == (0,)


@in_asyncio
async def test_other_processes_are_notified_of_changes(database: str) -> None:
    async with opened(database) as one, opened(database) as two:
        heard: list[Change] = []
        two.listen(heard.append)
        two.within("acme").listen(lambda change: pytest.fail("nothing crosses a namespace"))
        await one.create_run(NewRun("r", WORKFLOW, GROUP, "{}"))
        await until(lambda: len(heard) == 1)
        one_run = frozenset({"r"})
        assert heard.pop() == Change(runs=one_run, ready=True, due=False)
        [claim] = await one.claim("w", GROUP, [WORKFLOW], 1)
        await one.append(Write("r", 1, entries=[entry(0)]))
        await until(lambda: len(heard) >= 1)
        assert heard[0] == Change(runs=one_run, ready=False, due=False)
        heard.clear()
        await one.publish([LiveText("r", 1, 0, 1, "answer", 1, 0, "text", "Hello")])
        await until(lambda: {*heard} == {Change(runs=one_run, ready=False, due=False)})
        assert [each.text for each in await two.read_live("r")] == ["Hello"]
        heard.clear()
        await one.signal("r", "go", "1")
        await until(lambda: any(change.woken for change in heard))
        assert heard[-1].woken == one_run
        await one.complete(Write("r", claim.run.epoch), SUCCESS)
        await until(lambda: any(change.ended for change in heard))


@in_asyncio
async def test_more_than_fits_a_notification_is_announced_as_any_change(database: str) -> None:
    async with opened(database) as one, opened(database) as two:
        heard: list[Change] = []
        two.listen(heard.append)
        names = [f"{number:>0200}" for number in range(100)]
        await asyncio.gather(*(one.create_run(NewRun(name, WORKFLOW, GROUP, "{}")) for name in names))
        await until(lambda: any(change.runs is None for change in heard))


@in_asyncio
async def test_who_could_not_listen_for_a_while_looks_at_everything(database: str) -> None:
    async with opened(database) as one, opened(database) as two:
        heard: list[Change] = []
        two.listen(heard.append)
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'signoff' AND datname = current_database()"
            )
        await until(lambda: any(change.runs is None for change in heard))
        heard.clear()
        await one.create_run(NewRun("r", WORKFLOW, GROUP, "{}"))
        await until(lambda: any(change.runs and "r" in change.runs for change in heard) or bool(heard))


@in_asyncio
async def test_what_is_not_understood_on_the_channel_is_taken_for_anything(database: str) -> None:
    async with opened(database) as store:
        heard: list[Change] = []
        store.listen(heard.append)
        with psycopg.connect(database, autocommit=True) as connection:
            for payload in ("", "nonsense", "[1]", '{"from": "x", "in": 3}'):
                connection.execute("SELECT pg_notify('signoff', %s)", (payload,))
        await until(lambda: len(heard) == 4)
        assert all(change.runs is None for change in heard)


@in_asyncio
async def test_processes_of_two_versions_understand_each_others_notifications(database: str) -> None:
    """As in a rolling deploy. Versions without ``settled`` expect four parts for each namespace, and drop others."""
    before = {"from": "x", "due": False, "in": {"default": [["r"], [], [], True]}}
    async with opened(database) as store:
        heard: list[Change] = []
        store.listen(heard.append)
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("LISTEN signoff")
            connection.execute("SELECT pg_notify('signoff', %s)", (json.dumps(before),))
            await until(lambda: len(heard) == 1)
            assert heard.pop() == Change(runs=frozenset({"r"}), ready=True, due=False)
            await store.create_promise(NewPromise("p"))
            await store.settle("p", PromiseKind.PROMISE, YES)
            sent = [json.loads(each.payload) for each in connection.notifies(timeout=2.0, stop_after=2)]
    assert [len(parts) for each in sent for parts in each["in"].values()] == [4] * len(sent)
    assert sent[-1]["settled"] == ["default"]


# Time


@in_asyncio
async def test_the_databases_time_decides_and_not_the_machines(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    async with opened(database) as right:
        monkeypatch.setattr(time, "time", lambda: real() + 3600.0)
        async with opened(database) as wrong:
            assert abs(wrong.clock.now() - real()) < 600.0
            await wrong.create_promise(NewPromise("p", due_at=wrong.clock.now() + 1800.0))
            await wrong.create_promise(NewPromise("late", due_at=real() - 0.1))
            with pytest.raises(AlreadySettled):
                await wrong.settle("late", PromiseKind.PROMISE, YES)
            await wrong.due()
            assert (await right.get_promise("p")).state is PromiseState.PENDING
            await wrong.create_run(NewRun("r", WORKFLOW, GROUP, "{}"))
            [claim] = await wrong.claim("w", GROUP, [WORKFLOW], 1)
            assert claim.run.lease_until is not None
            assert abs(claim.run.lease_until - (real() + 10.0)) < 600.0


# Two event loops, and replies that are late for those who wait on them


class LateLink(Link):
    """Every few replies are not there yet for a loop that waits a moment, and come to the thread."""

    count = 0

    def receive(self, seconds: float | None) -> bytes | None:
        LateLink.count += 1
        if seconds == LOOP_WAITS and LateLink.count % 7 == 0:
            time.sleep(LOOP_WAITS)
            return None
        return super().receive(seconds)


@in_asyncio
async def test_two_event_loops_share_a_store_whose_replies_are_late(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "Link", LateLink)
    async with opened(database, inline_below_seconds=60) as store:
        for name in ("one", "two"):
            await store.create_run(NewRun(name, WORKFLOW, GROUP, "{}"))

        async def signal(name: str) -> None:
            for number in range(150):
                await store.signal(name, "go", str(number))

        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(asyncio.to_thread(asyncio.run, signal(name)) for name in ("one", "two")))
        for name in ("one", "two"):
            assert sorted(await _values(store, name), key=int) == [str(number) for number in range(150)]


def test_a_polling_connection_sees_a_reply_and_stops_at_its_limit(database: str) -> None:
    link = Link(lambda: psycopg.connect(database, autocommit=True), prepares=False)
    link.open()
    try:
        began = time.monotonic()
        link.stay_awake(0.05)
        assert time.monotonic() - began >= 0.05
        link.send(Statement.APPLY, [b"{}"])  # refused: there is no such function yet
        link.stay_awake(PATIENCE_SECONDS)
        assert time.monotonic() - began < PATIENCE_SECONDS
        with pytest.raises(psycopg.errors.InvalidSchemaName):
            link.receive(0.0)
    finally:
        link.close()


@pytest.mark.parametrize(("below", "cores", "stays"), [(60.0, 2, True), (60.0, 1, False), (0.001, 2, False)])
@in_asyncio
async def test_only_fast_replies_are_polled_for_and_only_with_spare_cores(
    below: float, cores: int, stays: bool, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    awake: list[float] = []

    class WatchedLink(Link):
        def stay_awake(self, seconds: float) -> None:
            awake.append(seconds)

        def receive(self, seconds: float | None) -> bytes | None:
            time.sleep(0.002)
            return super().receive(PATIENCE_SECONDS)

    monkeypatch.setattr(postgres_database, "Link", WatchedLink)
    monkeypatch.setattr(writer, "AWAKE_BELOW", below)
    monkeypatch.setattr(writer, "CORES", cores)
    async with opened(database, inline_below_seconds=60) as store:
        await store.create_run(NewRun("r", WORKFLOW, GROUP, "{}"))
        for number in range(50):  # the average of the last 20 replies is over a millisecond by then
            assert await store.signal("r", "go", str(number))
    assert awake
    assert (awake[-1] > 0) is stays


@in_asyncio
async def test_closing_a_store_during_a_wait_finishes_the_reply_first(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, closing = threading.Event(), threading.Event()

    class SlowLink(Link):
        def receive(self, seconds: float | None) -> bytes | None:
            if seconds != LOOP_WAITS or not sent.is_set() or closing.is_set():
                return super().receive(seconds)
            closing.set()
            time.sleep(0.3)  # meanwhile the store is closed
            return None

    monkeypatch.setattr(postgres_database, "Link", SlowLink)
    async with opened(database) as other:
        store = PostgresStore(database, inline_below_seconds=60)
        await store.open()
        await store.create_run(NewRun("r", WORKFLOW, GROUP, "{}"))

        def close() -> None:
            assert closing.wait(PATIENCE_SECONDS)
            asyncio.run(store.close())

        sent.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            closed = asyncio.get_running_loop().run_in_executor(None, close)
            left = 0
            while not closing.is_set():  # a loop sends for itself when the writer's thread has nothing to do
                assert await store.signal("r", "go", str(left))
                left += 1
            await closed
        assert await _values(other, "r") == [str(number) for number in range(left)]


@in_asyncio
async def test_an_id_that_postgres_cannot_keep_is_not_found_alone(database: str) -> None:
    async with opened(database) as store:
        await store.create_run(NewRun("r", WORKFLOW, GROUP, "{}"))
        found = await asyncio.gather(
            *(store.get_run(id) for id in ("r", "a\0b", "\ud800", "missing")), return_exceptions=True
        )
        assert isinstance(found[0], Run)
        assert [type(error) for error in found[1:]] == [NotFound] * 3


# Behind PgBouncer


@needs_pgbouncer
@pytest.mark.parametrize("listens", [True, False])
@in_asyncio
async def test_runs_continue_through_a_pooler_in_transaction_mode(
    server: PostgresServer, listens: bool
) -> None:
    with PgBouncer(server.url(), pool_size=4) as bouncer:
        address = server.url() if listens else ""
        stores = [PostgresStore(bouncer.url(), listen_address=address) for _ in range(2)]
        app, elsewhere = (Signoff(store) for store in stores)

        @app.workflow
        async def approve(ctx: Context, number: int) -> list[object]:
            begun = await ctx.step("begin", lambda: number)
            answer = await ctx.wait_for_user("go on?")
            return [begun, answer.approved]

        try:
            async with AsyncClient(app) as client, AsyncClient(elsewhere) as other, app.worker():
                handles = [await client.start(approve, number) for number in range(20)]
                for _ in range(10):  # often enough for psycopg to prepare a statement
                    await other.list()
                answered: set[str] = set()
                while len(answered) < len(handles):
                    for question in (await other.questions()).items:
                        await other.answer(question.id, True)
                        answered.add(question.id)
                for number, handle in enumerate(handles):
                    assert await handle.result(60) == [number, True]
        finally:
            for store in stores:
                await store.close()


@needs_pgbouncer
@in_asyncio
async def test_an_undeclared_pooler_is_detected(server: PostgresServer) -> None:
    """It gives each transaction another connection, which knows nothing of what was prepared."""
    with PgBouncer(server.url(), pool_size=2) as bouncer:
        stores = [PostgresStore(bouncer.url()) for _ in range(3)]
        try:
            for store in stores:
                await store.open()
            for turn in range(10):
                ids = [f"pooled-{turn}-{place}" for place, _ in enumerate(stores)]
                await asyncio.gather(
                    *(
                        store.create_run(NewRun(id, "pooled", "pooled", "{}"))
                        for store, id in zip(stores, ids, strict=True)
                    )
                )
                found = await asyncio.gather(*(store.get_run(id) for store in stores for id in ids))
                assert {run.id for run in found} == set(ids)
        finally:
            for store in stores:
                await store.close()


# Opening


@in_asyncio
async def test_many_processes_may_open_a_new_database_at_once(database: str) -> None:
    stores = [PostgresStore(database) for _ in range(8)]
    try:
        await asyncio.gather(*(store.open() for store in stores))
        await stores[3].create_run(NewRun("r", WORKFLOW, GROUP, "{}"))
        assert (await stores[5].get_run("r")).id == "r"
    finally:
        await asyncio.gather(*(store.close() for store in stores))


@in_asyncio
async def test_a_database_of_a_newer_version_is_refused(database: str) -> None:
    async with opened(database):
        pass
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO signoff.migrations VALUES (999)")
    with pytest.raises(SchemaTooNew, match=f"has schema {999 + functions.VERSION}"):
        await PostgresStore(database).open()


@in_asyncio
async def test_a_migration_that_fails_leaves_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = schema.migrations()
    monkeypatch.setattr(schema, "migrations", lambda: [*scripts, "CREATE TABLE signoff.runs ()"])
    with pytest.raises(StoreUnavailable, match="already exists"):
        await PostgresStore(database).open()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT to_regclass('signoff.runs')").fetchone() == (None,)


@in_asyncio
async def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    address = "postgresql://ana:secret@127.0.0.1:1/nowhere"
    store = PostgresStore(address, patience_seconds=0)
    with pytest.raises(StoreUnavailable, match=r"postgresql://127\.0\.0\.1:1/nowhere") as error:
        await store.open()
    assert "secret" not in str(error.value)
    with pytest.raises(StoreUnavailable):
        await store.get_run("r")


@pytest.mark.parametrize("address", ["postgresql://[::1/x", "postgresql://h/db?no_such_option=1"])
def test_a_wrong_address_is_refused_with_a_reason(address: str) -> None:
    with pytest.raises(InvalidValue, match="store"):
        PostgresStore(address)


@in_asyncio
async def test_text_that_postgres_cannot_keep_is_refused_alone(tmp_path: Path) -> None:
    async with postgres_scene(tmp_path) as scene:
        await scene.start()
        results = await asyncio.gather(
            *(scene.store.signal("r", "go", "1", by=f"user:{n}") for n in range(5)),
            scene.store.signal("r", "go", "1", by="a\0b"),
            return_exceptions=True,
        )
        assert results[:5] == [True] * 5
        assert isinstance(results[5], InvalidValue)
        with pytest.raises(InvalidValue):
            await scene.store.signal("r", "go", "1", by="\ud800")
        assert await scene.store.signal("r", "go", '"a\\u0000b"'), "as JSON it is no problem"
        assert len(await scene.messages()) == 6
