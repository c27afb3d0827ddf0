"""The rights of worker keys, and their limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff.errors import AccessDenied, AlreadySettled, InvalidValue
from signoff.people.schemas.promise_returns import data_of
from signoff.records import (
    Amendment,
    AuditKind,
    LiveText,
    NewAuditEvent,
    NewPromise,
    NewRun,
    NewSchedule,
    NewToken,
    PromiseKind,
    PromiseState,
    Run,
    RunState,
    Seal,
    Settlement,
    TokenKind,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.checkpoints import CheckpointFilter, CheckpointRef, NewCheckpoint, Serialized
from signoff.records.deliveries import DeliveryState, NewDelivery, Report
from signoff.records.invocations import InvocationFilter
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    TokenFilter,
    WorkflowFilter,
)
from signoff.records.promise_schedules import NewPromiseSchedule
from signoff.records.tasks import Listener, NewInvocation, TaskLease, TaskRef
from signoff.server import Server
from signoff.server.auth.key_file import WorkerKey, WorkerKeys, new_worker_key
from signoff.server.store_api.access import TOKEN_OPERATIONS
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.operations import OPERATIONS
from signoff.stores.contract.snapshots import Saved, SavedRun
from signoff.stores.contract.wire import CHANGES_PATH, PATH
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.tokens import hash_of
from tests.stores.scene import YES, Scene, asking_nothing, entry, question
from tests.support import in_asyncio

pytestmark = pytest.mark.usefixtures("asked_nothing")

ACME, ACME_KEY = new_worker_key("acme")
GPU, GPU_KEY = new_worker_key("acme", ["gpu", "tpu"])
FAR = 9e9  # unix seconds: no policy has anything to do before
KEYS = WorkerKeys([ACME_KEY, GPU_KEY])
SCHEDULE = NewSchedule("nightly", "refund", "default", "{}", "0 9 * * *", "UTC")


@pytest.fixture
def asked_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a worker may do is not about what its questions ask."""
    if "nothing_is_taken" in request.node.name:
        yield
        return
    with asking_nothing():
        yield


@asynccontextmanager
async def serving(
    folder: Path, keys: WorkerKeys = KEYS, **options: Any
) -> AsyncIterator[tuple[Server, SqliteStore]]:
    store = SqliteStore(folder / "signoff.db", namespace="acme")
    try:
        async with Server(store, port=0, worker_keys=keys, **options) as server:
            yield server, store
    finally:
        await store.close()


@asynccontextmanager
async def opened(server: Server, key: str | None, namespace: str = "acme") -> AsyncIterator[RemoteStore]:
    store = RemoteStore(server.url, key=key, namespace=namespace)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("create_run", {"new": NewRun("x", "refund", "gpu", "no json")}),
        ("create_run", {"new": NewRun("x", "refund", "gpu", '{"a": NaN}')}),
        ("create_promise", {"new": NewPromise("x", data="{")}),
        ("append", {"write": Write("r", 1, opens=[question("r", 1, data="[]")])}),
        ("append", {"write": Write("r", 1, entries=[replace(entry(0), value="{")])}),
        ("complete", {"write": Write("r", 1), "outcome": Outcome(RunState.SUCCEEDED, result="yes")}),
        (
            "settle",
            {
                "promise_id": "p",
                "settlement": Settlement(PromiseState.RESOLVED, "yes"),
                "kind": PromiseKind.PROMISE,
            },
        ),
        ("signal", {"run_id": "r", "name": "news", "value": "yes"}),
    ],
    ids=str,
)
@in_asyncio
async def test_nothing_is_taken_that_others_cannot_read(
    tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    async with serving(tmp_path) as (server, store), opened(server, ACME) as remote:
        with pytest.raises(InvalidValue):
            await getattr(remote, name)(**arguments)
        assert (await store.list_runs(RunFilter())).items == ()


def scene_of(store: RemoteStore | SqliteStore) -> Scene:
    return Scene(store, None, None)  # type: ignore[arg-type]  # no rule here needs a clock


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "needs a worker key"),
        ("", "needs a worker key"),
        ("sgw_wrong", "is unknown"),
    ],
)
@in_asyncio
async def test_without_a_key_that_the_server_knows_nothing_opens(
    tmp_path: Path, key: str | None, reason: str
) -> None:
    async with serving(tmp_path) as (server, _):
        with pytest.raises(AccessDenied, match=reason):
            async with opened(server, key):
                pass
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx.AsyncClient(
            base_url=server.url, headers=headers, trust_env=False, timeout=60
        ) as http:
            for path in (PATH, CHANGES_PATH):
                assert (await http.get(path, params={"namespace": "acme"})).status_code == 403
            batch = {"client": "s", "floor": 0, "operations": []}
            assert (await http.post(PATH, json=batch)).status_code == 403


