"""A client on a store and one on a server behave alike: equal results, equal errors."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Client, Entry, Promise, Run, RunState, Schedule, Signoff, SignoffError
from signoff.errors import ClientClosed
from signoff.records import AuditKind, NewPromise, Rate
from signoff.records.paging import Page, PromiseFilter
from signoff.testing import VirtualClock
from signoff.wire.records import to_wire
from tests.server.conftest import app_in, serving
from tests.server.workflows import Refund
from tests.support import OnThread, in_asyncio, reaches, until

pytestmark = pytest.mark.usefixtures("open_trail")

LEFT_TO_CHANCE = {"epoch", "wakes", "wake_at", "worker_id", "lease_until"}  # how far its worker happens to be
NOT_THE_SAME = LEFT_TO_CHANCE | {"origin"}  # one comes from this program, one over HTTP


@dataclass(frozen=True)
class Scene:
    """A client, and the app behind it to wait for what its worker does."""

    client: AsyncClient
    app: Signoff

    async def question(self, run_id: str) -> str:
        await reaches(self.app, run_id, RunState.PAUSED)
        return f"{run_id}.1"


Play = Callable[[Scene], AsyncIterator[Any]]
plays: dict[str, Play] = {}


def play(function: Play) -> Play:
    plays[function.__name__] = function
    return function


async def tried(call: Awaitable[Any]) -> Any:
    """What a call returns, or what it raises."""
    try:
        return await call
    except (SignoffError, ValueError, LookupError) as error:
        return error


@play
async def starting(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    yield (await client.start("echo", 1, id="a")).id
    yield (await client.start("echo", 1, id="a")).id
    yield await tried(client.start("echo", 2, id="a"))
    yield await tried(client.start("ask", "Sure?", id="a"))
    yield await tried(client.start("echo", id=" a"))
    yield await tried(client.start("echo", "x" * 2**20, id="b"))
    yield await tried(client.start("echo", float("nan"), id="b"))
    yield await tried(client.start("echo", object(), id="b"))
    yield await tried(client.get("b"))
    handle = await client.start(
        "echo",
        {"é\u2028": [1.5, 10**30, None]},
        datetime=datetime(2025, 1, 2, tzinfo=UTC),
        id="c",
        group="default",
    )
    yield await handle.result()
    yield await handle.status(), await handle.done()
    yield await client.backend.get_run("c")
    yield await (await client.get("c")).result()
    yield await tried((await client.start("explode", id="d")).result())
    yield await tried(client.start("echo", id="e", timeout_seconds=float("inf")))
    await client.start("echo", id="e", timeout_seconds=60, group="nobody")
    yield await client.backend.get_run("e")


@play
async def odd_ids(scene: Scene) -> AsyncIterator[Any]:
    for id in (
        "a/b",
        "/",
        ".",
        "..",
        "../a",
        "?a=b",
        "#a",
        "%2F",
        "%",
        "é☃",
        "a b",
        "+",
        "a/journal",
        "\\",
        ":",
        "@",
    ):
        handle = await scene.client.start("echo", id, id=id)
        yield handle.id, await handle.result()
        yield [entry.seq async for entry in handle.events()]
        yield (await scene.client.promises.create(f"p{id}")).id
        yield (await scene.client.promises.resolve(f"p{id}", id)).value


@play
async def listing(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    for index in range(7):
        await client.start("echo" if index % 2 else "promised", id=f"r{index}", group="nobody")
    yield await client.list()
    yield await client.list(limit=3)
    yield await client.list(limit=3, after=(await client.list(limit=3)).next)
    yield await client.list(workflow="echo", group="nobody", states=["ready", RunState.FAILED])
    yield await client.list(states=[RunState.FAILED])
    yield await client.list(group="elsewhere")
    yield await tried(client.list(after="nonsense"))
    yield await tried(client.list(states=["nonsense"]))


@play
async def many(scene: Scene) -> AsyncIterator[Any]:
    for index in range(1003):
        await scene.app.store.create_promise(NewPromise(f"p{index}"))
    page = await scene.client.backend.list_promises(PromiseFilter(), limit=1002)
    yield [promise.id for promise in page.items]
    yield [
        promise.id
        for promise in (await scene.client.backend.list_promises(PromiseFilter(), after=page.next)).items
    ]
    yield len((await scene.client.backend.list_promises(PromiseFilter(), limit=5000)).items)


@play
async def answering(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    handle = await client.start("ask", id="a")
    id = await scene.question("a")
    yield await client.questions()
    yield await client.questions(run_id="a")
    yield await client.questions(run_id="other")
    yield await client.promises.get(id)
    for value in (
        "banana",
        None,
        1,
        {},
        {"approved": None},
        {"approved": True, "x": 1},
        object(),
        float("inf"),
    ):
        yield await tried(client.answer(id, value))
    yield await tried(client.answer(id, True, digest="other"))
    yield await tried(client.answer("unknown", True))
    yield await tried(client.promises.resolve(id, {"approved": True}))
    yield await tried(client.promises.reject(id))
    yield await tried(client.promises.cancel(id))
    yield await client.answer(id, True, user_id="ana", note="é", request_id="r")
    yield await client.answer(id, {"approved": True}, user_id="bob", request_id="r")
    yield await tried(client.answer(id, False, request_id="r"))
    yield await tried(client.answer(id, False, request_id="r2"))
    yield await tried(client.answer(id, "banana"))
    yield await handle.result()
    yield [entry async for entry in handle.events()]
    yield [entry async for entry in handle.events(after=1)]
    yield await client.questions()


@play
async def policies(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    finance = {"user_id": "ana", "groups": ["finance"]}
    policy = {"assignees": ["group:finance", "role:lead"], "exclude_requester": True}
    for who in ("", " ana", "group:x", "signoff:x"):
        yield await tried(client.start("approve", id="b", started_by=who))
    await client.start("approve", id="a", started_by="user:req", **policy)
    id = await scene.question("a")
    yield await client.backend.get_run("a")
    yield await client.questions(**finance)
    yield await client.questions(user_id="eva", roles=["lead"])
    yield await client.questions(user_id="eva")
    yield await client.questions(user_id="eva", run_id="a")
    yield await client.questions(**finance, run_id="a")
    for wanted in ({"workflow": "approve"}, {"workflow": "echo"}, {"group": "default"}, {"group": "none"}):
        yield await client.questions(**wanted)
        yield await client.questions(**finance, **wanted)
    for text in ("", " ", "DEPLOY?", "a. deploy", "banana"):
        yield await client.questions(text=text)
        yield await client.questions(workflow="approve", text=text, limit=1)
    yield await tried(client.questions(workflow="\ud800"))
    yield await tried(client.questions(group="a\0"))
    yield await tried(client.answer(id, True))
    yield await tried(client.answer(id, True, user_id="eva"))
    yield await tried(client.answer(id, True, user_id="req", groups=["finance"]))
    yield await tried(client.answer(id, True, user_id="signoff:timeout", groups=["finance"]))
    yield await tried(client.inbox.claim(id, user_id="eva"))
    yield await tried(client.inbox.view(id, user_id="eva"))
    yield (await client.inbox.view(id, **finance)).id
    said = await client.inbox.comment(id, "é?", request_id="c", **finance)
    yield said.kind, said.question_id, said.run_id, said.by, json.loads(said.details or "")
    yield await client.inbox.comment(id, "é?", request_id="c", **finance) == said
    yield await tried(client.inbox.comment(id, "e", request_id="c", **finance))
    for text in ("", " \n", "x" * 10_001):
        yield await tried(client.inbox.comment(id, text, **finance))
    yield await client.inbox.claim(id, **finance)
    yield await tried(client.inbox.claim(id, user_id="bob", groups=["finance"]))
    yield await tried(client.answer(id, True, user_id="bob", groups=["finance"]))
    yield await tried(client.inbox.release(id, user_id="bob"))
    yield await client.inbox.release(id, user_id="ana")
    yield await tried(client.inbox.delegate(id, ["user:req"], **finance))
    yield await tried(client.inbox.delegate(id, ["nobody"], **finance))
    yield await client.inbox.delegate(id, ["user:bob"], note="away", **finance)
    yield await client.answer(id, True, user_id="bob")
    handle = await client.start("approve", id="v", assignees=["user:ana", "group:finance"], quorum=[2, 3])
    vote = await scene.question("v")
    yield await tried(client.inbox.claim(vote, **finance))
    yield await tried(client.inbox.delegate(vote, ["user:bob"], user_id="eva", groups=["finance"]))
    yield await client.answer(vote, True, note="é", request_id="1", **finance)
    yield await tried(client.answer(vote, False, request_id="2", **finance))
    yield await tried(client.answer(vote, False, request_id="1", **finance))
    yield await client.answer(vote, True, request_id="1", **finance)
    yield await tried(client.inbox.delegate(vote, ["user:bob"], note="away", **finance))
    yield await client.answer(vote, True, user_id="eva", groups=["finance"], request_id="3")
    yield await tried(client.answer(vote, False, request_id="3", user_id="eva", groups=["finance"]))
    yield await tried(client.answer(vote, False, request_id="1", **finance))
    yield await tried(client.answer(vote, True, request_id="1", note="x" * 10_001, **finance))
    yield await handle.result()
    for unknown in ("unknown", "a"):
        yield await tried(client.inbox.view(unknown, user_id="ana"))
        yield await tried(client.inbox.claim(unknown, user_id="ana"))
        yield await tried(client.inbox.comment(unknown, "why?", user_id="ana"))
        yield await tried(client.inbox.release(unknown, user_id="ana"))
        yield await tried(client.inbox.delegate(unknown, ["user:bob"], user_id="ana"))
    yield await tried(client.inbox.claim(id, user_id="ana"))
    for which in ({"question_id": id}, {"run_id": "a"}, {}, {"run_id": "other"}):
        page = await client.inbox.history(**which)
        yield [(event.kind, event.question_id, event.run_id, event.by) for event in page.items]
    first = await client.inbox.history(run_id="a", limit=2)
    second = await client.inbox.history(run_id="a", limit=2, after=first.next)
    yield [event.kind for event in (*first.items, *second.items)]
    yield await tried(client.inbox.history(after="x"))


@play
async def forms(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    handle = await client.start("refund", id="a")
    id = await scene.question("a")
    yield await tried(client.answer(id, {"amount": "1"}))
    yield await tried(client.answer(id, Refund(amount=5, reason="ok")))
    yield await handle.result()


@play
async def skipping(scene: Scene) -> AsyncIterator[Any]:
    handle = await scene.client.start("skip", id="a")
    yield await scene.client.answer(await scene.question("a"), None)
    yield await handle.result()


@play
async def signalling(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    handle = await client.start("listen", id="a")
    yield await client.signal("a", "other", 1, request_id="r", by="ana")
    yield await client.signal("a", "other", 1, request_id="r")
    yield await tried(client.signal("a", "other", 2, request_id="r"))
    yield await tried(client.signal("b", "news"))
    yield await handle.signal("news", {"day": date(2025, 1, 2)})
    yield await handle.result()
    yield await tried(client.signal("a", "news"))


@play
async def cancelling(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    handle = await client.start("ask", id="a")
    id = await scene.question("a")
    yield await client.cancel("a", reason="not needed", by="ana")
    yield await tried(handle.result())
    yield await tried(client.answer(id, True))
    yield await client.cancel("a")
    yield await tried(client.cancel("b"))
    unstarted = await client.start("ask", id="c", group="nobody")
    await unstarted.cancel("never")
    yield await unstarted.status()
    yield await tried(unstarted.result())


@play
async def retrying(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    handle = await client.start("forget", id="a")
    yield type(await tried(handle.result()))
    yield await client.retry("a")
    await client.start("echo", id="b")
    await reaches(scene.app, "b", RunState.SUCCEEDED)
    yield await tried(client.retry("b"))
    yield await tried(client.retry("c"))


@play
async def suspending(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    handle = await client.start("ask", id="a")
    id = await scene.question("a")
    await reaches(scene.app, "a", RunState.PAUSED)
    yield await client.suspend("a", reason="the bank is down", by="user:olga")
    yield await client.suspend("a", reason="again", by="user:eve")
    await client.answer(id, True, user_id="ana")
    yield (await handle.status()), await handle.done()
    yield await client.resume("a", by="user:olga")
    yield await handle.result()
    yield await tried(client.suspend("a"))
    yield await tried(client.resume("a"))
    yield await tried(client.suspend("b"))
    events = (await client.inbox.history(run_id="a")).items
    told = [each for each in events if each.kind in (AuditKind.SUSPENDED, AuditKind.RESUMED)]
    yield [(each.by, json.loads(each.details or "{}")) for each in told]


@play
async def promises(scene: Scene) -> AsyncIterator[Any]:
    api = scene.client.promises
    yield await api.create("a", data={"x": None}, timeout_seconds=60)
    yield await api.create("a")
    yield await api.get("a")
    yield await tried(api.get("b"))
    yield await tried(api.create("x\n"))
    yield await tried(api.resolve("b", 1))
    yield await api.resolve("a", None, by="ana", request_id="r")
    yield await api.resolve("a", None, request_id="r")
    yield await tried(api.resolve("a", 1, request_id="r"))
    yield await tried(api.reject("a"))
    await api.create("c")
    yield await api.reject("c", ["no"])
    await api.create("d")
    yield await api.cancel("d", by="bob")
    handle = await scene.client.start("promised", "e", id="run")
    await reaches(scene.app, "run", RunState.PAUSED)
    yield await tried(api.create("e"))
    yield await api.resolve("e", 2)
    yield await handle.result()


@play
async def timing_out(scene: Scene) -> AsyncIterator[Any]:
    handle = await scene.client.start("ask", "Soon?", 60, id="a")
    id = await scene.question("a")
    scene.app.store.clock.advance(61)  # type: ignore[attr-defined]
    yield await handle.result()
    yield await tried(scene.client.answer(id, True))


@play
async def starting_later(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    now = scene.app.store.clock.now()
    await client.start("echo", 1, id="a", delay_seconds=60, timeout_seconds=10)
    yield await client.backend.get_run("a")
    at = datetime.fromtimestamp(now + 90.5, UTC)
    await client.start("echo", 1, id="b", start_at=at, priority=-3, timeout_seconds=10)
    yield await client.backend.get_run("b")
    past = datetime.fromtimestamp(now - 90, UTC)
    await (await client.start("echo", 1, id="c", start_at=past, priority=7, timeout_seconds=10)).result()
    yield await client.backend.get_run("c")
    yield await tried(client.start("echo", 1, id="d", start_at=at, delay_seconds=1))
    yield await tried(client.start("echo", 1, id="d", start_at=datetime(2030, 1, 2)))  # noqa: DTZ001
    yield await tried(client.start("echo", 1, id="d", priority=2**31))
    yield await tried(client.start("echo", 1, id="d", delay_seconds=float("inf")))
    await client.cancel("a")
    yield await client.backend.get_run("a")
    assert isinstance(scene.app.store.clock, VirtualClock)
    scene.app.store.clock.advance(100)
    yield await tried((await client.get("b")).result())


@play
async def concurrency(scene: Scene) -> AsyncIterator[Any]:
    client = scene.client
    await client.groups.pause("default")
    for workflow in ("one_by_one", scene.app.registry.function("one_by_one")):
        assert workflow is not None
        handle = await client.start(workflow, {"of": "ana"}, 1)
        run = await client.backend.get_run(handle.id)
        yield run.concurrency_key, run.concurrency_limit
    yield await tried(client.start("one_by_one", {}, 1, id="x"))


@play
async def workers(scene: Scene) -> AsyncIterator[Any]:
    [worker] = await until(scene.app, scene.client.workers)
    assert worker == (await scene.app.store.list_workers())[0]
    yield worker.group, worker.pid, worker.held


@play
async def schedules(scene: Scene) -> AsyncIterator[Any]:
    schedules = scene.client.schedules
    yield await schedules.put(
        "a/b", "one_by_one", {"of": "ana"}, 1, cron="0 9 * * *", timezone="Europe/Berlin"
    )
    yield await schedules.put("c", "echo", cron="*/5 * * * *", catch_up="skip", group="gpu", priority=-1)
    yield await schedules.list()
    yield await schedules.list(limit=1)
    yield await schedules.pause("c")
    yield await schedules.resume("c")
    await schedules.delete("c")
    for wrong in ({"cron": "often"}, {"cron": "0 9 * * *", "timezone": "Mars"}):
        yield await tried(schedules.put("d", "echo", **wrong))
    for attempt in (schedules.get, schedules.pause, schedules.resume, schedules.delete):
        yield await tried(attempt("c"))


@play
async def groups(scene: Scene) -> AsyncIterator[Any]:
    groups = scene.client.groups
    yield await groups.list()
    await groups.limit("a/b c", max_running=2, starts_per=Rate(5, 0.5))
    await groups.pause("a/b c")
    await groups.pause(".")
    await scene.client.start("echo", 1, id="a", group=".")
    yield await groups.list()
    await groups.limit("a/b c", max_running=3)
    await groups.resume("a/b c")
    await groups.limit(".")
    yield await groups.list()
    for wrong in ({"max_running": 0}, {"starts_per": Rate(0, 1.0)}, {"starts_per": Rate(1, float("inf"))}):
        yield await tried(groups.limit("a", **wrong))  # type: ignore[arg-type]
    for name in ("", " a", "a\n"):
        yield await tried(groups.pause(name))


@play
async def journals(scene: Scene) -> AsyncIterator[Any]:
    backend = scene.client.backend
    await (await scene.client.start("echo", 1, id="a")).result()
    yield await backend.read_journal("a")
    yield await backend.read_journal("a", after=0)
    yield await backend.read_journal("a", after=10)
    yield await backend.read_journal("a", limit=1)
    yield await backend.read_journal("a", limit=0)
    yield await tried(backend.read_journal("b"))
    yield await tried(anext(backend.follow("b")))
    yield await tried(backend.wait("b"))


@pytest.mark.parametrize("name", plays)
@in_asyncio
async def test_a_client_of_a_server_is_a_client_of_its_store(tmp_path: Path, name: str) -> None:
    seen: list[list[Any]] = []
    for place in (local, remote):
        (tmp_path / place.__name__).mkdir()
        async with place(app_in(tmp_path / place.__name__, clock=VirtualClock())) as scene:
            seen.append([comparable(item) async for item in plays[name](scene)])
    of_store, of_server = seen
    assert of_store
    for number, (one, other) in enumerate(zip(of_store, of_server, strict=True)):
        assert one == other, f"outcome {number}"


@asynccontextmanager
async def local(app: Signoff) -> AsyncIterator[Scene]:
    try:
        async with AsyncClient(app) as client, app.worker():
            yield Scene(client, app)
    finally:
        await app.store.close()


@asynccontextmanager
async def remote(app: Signoff) -> AsyncIterator[Scene]:
    async with serving(app) as server, AsyncClient(server.url) as client:
        yield Scene(client, app)


def comparable(outcome: Any) -> Any:
    if isinstance(outcome, Run | Promise | Entry | Schedule):
        return {key: value for key, value in to_wire(outcome).items() if key not in NOT_THE_SAME}
    if isinstance(outcome, Page):
        # a server seals its cursors
        return [comparable(item) for item in outcome.items], outcome.next is not None
    if isinstance(outcome, BaseException):
        return (
            type(outcome),
            str(outcome),
            {key: value for key, value in vars(outcome).items() if key[0] != "_"},
        )
    if isinstance(outcome, list | tuple):
        return [comparable(item) for item in outcome]
    return outcome


def test_the_blocking_client_works_on_a_server(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    with OnThread(lambda: serving(app)) as server, Client(server.url) as client:
        handle = client.start("ask", id="a/b")
        kinds = []
        for entry in handle.events():
            kinds.append(entry.kind)
            if entry.kind == "opened":
                assert not handle.done
                client.answer("a/b.1", True, user_id="ana")
        assert kinds == ["started", "opened", "completed", "succeeded"]
        assert handle.result() == {"approved": True, "by": "ana", "note": None}
        assert client.promises.create("p").id == "p"


def test_a_stream_that_was_left_half_way_is_closed_with_its_client(tmp_path: Path) -> None:
    """Python would warn of what was never awaited, and warnings are errors here."""
    app = app_in(tmp_path)
    with OnThread(lambda: serving(app)) as server:
        for target in (server.url, app):
            for keep in (False, True):
                with Client(target) as client:
                    events = client.start("ask").events()
                    assert next(events).kind == "started"
                    if not keep:
                        events.close()
                with pytest.raises(ClientClosed) if keep else nullcontext():
                    assert list(events) == []
                del events
                gc.collect()