@in_asyncio
async def test_a_key_may_come_with_the_end_of_its_line_and_with_nothing_else(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _):
        async with opened(server, ACME + "\n") as store:
            assert list(await store.list_workers()) == []
        with pytest.raises(InvalidValue, match="worker key") as refused:
            RemoteStore(server.url, key="sgw_a b")
        assert "sgw_" not in str(refused.value)


@in_asyncio
async def test_nothing_is_taken_that_a_promise_does_not_return(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _), opened(server, ACME) as store:
        await store.create_promise(NewPromise("p", data=data_of(None, bool, has_data=False)))
        with pytest.raises(InvalidValue, match="does not return this"):
            await store.settle("p", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, '"yes"'))
        settled, _ = await store.settle("p", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, "true"))
        assert settled.value == "true"


@in_asyncio
async def test_a_key_opens_its_namespace_and_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, served), opened(server, ACME) as store:
        assert (await scene_of(store).paused()).namespace == "acme"
        with pytest.raises(AccessDenied, match="namespace 'default'"):
            async with opened(server, ACME, "default"):
                pass
        other = store.within("default")
        await served.within("default").create_run(NewRun("r", "refund", "default", "{}"))
        for attempt in (other.get_run("r"), other.list_runs(RunFilter()), other.due(), other.list_workers()):
            with pytest.raises(AccessDenied):
                await attempt


@in_asyncio
async def test_of_the_register_a_key_sees_and_frees_its_own_workers(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, served), opened(server, ACME) as store:
        elsewhere = served.within("default")
        await scene_of(elsewhere).run("theirs", worker="w1")
        await elsewhere.enlist(WorkerInfo("w1", "host", 1, 1.5, "default"))
        await scene_of(store).run("ours", worker="w2")
        await store.enlist(WorkerInfo("w2", "host", 2, 1.5, "default", namespace="default"))
        assert [(worker.id, worker.namespace) for worker in await store.list_workers()] == [("w2", "acme")]
        assert await store.release("w1") == 0
        assert (await elsewhere.get_run("theirs")).state is RunState.RUNNING
        assert await store.release("w2") == 1


@in_asyncio
async def test_a_key_of_a_namespace_sees_its_notifications_and_sends_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _), opened(server, ACME) as store:
        assert (await store.list_deliveries(DeliveryFilter())).items == ()
        for operation in ("expand", "claim_deliveries", "finish_delivery", "redeliver"):
            with pytest.raises(AccessDenied, match="outbox"):
                await OUTSIDE[operation](store)


def _write(run_id: str) -> Write:
    return Write(run_id, 1, entries=[entry(0)])


def viewed(question_id: str, run_id: str | None, id: str = "e") -> NewAuditEvent:
    return NewAuditEvent(id, AuditKind.VIEWED, question_id, run_id, "user:ana")


LOADED = Run("default", "loaded", "refund", "default", "{}", RunState.READY, 1.0)
CHECKPOINT = NewCheckpoint("", "1", Serialized("json", b"1"), Serialized("json", b"{}"), {})
OUTSIDE: dict[str, Callable[[RemoteStore], Awaitable[object]]] = {
    "create_run": lambda store: store.create_run(NewRun("new", "refund", "default", "{}")),
    "get_run": lambda store: store.get_run("theirs"),
    "ended": lambda store: store.ended(["theirs"]),
    "list_runs": lambda store: store.list_runs(RunFilter()),
    "read_journal": lambda store: store.read_journal("theirs"),
    "read_messages": lambda store: store.read_messages(["ours", "theirs"]),
    "save_run": lambda store: store.save_run("theirs"),
    "load_run": lambda store: store.load_run(
        Saved((SavedRun(LOADED),)), NewAuditEvent("e", AuditKind.LOADED, "", "theirs")
    ),
    "publish": lambda store: store.publish([LiveText("theirs", 1, 0, 1, "answer", 1, 0, "text", "Hi")]),
    "read_live": lambda store: store.read_live("theirs"),
    "cancel": lambda store: store.cancel("theirs"),
    "retry": lambda store: store.retry("theirs"),
    "suspend": lambda store: store.suspend("theirs", NewAuditEvent("s", AuditKind.SUSPENDED, "", "theirs")),
    "resume": lambda store: store.resume("theirs", NewAuditEvent("r", AuditKind.RESUMED, "", "theirs")),
    "terminate": lambda store: store.terminate(
        "theirs", NewAuditEvent("t", AuditKind.TERMINATED, "", "theirs")
    ),
    "signal": lambda store: store.signal("theirs", "go", "1"),
    "claim": lambda store: store.claim("w", "default", ["refund"], 1),
    "append": lambda store: store.append(_write("theirs")),
    "pause": lambda store: store.pause(_write("theirs"), wakes=0, wake_at=None),
    "complete": lambda store: store.complete(_write("theirs"), Outcome(RunState.SUCCEEDED, "1")),
    "get_promise": lambda store: store.get_promise("theirs.0"),
    "list_promises": lambda store: store.list_promises(PromiseFilter()),
    "settle": lambda store: store.settle("theirs.0", PromiseKind.QUESTION, YES),
    "amend": lambda store: store.amend("theirs.0", Amendment(0, "1", (), None, YES)),
    "record": lambda store: store.record([viewed("theirs.0", "theirs")]),
    "list_audit": lambda store: store.list_audit(AuditFilter(run_id="theirs")),
    "get_session": lambda store: store.get_session("c"),
    "list_sessions": lambda store: store.list_sessions(),
    "get_rule": lambda store: store.get_rule("x"),
    "list_rules": lambda store: store.list_rules(RuleFilter()),
    "revoke_rule": lambda store: store.revoke_rule(
        "x", NewAuditEvent("e", AuditKind.RULE_REVOKED, "theirs.0", "theirs")
    ),
    "read_chain": lambda store: store.read_chain(),
    "last_seal": lambda store: store.last_seal(),
    "seal": lambda store: store.seal([Seal(0, "e", "h")]),
    "read_cursor": lambda store: store.read_cursor("mail"),
    "expand": lambda store: store.expand("mail", None, 0, []),
    "claim_deliveries": lambda store: store.claim_deliveries("mail", 1, 60.0),
    "finish_delivery": lambda store: store.finish_delivery("d", 1, Report(DeliveryState.DEAD)),
    "list_deliveries": lambda store: store.list_deliveries(DeliveryFilter()),
    "redeliver": lambda store: store.redeliver("d"),
    "enlist": lambda store: store.enlist(WorkerInfo("w", "host", 1, 1.5, "default")),
    "announce": lambda store: store.announce([WorkflowInfo("default", "refund", "1", True)]),
    "list_workflows": lambda store: store.list_workflows(WorkflowFilter()),
    "heartbeat": lambda store: store.heartbeat("w", {"theirs": 1}),
    "pause_group": lambda store: store.pause_group("default"),
    "resume_group": lambda store: store.resume_group("default"),
    "limit_group": lambda store: store.limit_group("default", max_running=1, starts_per=None),
    "delete_ended": lambda store: store.delete_ended(1e12, 10),
    "put_schedule": lambda store: store.put_schedule(SCHEDULE),
    "get_schedule": lambda store: store.get_schedule("nightly"),
    "list_schedules": lambda store: store.list_schedules(),
    "pause_schedule": lambda store: store.pause_schedule("nightly"),
    "resume_schedule": lambda store: store.resume_schedule("nightly", 2.0),
    "delete_schedule": lambda store: store.delete_schedule("nightly"),
    "fire_schedule": lambda store: store.fire_schedule("nightly", 1.0, [], 2.0),
    "put_promise_schedule": lambda store: store.put_promise_schedule(
        NewPromiseSchedule("s", "* * * * *", "{}", 1.0)
    ),
    "get_promise_schedule": lambda store: store.get_promise_schedule("s"),
    "list_promise_schedules": lambda store: store.list_promise_schedules(),
    "delete_promise_schedule": lambda store: store.delete_promise_schedule("s"),
    "advance_promise_schedule": lambda store: store.advance_promise_schedule("s", 1.0, 2.0, 1.0),
    "put_checkpoint": lambda store: store.put_checkpoint("t", CHECKPOINT),
    "put_checkpoint_writes": lambda store: store.put_checkpoint_writes("t", CheckpointRef("", "1"), []),
    "get_checkpoint": lambda store: store.get_checkpoint("t", ""),
    "list_checkpoints": lambda store: store.list_checkpoints(CheckpointFilter()),
    "delete_checkpoints": lambda store: store.delete_checkpoints("t", []),
    "delete_thread": lambda store: store.delete_thread("t"),
    "open_invocation": lambda store: store.open_invocation(NewInvocation(NewPromise("t"))),
    "settle_held": lambda store: store.settle_held(TaskRef("t", 1), "theirs.0", YES),
    "acquire_task": lambda store: store.acquire_task(TaskRef("t", 0), TaskLease("p", 1)),
    "release_task": lambda store: store.release_task(TaskRef("t", 1)),
    "suspend_task": lambda store: store.suspend_task(TaskRef("t", 1), []),
    "heartbeat_tasks": lambda store: store.heartbeat_tasks("p", None),
    "halt_task": lambda store: store.halt_task("t"),
    "continue_task": lambda store: store.continue_task("t"),
    "await_promise": lambda store: store.await_promise("theirs.0", "t"),
    "listen_promise": lambda store: store.listen_promise("theirs.0", "poll://uni@g/p"),
    "get_task": lambda store: store.get_task("t"),
    "list_tasks": lambda store: store.list_tasks(),
    "list_branch": lambda store: store.list_branch("t"),
    "list_invocations": lambda store: store.list_invocations(InvocationFilter()),
    "list_calls": lambda store: store.list_calls("t"),
    "take_task_messages": lambda store: store.take_task_messages(["poll://any@g"], 1),
    "finish_task_message": lambda store: store.finish_task_message("theirs.0", "poll://uni@g/p"),
    "resend_task_messages": lambda store: store.resend_task_messages(
        [TaskRef("t", 0)], [Listener("theirs.0", "poll://uni@g/p")]
    ),
}
WITHIN = {
    "create_promise",
    "due",
    "due_schedules",
    "due_promise_schedules",
    "due_questions",
    "unsealed",
    "heads",
    "queued_namespaces",
    "list_workers",
    "list_groups",
    "release",
}


TOKENS: dict[str, Callable[[RemoteStore], Awaitable[Any]]] = {
    "create_token": lambda store: store.create_token(NewToken("u", TokenKind.LINK, hash_of("u"), "user:eve")),
    "find_token": lambda store: store.find_token(hash_of("t")),
    "has_token": lambda store: store.has_token([TokenKind.API_KEY]),
    "get_token": lambda store: store.get_token("t"),
    "list_tokens": lambda store: store.list_tokens(TokenFilter(TokenKind.LINK)),
    "revoke_token": lambda store: store.revoke_token("t"),
    "expire_token": lambda store: store.expire_token("t", 2.0),
    "touch_token": lambda store: store.touch_token("t"),
}


DELETED_BY_THE_SERVER = {"delete_settled", "delete_tokens", "delete_deliveries", "delete_workflows"}


def test_the_table_of_what_is_outside_has_every_operation() -> None:
    assert OUTSIDE.keys() | WITHIN | TOKENS.keys() | DELETED_BY_THE_SERVER == OPERATIONS.keys()
    assert TOKENS.keys() | {"delete_tokens"} == TOKEN_OPERATIONS


@pytest.mark.parametrize("key", [GPU, ACME], ids=["groups", "namespace"])
@pytest.mark.parametrize("operation", TOKENS)
@in_asyncio
async def test_no_worker_key_makes_finds_or_revokes_a_token(tmp_path: Path, operation: str, key: str) -> None:
    async with serving(tmp_path) as (server, served), opened(server, key) as store:
        made = await served.create_token(NewToken("t", TokenKind.LINK, hash_of("t"), "user:ana"))
        with pytest.raises(AccessDenied, match="worker keys give no access to tokens"):
            await TOKENS[operation](store)
        assert (await served.list_tokens(TokenFilter(TokenKind.LINK))).items == (made,)


@pytest.mark.parametrize("key", [GPU, ACME], ids=["groups", "namespace"])
@in_asyncio
async def test_the_server_deletes_tokens_and_deliveries_and_no_worker_does(tmp_path: Path, key: str) -> None:
    async with serving(tmp_path) as (server, served), opened(server, key) as store:
        new = NewToken("t", TokenKind.LINK, hash_of("t"), "user:ana", expires_at=1.0)
        made = await served.create_token(new)
        assert await store.delete_tokens(2.0, 10) == 0
        assert await served.get_token("t") == made
        await served.expand("mail", None, 0, [NewDelivery("d", "", "e", 0, AuditKind.ASKED, "q")])
        await served.claim_deliveries("mail", 1, 60.0)
        await served.finish_delivery("d", 1, Report(DeliveryState.DELIVERED))
        assert await store.delete_deliveries(1e12, 10) == 0
        assert await store.delete_workflows(1e12, 10) == 0
        await served.create_promise(NewPromise("p"))
        await served.settle("p", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED))
        assert await store.delete_settled(1e12, 10) == (0, None)
        assert (await served.get_promise("p")).id == "p"
        assert len((await served.list_deliveries(DeliveryFilter())).items) == 1


@pytest.mark.parametrize("operation", OUTSIDE)
@in_asyncio
async def test_a_key_for_some_groups_touches_no_run_of_another(tmp_path: Path, operation: str) -> None:
    async with serving(tmp_path) as (server, served), opened(server, GPU) as store:
        theirs = await scene_of(served).run("theirs")
        await served.append(Write("theirs", theirs.epoch, opens=[question("theirs")]))
        before = await served.get_run("theirs")
        with pytest.raises(AccessDenied, match="groups gpu, tpu|some groups"):
            await OUTSIDE[operation](store)
        assert await served.get_run("theirs") == before
        assert await served.read_journal("theirs") == []
        asked = await served.get_promise("theirs.0")
        assert (asked.value, asked.version) == (None, 0)
        assert [event.kind for event in (await served.list_audit(AuditFilter())).items] == [AuditKind.ASKED]


@in_asyncio
async def test_a_key_for_some_groups_works_on_their_runs(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _), opened(server, GPU) as store:
        scene = scene_of(store)
        await store.enlist(WorkerInfo("w", "host", 1, 1.5, "gpu"))
        await scene.start(group="gpu")
        [claim] = await scene.claim(group="gpu")
        assert await scene.pause(claim.run, entry(0), opens=[question("r")])
        await scene.settle("r.0")
        [claim] = await scene.claim(group="gpu")
        assert await store.heartbeat("w", {"r": 2, "unknown": 1}) == {"unknown"}
        assert len(await scene.messages()) == 1
        assert (await store.list_promises(PromiseFilter(run_id="r"))).items
        await scene.append(claim.run, entry(1), starts=[NewRun("child", "other", "default", "{}", "r", 1)])
        await scene.complete(claim.run, entries=[entry(2)])
        assert await scene.listed(group="gpu") == ["r"]
        assert (await store.create_promise(NewPromise("free")))[1]
        with pytest.raises(AccessDenied, match="question"):
            await store.create_promise(NewPromise("asked", PromiseKind.QUESTION))
        with pytest.raises(AlreadySettled):
            await store.settle("r.0", PromiseKind.QUESTION, YES)
        await store.announce([WorkflowInfo("gpu", "refund", "1", is_current=True)])
        assert len((await store.list_workflows(WorkflowFilter(group="gpu"))).items) == 1
        assert await store.release("w") == 0
        assert list(await store.list_workers()) == []


@in_asyncio
async def test_a_key_for_some_groups_amends_questions_of_its_runs_on_record(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, served), opened(server, GPU) as store:
        scene = scene_of(store)
        await scene.start(group="gpu")
        [claim] = await scene.claim(group="gpu")
        assert await scene.pause(claim.run, opens=[question("r", assignees=("user:ana",), act_at=FAR)])
        await store.record([viewed("r.0", "r", "seen")])
        voted = NewAuditEvent("voted", AuditKind.VOTED, "r.0", "r", "user:ana", "{}")
        change = Amendment(0, "1", ("user:bob",), FAR + 1, YES, (voted,))
        amended, done = await store.amend("r.0", change)
        assert (amended.assignees, amended.act_at, amended.version, amended.value, done) == (
            ("user:bob",),
            FAR + 1,
            1,
            "true",
            True,
        )
        listed = (await store.list_audit(AuditFilter(run_id="r"))).items
        assert [event.kind.value for event in listed] == ["asked", "viewed", "voted", "resolved"]
        await served.create_promise(NewPromise("free", PromiseKind.QUESTION))
        assert (await store.amend("free", Amendment(0, "1", (), None, YES, (viewed("free", None),))))[1]


@pytest.mark.parametrize(
    ("question_id", "run_id"),
    [("theirs.0", "ours"), ("ours.0", "theirs"), ("ours.7", "ours"), ("ours.0", None), ("gone.0", "gone")],
)
@in_asyncio
async def test_a_key_for_some_groups_records_only_question_events_of_its_runs(
    tmp_path: Path, question_id: str, run_id: str | None
) -> None:
    async with serving(tmp_path) as (server, served), opened(server, GPU) as store:
        theirs = await scene_of(served).run("theirs")
        await served.append(Write("theirs", theirs.epoch, opens=[question("theirs")]))
        await served.create_run(NewRun("ours", "refund", "gpu", "{}"))
        [ours] = await store.claim("w", "gpu", ["refund"], 1)
        await store.append(Write("ours", ours.run.epoch, opens=[question("ours")]))
        before = (await served.list_audit(AuditFilter())).items
        forged = viewed(question_id, run_id)
        for attempt in (
            store.record([viewed("ours.0", "ours", "fine"), forged]),
            store.amend("ours.0", Amendment(0, "1", (), None, events=(forged,))),
        ):
            with pytest.raises(AccessDenied):
                await attempt
        assert (await served.list_audit(AuditFilter())).items == before
        assert (await served.get_promise("ours.0")).version == 0


@in_asyncio
async def test_a_key_for_some_groups_reads_a_runs_trail_not_that_of_a_former_id(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as (server, served), opened(server, GPU) as store:
        former = await scene_of(served).run("r")
        await served.append(Write("r", former.epoch, opens=[question("r")]))
        await scene_of(served).complete(former)
        ended_at = (await served.get_run("r")).ended_at
        assert ended_at is not None
        await asyncio.sleep(0.01)  # the next run begins later, by the clock of the machine
        assert await served.delete_ended(ended_at + 0.001, 1) == 1
        for which in (AuditFilter(run_id="r"), AuditFilter("r.0"), AuditFilter()):
            with pytest.raises(AccessDenied):
                await store.list_audit(which)
        await scene_of(store).start("r", group="gpu")
        assert (await store.list_audit(AuditFilter(run_id="r"))).items == ()
        await scene_of(store).claim(group="gpu")
        await store.append(Write("r", 1, opens=[question("r")]))
        assert len((await store.list_audit(AuditFilter(run_id="r"))).items) == 1
        assert len((await served.list_audit(AuditFilter(run_id="r"))).items) == 3


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "x-real-ip"])
@in_asyncio
async def test_without_any_keys_no_worker_is_accepted_even_locally(tmp_path: Path, header: str) -> None:
    async with serving(tmp_path, WorkerKeys()) as (server, _):
        with pytest.raises(AccessDenied, match=r"SIGNOFF_WORKER_KEY=\$\(signoff keys create --worker\)"):
            async with opened(server, None, "acme"):
                pass
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http:
            refused = await http.get(PATH, params={"namespace": "any"}, headers={header: "127.0.0.1"})
            assert (refused.status_code, refused.json()["type"]) == (403, "urn:signoff:AccessDenied")


@in_asyncio
async def test_one_key_cannot_hear_the_replies_to_another(tmp_path: Path) -> None:
    """A session's name is chosen by the client: it is worth nothing under another key."""
    create = {"new": {"id": "r", "workflow": "refund", "group": "gpu", "arguments": "{}"}}
    operation = {"id": 0, "namespace": "acme", "do": "create_run", "arguments": create}
    batch = {"client": "s", "floor": 0, "operations": [operation]}
    async with serving(tmp_path) as (server, _):
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http:
            replies = [
                (await http.post(PATH, json=batch, headers={"authorization": f"Bearer {key}"})).json()
                for key in (ACME, ACME, GPU)
            ]
        assert [reply["result"][1] for reply in replies] == [True, True, False]


@in_asyncio
async def test_remote_leases_are_as_long_as_the_server_says(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, worker_lease_seconds=42.0) as (server, served),
        opened(server, ACME) as store,
    ):
        assert store.lease_seconds == 42.0
        run = await scene_of(store).run()
        assert run.lease_until is not None
        local = await scene_of(served).run("local")
        assert local.lease_until is not None
        assert 30 < run.lease_until - local.lease_until < 34


# Keys


def test_a_key_is_read_back_from_its_line() -> None:
    text = f"# ours\n{ACME_KEY.line}  # acme's\n\n{GPU_KEY.line};{new_worker_key('x')[1].line}"
    keys = WorkerKeys.parse(text, "file")
    assert len(keys) == 3
    assert keys.find(ACME) == ACME_KEY == WorkerKey(ACME_KEY.hash, "acme", None)
    assert keys.find(GPU) == GPU_KEY
    assert GPU_KEY.groups == {"gpu", "tpu"}
    assert keys.find("sgw_other") is None
    assert ACME not in ACME_KEY.line


@pytest.mark.parametrize("line", ["sgw_secret acme", "0123 acme", "0" * 64, f"{'0' * 64} acme gpu more"])
def test_a_line_that_is_no_key_is_refused_without_repeating_it(line: str) -> None:
    with pytest.raises(InvalidValue, match="keys.txt line 2: it is not a worker key") as refused:
        WorkerKeys.parse(f"\n{line}", "keys.txt")
    assert "sgw_" not in str(refused.value)


@pytest.mark.parametrize(("namespace", "groups"), [("a b", []), ("", []), ("acme", ["a,b"]), ("acme", [""])])
def test_a_name_that_cannot_stand_in_a_line_is_refused(namespace: str, groups: list[str]) -> None:
    with pytest.raises(InvalidValue):
        new_worker_key(namespace, groups)
