"""The store's rules for tasks: invocations of promises by processes of the durable promise protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from signoff.errors import IdConflict, InvalidValue, NotFound, TaskConflict
from signoff.records import NewPromise, Promise, PromiseKind, PromiseState, Settlement
from signoff.records.tasks import (
    RESEND_SECONDS,
    Invocation,
    Listener,
    NewInvocation,
    Task,
    TaskLease,
    TaskRef,
    TaskState,
    queue_of,
)
from signoff.stores.contract.store import Change
from tests.stores.scene import Scene, promise, question, rule, until

TARGET = "poll://any@workers/preferred"
QUEUE = "poll://any@workers"
LEASE = TaskLease("process-1", 10_000)
DONE = Settlement(PromiseState.RESOLVED, value='"done"')
START = 1_000_000.0
PENDING, ACQUIRED, SUSPENDED, HALTED, FULFILLED = TaskState
STATES = pytest.mark.parametrize("state", list(TaskState))


def new(
    id: str = "t", *, due_at: float | None = None, target: str | None = TARGET, **more: Any
) -> NewInvocation:
    return NewInvocation(NewPromise(id, PromiseKind.PROMISE, due_at=due_at, data='{"a": 1}'), target, **more)


async def opened(scene: Scene, id: str = "t", **more: Any) -> Invocation:
    return await scene.store.open_invocation(new(id, **more))


async def held(scene: Scene, id: str = "t", **more: Any) -> TaskRef:
    """Create a task that this process holds."""
    made = await opened(scene, id, lease=LEASE, **more)
    assert made.task is not None
    return TaskRef(id, made.task.version)


async def plain(scene: Scene, id: str, **more: Any) -> Promise:
    """Create a promise without a task."""
    return (await opened(scene, id, target=None, **more)).promise


async def settle(scene: Scene, id: str) -> None:
    await scene.settle(id, DONE, kind=PromiseKind.PROMISE)


async def suspended(scene: Scene, id: str = "t", *awaited: str) -> TaskRef:
    """Create a task that awaits promises, which are created too if need be."""
    ref = await held(scene, id)
    for promise_id in awaited or (f"{id}-awaited",):
        await plain(scene, promise_id)
    assert await scene.store.suspend_task(ref, awaited or (f"{id}-awaited",))
    return ref


async def in_state(scene: Scene, state: TaskState, id: str = "t") -> TaskRef:
    """Create a task in a state. It has been acquired once, so its version is 1."""
    if state is SUSPENDED:
        return await suspended(scene, id)
    ref = await held(scene, id)
    if state is PENDING:
        await scene.store.release_task(ref)
    elif state is HALTED:
        await scene.store.halt_task(id)
    elif state is FULFILLED:
        await settle(scene, id)
    return ref


async def state_of(scene: Scene, id: str = "t") -> TaskState:
    return (await scene.store.get_task(id)).state


async def taken(scene: Scene, queue: str = QUEUE, limit: int = 100) -> list[str]:
    """The ids of the tasks and promises whose messages are due."""
    messages = await scene.store.take_task_messages([queue], limit)
    found: list[str] = []
    for message in messages:
        assert (message.task is None) is not (message.promise is None)
        found.append((message.task or message.promise).id)  # type: ignore[union-attr]
    return found


async def conflicts(work: Awaitable[object], state: TaskState, version: int = 1) -> None:
    with pytest.raises(TaskConflict) as refused:
        await work
    assert (refused.value.task_id, refused.value.state, refused.value.version) == ("t", state.value, version)


# Opening


@rule
async def test_an_invocation_is_a_promise_and_a_pending_task(scene: Scene) -> None:
    made = await opened(scene)
    task = Task("default", "t", PENDING, TARGET)
    assert made == Invocation(await scene.store.get_promise("t"), task, was_created=True)
    assert made.promise.state is PromiseState.PENDING
    assert made.promise.data == '{"a": 1}'
    assert await scene.store.get_task("t") == task


@rule
async def test_an_invocation_without_a_target_has_no_task(scene: Scene) -> None:
    made = await opened(scene, target=None)
    assert (made.task, made.was_created) == (None, True)
    with pytest.raises(NotFound):
        await scene.store.get_task("t")
    assert (await opened(scene)).task is None, "a promise that exists is given no task"


@rule
async def test_a_known_invocation_is_returned_as_it_is(scene: Scene) -> None:
    first = await opened(scene)
    again = await opened(scene, target="poll://any@others")
    assert again == replace(first, was_created=False)
    await settle(scene, "t")
    again = await opened(scene, lease=LEASE)
    assert again.promise.value == '"done"'
    assert again.task is not None
    assert (again.task.state, again.task.version) == (FULFILLED, 0)


@rule
async def test_an_invocation_with_a_lease_is_acquired_without_being_sent(scene: Scene) -> None:
    made = await opened(scene, lease=LEASE)
    assert made.task == Task("default", "t", ACQUIRED, TARGET, 1, (), "process-1", 10_000)
    assert await taken(scene) == []


@rule
async def test_a_lease_acquires_a_task_that_is_pending(scene: Scene) -> None:
    await suspended(scene, "t", "a")
    await settle(scene, "a")
    again = await opened(scene, lease=LEASE)
    assert again.task is not None
    assert (again.task.state, again.task.version, again.task.resumes) == (ACQUIRED, 2, ())
    assert again.resumes == ("a",)


@STATES
@rule
async def test_a_lease_is_refused_for_a_task_that_is_not_pending(scene: Scene, state: TaskState) -> None:
    await in_state(scene, state)
    if state is PENDING:
        assert (await opened(scene, lease=LEASE)).task is not None
    elif state is FULFILLED:
        found = (await opened(scene, lease=LEASE)).task
        assert found is not None
        assert found.state is FULFILLED
    else:
        await conflicts(opened(scene, lease=LEASE), state)


@rule
async def test_a_lease_is_invalid_for_a_promise_without_a_task(scene: Scene) -> None:
    await plain(scene, "t")
    with pytest.raises(InvalidValue):
        await opened(scene, lease=LEASE)


@rule
async def test_an_invocation_past_its_deadline_is_timed_out_at_once(scene: Scene) -> None:
    made = await opened(scene, due_at=START, lease=LEASE)
    assert (made.promise.state, made.was_created) == (PromiseState.TIMED_OUT, True)
    assert made.task == Task("default", "t", FULFILLED, TARGET)
    assert (await opened(scene, "u", due_at=START, target=None)).promise.state is PromiseState.TIMED_OUT
    assert await taken(scene) == []


@rule
async def test_a_known_invocation_past_its_deadline_is_timed_out_first(scene: Scene) -> None:
    await opened(scene, due_at=START + 5)
    scene.clock.advance(5)
    found = await opened(scene, lease=LEASE)
    assert found.promise.state is PromiseState.TIMED_OUT
    assert found.task is not None
    assert found.task.state is FULFILLED


@rule
async def test_an_id_of_a_run_or_a_question_is_no_invocation(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, opens=[promise("r"), question("r", 1)])
    for id in ("r.0", "r.1"):
        with pytest.raises(IdConflict):
            await opened(scene, id, lease=LEASE)
    await scene.store.create_promise(NewPromise("q", PromiseKind.QUESTION))
    with pytest.raises(IdConflict):
        await opened(scene, "q")


@rule
async def test_only_the_holder_of_a_task_creates_promises_in_its_name(scene: Scene) -> None:
    with pytest.raises(NotFound):
        await opened(scene, "child", holder=TaskRef("t", 0))
    await opened(scene)
    await conflicts(opened(scene, "child", holder=TaskRef("t", 0)), PENDING, 0)
    await scene.store.acquire_task(TaskRef("t", 0), LEASE)
    await conflicts(opened(scene, "child", holder=TaskRef("t", 0)), ACQUIRED)
    with pytest.raises(NotFound):
        await scene.store.get_promise("child")
    made = await opened(scene, "child", holder=TaskRef("t", 1))
    assert made.was_created


@rule
async def test_a_holder_past_its_deadline_creates_nothing(scene: Scene) -> None:
    ref = await held(scene, due_at=START + 5)
    scene.clock.advance(5)
    await conflicts(opened(scene, "child", holder=ref), FULFILLED)
    assert (await scene.store.get_promise("t")).state is PromiseState.TIMED_OUT


@rule
async def test_promises_of_a_branch_are_listed_together_by_id(scene: Scene) -> None:
    for id in ("c", "a", "b.1", "b"):
        await opened(scene, id, branch="main", target=None)
    await opened(scene, "other", branch="next")
    await opened(scene, "a", branch="next")
    await opened(scene, "child", branch="child", parent="c", target=None)
    await opened(scene, "c", branch="c", parent="c")
    for branch in ("child", "c"):
        assert [each.id for each in await scene.store.list_branch(branch)] == ["child"]
    assert [each.id for each in await scene.store.list_branch("main")] == ["a", "b", "b.1", "c"]
    first = await scene.store.list_branch("main", limit=2)
    assert [(each.id, each.data) for each in first] == [("a", '{"a": 1}'), ("b", '{"a": 1}')]
    assert [each.id for each in await scene.store.list_branch("next")] == ["other"]
    assert list(await scene.within("acme").store.list_branch("main")) == []


@rule
async def test_lists_and_messages_end_after_some_payloads(scene: Scene) -> None:
    large = Settlement(PromiseState.RESOLVED, value=json.dumps("x" * 1_000_000))
    for number in range(7):
        id = f"large-{number}"
        await opened(scene, id, branch="large", target=None)
        await scene.store.listen_promise(id, f"poll://uni@large/{number}")
        await scene.store.settle(id, PromiseKind.PROMISE, large)
    assert 4 <= len(await scene.store.list_branch("large")) < 7  # what is encrypted is longer
    queues = [f"poll://uni@large/{number}" for number in range(7)]
    first = await scene.store.take_task_messages(queues, 100)
    assert 4 <= len(first) < 7
    rest = await scene.store.take_task_messages(queues, 100)
    assert len(first) + len(rest) == 7


@rule
async def test_promises_are_listed_with_their_parent_too(scene: Scene) -> None:
    await opened(scene, "root", branch="root")
    await opened(scene, "root.2", branch="root.2", parent="root")
    await opened(scene, "root.1", branch="root", parent="root", target=None)
    assert [each.id for each in await scene.store.list_branch("root")] == ["root", "root.1", "root.2"]
    assert [each.id for each in await scene.store.list_branch("root.2")] == ["root.2"]


# Acquiring and releasing


@rule
async def test_acquiring_a_task_raises_its_version_and_takes_its_resumes(scene: Scene) -> None:
    ref = await suspended(scene, "t", "a", "b")
    await settle(scene, "a")
    await settle(scene, "b")
    assert (await scene.store.get_task("t")).resumes == ("a", "b")
    found = await scene.store.acquire_task(ref, TaskLease("process-2", 5_000))
    assert found.task == Task("default", "t", ACQUIRED, TARGET, 2, (), "process-2", 5_000)
    assert (found.promise.id, found.resumes, found.was_created) == ("t", ("a", "b"), False)


@rule
async def test_resumes_can_be_taken_one_by_one(scene: Scene) -> None:
    ref = await suspended(scene, "t", "a", "b")
    await settle(scene, "b")
    await settle(scene, "a")
    found = await scene.store.acquire_task(ref, LEASE, takes_one=True)
    assert found.task is not None
    assert (found.resumes, found.task.resumes) == (("b",), ("a",))
    ref = TaskRef("t", 2)
    assert not await scene.store.suspend_task(ref, []), "one is left"
    assert await state_of(scene) is PENDING
    assert (await scene.store.acquire_task(ref, LEASE, takes_one=True)).resumes == ("a",)
    assert await scene.store.suspend_task(TaskRef("t", 3), [])
    assert await state_of(scene) is SUSPENDED


@rule
async def test_of_processes_that_acquire_a_task_at_once_one_does(scene: Scene) -> None:
    await opened(scene)
    found = await asyncio.gather(
        *(scene.store.acquire_task(TaskRef("t", 0), TaskLease(f"p{n}", 1000)) for n in range(8)),
        return_exceptions=True,
    )
    [winner] = [each for each in found if isinstance(each, Invocation)]
    assert sum(isinstance(each, TaskConflict) for each in found) == 7
    assert await scene.store.get_task("t") == winner.task


@STATES
@rule
async def test_only_a_pending_task_in_its_version_is_acquired(scene: Scene, state: TaskState) -> None:
    ref = await in_state(scene, state)
    if state is PENDING:
        await conflicts(scene.store.acquire_task(TaskRef("t", 0), LEASE), PENDING)
        assert (await scene.store.acquire_task(ref, LEASE)).promise.id == "t"
    else:
        await conflicts(scene.store.acquire_task(ref, LEASE), state)


@rule
async def test_a_version_of_any_size_is_only_another_one(scene: Scene) -> None:
    ref = await held(scene)
    for version in (-1, 2**31, 2**53, 2**63 - 1):
        other = TaskRef("t", version)
        await conflicts(scene.store.acquire_task(other, LEASE), ACQUIRED)
        await conflicts(scene.store.settle_held(other, "t", DONE), ACQUIRED)
        await conflicts(opened(scene, "child", holder=other), ACQUIRED)
        assert await scene.store.heartbeat_tasks("process-1", [other, ref]) == 1
    for attempt in (
        scene.store.release_task(TaskRef("t", 2**63)),
        scene.store.heartbeat_tasks("process-1", [ref, TaskRef("t", 2**63)]),
        opened(scene, "child", holder=TaskRef("t", 2**63)),
    ):
        with pytest.raises(InvalidValue):
            await attempt


@rule
async def test_a_lease_may_last_for_centuries(scene: Scene) -> None:
    await opened(scene, lease=TaskLease("process-1", 2**53 - 1))
    scene.lease_clock.advance(10**9)
    await scene.store.due()
    assert (await scene.store.get_task("t")).ttl == 2**53 - 1
    assert await state_of(scene) is ACQUIRED


@STATES
@rule
async def test_only_the_holder_of_a_task_releases_it(scene: Scene, state: TaskState) -> None:
    ref = await in_state(scene, state)
    if state is not ACQUIRED:
        await conflicts(scene.store.release_task(ref), state)
        return
    await conflicts(scene.store.release_task(TaskRef("t", 0)), ACQUIRED)
    await scene.store.release_task(ref)
    assert await scene.store.get_task("t") == Task("default", "t", PENDING, TARGET, 1)
    assert await taken(scene) == ["t"]


@rule
async def test_an_unknown_task_is_not_found(scene: Scene) -> None:
    ref = TaskRef("t", 1)
    await held(scene.within("acme"))
    await plain(scene, "p")
    store = scene.store
    attempts: list[Awaitable[object]] = [
        store.get_task("t"),
        store.acquire_task(ref, LEASE),
        store.release_task(ref),
        store.suspend_task(ref, ["p"]),
        store.suspend_task(ref, []),
        store.settle_held(ref, "t", DONE),
        store.halt_task("t"),
        store.continue_task("t"),
        store.listen_promise("t", TARGET),
        store.await_promise("t", "p", address=TARGET),
    ]
    for attempt in attempts:
        with pytest.raises(NotFound):
            await attempt
    assert await store.heartbeat_tasks("process-1", None) == 0
    assert (await store.list_tasks()).items == ()


# Settling


@rule
async def test_a_settled_promise_fulfils_its_task_in_any_state(scene: Scene) -> None:
    for place, state in enumerate(TaskState):
        id = f"t{place}"
        await in_state(scene, state, id)
        if state is not FULFILLED:
            await settle(scene, id)
        assert await scene.store.get_task(id) == Task("default", id, FULFILLED, TARGET, 1)
    assert await taken(scene) == []


@rule
async def test_a_holder_settles_its_own_promise_and_others(scene: Scene) -> None:
    ref = await held(scene)
    await plain(scene, "child")
    child = await scene.store.settle_held(ref, "child", DONE)
    assert (child.state, child.value) == (PromiseState.RESOLVED, '"done"')
    assert await state_of(scene) is ACQUIRED
    again = await scene.store.settle_held(ref, "child", Settlement(PromiseState.REJECTED))
    assert again == child, "one that is settled is returned as it is"
    found = await scene.store.settle_held(ref, "t", Settlement(PromiseState.REJECTED, value="1"))
    assert found == await scene.store.get_promise("t")
    assert (found.state, found.value) == (PromiseState.REJECTED, "1")
    assert await state_of(scene) is FULFILLED
    await conflicts(scene.store.settle_held(ref, "t", DONE), FULFILLED)


@STATES
@rule
async def test_only_the_holder_of_a_task_settles_in_its_name(scene: Scene, state: TaskState) -> None:
    ref = await in_state(scene, state)
    await plain(scene, "child")
    if state is ACQUIRED:
        await conflicts(scene.store.settle_held(TaskRef("t", 0), "child", DONE), ACQUIRED)
        with pytest.raises(NotFound):
            await scene.store.settle_held(ref, "unknown", DONE)
    else:
        await conflicts(scene.store.settle_held(ref, "child", DONE), state)
    assert (await scene.store.get_promise("child")).state is PromiseState.PENDING


@rule
async def test_no_promise_is_settled_as_pending_by_a_holder(scene: Scene) -> None:
    ref = await held(scene)
    with pytest.raises(InvalidValue):
        await scene.store.settle_held(ref, "t", Settlement(PromiseState.PENDING))


@rule
async def test_what_a_holder_settles_past_its_deadline_is_timed_out(scene: Scene) -> None:
    ref = await held(scene)
    await plain(scene, "child", due_at=START + 5)
    scene.clock.advance(5)
    assert (await scene.store.settle_held(ref, "child", DONE)).state is PromiseState.TIMED_OUT


@rule
async def test_a_task_past_its_deadline_is_fulfilled_before_any_operation(scene: Scene) -> None:
    async def late(id: str) -> TaskRef:
        ref = await held(scene, id, due_at=scene.clock.now() + 5)
        scene.clock.advance(5)
        return ref

    store = scene.store
    attempts: list[Callable[[TaskRef], Awaitable[object]]] = [
        lambda ref: store.acquire_task(ref, LEASE),
        store.release_task,
        lambda ref: store.suspend_task(ref, []),
        lambda ref: store.settle_held(ref, ref.id, DONE),
        lambda ref: store.halt_task(ref.id),
        lambda ref: store.continue_task(ref.id),
    ]
    for attempt in attempts:
        ref = await late(f"t{scene.clock.now()}")
        with pytest.raises(TaskConflict) as refused:
            await attempt(ref)
        assert refused.value.state == FULFILLED
        assert (await store.get_promise(ref.id)).state is PromiseState.TIMED_OUT
    ref = await late("last")
    await plain(scene, "p")
    assert (await store.await_promise("p", "last")).id == "p"
    assert await state_of(scene, "last") is FULFILLED


# Suspending


@rule
async def test_a_suspended_task_is_resumed_by_the_first_settled_promise(scene: Scene) -> None:
    ref = await suspended(scene, "t", "a", "b")
    assert await scene.store.get_task("t") == Task("default", "t", SUSPENDED, TARGET, 1)
    assert await taken(scene) == []
    await settle(scene, "b")
    assert await scene.store.get_task("t") == Task("default", "t", PENDING, TARGET, 1, ("b",))
    assert await taken(scene) == ["t"]
    assert (await scene.store.acquire_task(ref, LEASE)).resumes == ("b",)
    await settle(scene, "a")
    found = await scene.store.get_task("t")
    assert (found.state, found.resumes) == (ACQUIRED, ("a",))


@STATES
@rule
async def test_only_the_holder_of_a_task_suspends_it(scene: Scene, state: TaskState) -> None:
    ref = await in_state(scene, state)
    await plain(scene, "p")
    for awaited in (["p"], []):
        if state is ACQUIRED:
            await conflicts(scene.store.suspend_task(TaskRef("t", 0), awaited), ACQUIRED)
        else:
            await conflicts(scene.store.suspend_task(ref, awaited), state)
    assert await state_of(scene) is state


@rule
async def test_a_task_that_awaits_a_settled_promise_stays_acquired(scene: Scene) -> None:
    ref = await suspended(scene, "t", "a", "b", "c")
    await settle(scene, "a")
    await scene.store.acquire_task(ref, LEASE)
    await settle(scene, "b")
    ref = TaskRef("t", 2)
    assert not await scene.store.suspend_task(ref, ["c", "b"])
    assert await scene.store.get_task("t") == Task(
        "default", "t", ACQUIRED, TARGET, 2, (), "process-1", 10_000
    )
    assert await scene.store.suspend_task(ref, ["c", "c"])


@rule
async def test_a_task_awaits_no_unknown_promise(scene: Scene) -> None:
    ref = await held(scene)
    await plain(scene, "a")
    await settle(scene, "a")
    for awaited in (["unknown"], ["a", "unknown"]):
        with pytest.raises(InvalidValue, match="unknown"):
            await scene.store.suspend_task(ref, awaited)
    assert await state_of(scene) is ACQUIRED


@rule
async def test_awaited_promises_past_their_deadline_are_timed_out_first(scene: Scene) -> None:
    ref = await held(scene)
    await plain(scene, "a", due_at=START + 5)
    scene.clock.advance(5)
    assert not await scene.store.suspend_task(ref, ["a"])
    assert (await scene.store.get_promise("a")).state is PromiseState.TIMED_OUT


@rule
async def test_a_deadline_resumes_the_tasks_that_await_the_promise(scene: Scene) -> None:
    ref = await held(scene)
    await plain(scene, "a", due_at=START + 5)
    assert await scene.store.suspend_task(ref, ["a"])
    scene.clock.advance(5)
    await scene.store.due()
    assert (await scene.store.get_task("t")).resumes == ("a",)
    assert await taken(scene) == ["t"]


@rule
async def test_a_deadline_fulfils_the_task_of_the_promise(scene: Scene) -> None:
    await opened(scene, due_at=START + 5)
    assert await scene.store.due() == START + 5
    scene.clock.advance(5)
    await scene.store.due()
    assert await state_of(scene) is FULFILLED
    assert await taken(scene) == []


@rule
async def test_a_task_past_its_own_deadline_is_not_resumed(scene: Scene) -> None:
    ref = await held(scene, due_at=START + 5)
    await plain(scene, "a")
    assert await scene.store.suspend_task(ref, ["a"])
    scene.clock.advance(5)
    await settle(scene, "a")
    assert await state_of(scene) is SUSPENDED
    await scene.store.due()
    assert await state_of(scene) is FULFILLED


@rule
async def test_a_fulfilled_task_awaits_nothing(scene: Scene) -> None:
    await suspended(scene, "t", "a")
    await settle(scene, "t")
    await settle(scene, "a")
    assert await scene.store.get_task("t") == Task("default", "t", FULFILLED, TARGET, 1)


@rule
async def test_racing_settlements_and_suspensions_lose_no_resumption(scene: Scene) -> None:
    count = 20
    refs = [await held(scene, f"t{place}") for place in range(count)]
    for place in range(count):
        await plain(scene, f"a{place}")
    suspensions = [scene.store.suspend_task(ref, [f"a{place}"]) for place, ref in enumerate(refs)]
    settlements = [scene.settle(f"a{place}", DONE, kind=PromiseKind.PROMISE) for place in range(count)]
    results = await asyncio.gather(*suspensions, *reversed(settlements))
    for was_suspended, ref in zip(results, refs, strict=False):
        found = await scene.store.get_task(ref.id)
        assert found.state is (PENDING if was_suspended else ACQUIRED)
        assert found.resumes == ((f"a{ref.id[1:]}",) if was_suspended else ())


# Awaiting and listening


@rule
async def test_a_task_awaits_a_promise_in_any_state_but_fulfilled(scene: Scene) -> None:
    await plain(scene, "a")
    for place, state in enumerate(TaskState):
        await in_state(scene, state, f"t{place}")
        assert (await scene.store.await_promise("a", f"t{place}")).id == "a"
    await settle(scene, "a")
    for place, state in enumerate(TaskState):
        found = await scene.store.get_task(f"t{place}")
        assert found.state is (PENDING if state is SUSPENDED else state)
        assert found.resumes == (() if state is FULFILLED else ("a",))


@rule
async def test_a_settled_promise_resumes_a_suspended_task_at_once(scene: Scene) -> None:
    await plain(scene, "a")
    await settle(scene, "a")
    for place, state in enumerate(TaskState):
        await in_state(scene, state, f"t{place}")
        assert (await scene.store.await_promise("a", f"t{place}")).value == '"done"'
        found = await scene.store.get_task(f"t{place}")
        assert found.state is (PENDING if state is SUSPENDED else state)
        assert found.resumes == (("a",) if state in (PENDING, ACQUIRED) else ())


@rule
async def test_awaiting_a_promise_twice_resumes_a_task_once(scene: Scene) -> None:
    await held(scene)
    await plain(scene, "a")
    await scene.store.await_promise("a", "t")
    await scene.store.await_promise("a", "t")
    await settle(scene, "a")
    await scene.store.await_promise("a", "t")
    assert (await scene.store.get_task("t")).resumes == ("a",)


@rule
async def test_a_task_may_be_resumed_at_another_address(scene: Scene) -> None:
    await suspended(scene)
    await plain(scene, "a")
    await scene.store.await_promise("a", "t", address="poll://any@others/x")
    await settle(scene, "a")
    assert await taken(scene) == []
    [message] = await scene.store.take_task_messages(["poll://any@others"], 10)
    assert message.address == "poll://any@others/x"


@rule
async def test_an_awaiter_without_a_task_gets_one_at_an_address(scene: Scene) -> None:
    await plain(scene, "a")
    await plain(scene, "t")
    with pytest.raises(InvalidValue):
        await scene.store.await_promise("a", "t")
    with pytest.raises(InvalidValue):
        await scene.store.await_promise("a", "unknown", address=TARGET)
    await scene.store.await_promise("a", "t", address=TARGET)
    assert await scene.store.get_task("t") == Task("default", "t", SUSPENDED, TARGET)
    await settle(scene, "a")
    assert await scene.store.get_task("t") == Task("default", "t", PENDING, TARGET, 0, ("a",))


@rule
async def test_a_settled_awaiter_gets_no_task(scene: Scene) -> None:
    await plain(scene, "a")
    await plain(scene, "t")
    await settle(scene, "t")
    assert (await scene.store.await_promise("a", "t", address=TARGET)).id == "a"
    with pytest.raises(NotFound):
        await scene.store.get_task("t")


@rule
async def test_a_listener_is_sent_the_settled_promise_until_it_is_finished(scene: Scene) -> None:
    await plain(scene, "a")
    for _ in range(2):
        assert (await scene.store.listen_promise("a", TARGET)).state is PromiseState.PENDING
    await scene.store.finish_task_message("a", TARGET)
    assert await taken(scene) == []
    await settle(scene, "a")
    [message] = await scene.store.take_task_messages([QUEUE], 10)
    assert (message.namespace, message.address, message.task) == ("default", TARGET, None)
    assert message.promise == await scene.store.get_promise("a")
    assert await taken(scene) == []
    scene.clock.advance(RESEND_SECONDS)
    assert await taken(scene) == ["a"]
    await scene.store.finish_task_message("a", TARGET)
    scene.clock.advance(RESEND_SECONDS)
    assert await taken(scene) == []


@rule
async def test_a_message_that_was_taken_is_sent_again_at_once_on_request(scene: Scene) -> None:
    for id in ("a", "b"):
        await plain(scene, id)
        await scene.store.listen_promise(id, TARGET)
    await scene.store.open_invocation(new("t", target=TARGET))
    await scene.store.open_invocation(new("late", target=TARGET, send_at=START + 100))
    await settle(scene, "a")
    assert sorted(await taken(scene)) == ["a", "t"]
    listeners = [Listener(id, TARGET) for id in ("a", "b", "missing")]
    refs = [TaskRef("t", 0), TaskRef("t", 0), TaskRef("missing", 0)]
    await scene.store.resend_task_messages(refs, listeners)
    assert sorted(await taken(scene)) == ["a", "t"]
    await scene.store.finish_task_message("a", TARGET)
    await scene.store.acquire_task(TaskRef("t", 0), LEASE)
    await scene.store.resend_task_messages(refs, listeners)
    assert await taken(scene) == []
    await scene.store.release_task(TaskRef("t", 1))
    assert await taken(scene) == ["t"]
    await scene.store.resend_task_messages(refs, [])  # of the earlier version
    assert await taken(scene) == []


@rule
async def test_a_listener_of_a_settled_promise_is_only_returned_it(scene: Scene) -> None:
    await plain(scene, "a", due_at=START + 5)
    scene.clock.advance(5)
    assert (await scene.store.listen_promise("a", TARGET)).state is PromiseState.TIMED_OUT
    assert await taken(scene) == []


@rule
async def test_promises_of_runs_resume_tasks_and_reach_listeners(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, opens=[promise("r"), promise("r", 1)])
    ref = await held(scene)
    assert await scene.store.suspend_task(ref, ["r.0"])
    await scene.store.listen_promise("r.1", TARGET)
    await scene.append(run, closes=["r.0"])
    assert (await scene.store.get_task("t")).resumes == ("r.0",)
    await scene.complete(run)
    assert sorted(await taken(scene)) == ["r.1", "t"]


@rule
async def test_an_answered_question_resumes_the_tasks_that_await_it(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, opens=[question("r")])
    ref = await held(scene)
    assert await scene.store.suspend_task(ref, ["r.0"])
    await scene.settle("r.0")
    assert (await scene.store.get_task("t")).resumes == ("r.0",)


@rule
async def test_a_run_is_woken_by_the_task_whose_promise_it_joined(scene: Scene) -> None:
    ref = await held(scene)
    run = await scene.run()
    assert await scene.pause(run, opens=[promise("r", 0, id="t")])
    await scene.store.settle_held(ref, "t", DONE)
    [message] = await scene.messages()
    assert (message.n, message.name, message.value) == (0, "t", '"done"')


# Halting


@STATES
@rule
async def test_a_task_is_halted_until_it_is_continued(scene: Scene, state: TaskState) -> None:
    ref = await in_state(scene, state)
    if state is not HALTED:
        await conflicts(scene.store.continue_task("t"), state)
    if state is FULFILLED:
        await conflicts(scene.store.halt_task("t"), FULFILLED)
        return
    for _ in range(2):
        await scene.store.halt_task("t")
    assert await scene.store.get_task("t") == Task("default", "t", HALTED, TARGET, 1)
    assert await taken(scene) == []
    scene.lease_clock.advance(60)
    await scene.store.due()
    await conflicts(scene.store.settle_held(ref, "t", DONE), HALTED)
    await scene.store.continue_task("t")
    assert await state_of(scene) is PENDING
    assert await taken(scene) == ["t"]


@rule
async def test_a_halted_task_notes_the_promises_that_are_settled(scene: Scene) -> None:
    ref = await suspended(scene, "t", "a")
    await scene.store.halt_task("t")
    await settle(scene, "a")
    assert await state_of(scene) is HALTED
    await scene.store.continue_task("t")
    assert (await scene.store.acquire_task(ref, LEASE)).resumes == ("a",)


# Leases


@rule
async def test_a_task_is_pending_once_its_lease_expires(scene: Scene) -> None:
    ref = await held(scene)
    await held(scene.within("acme"))
    assert await scene.store.due() == START + 10
    scene.lease_clock.advance(9.9)
    await scene.store.due()
    assert await state_of(scene) is ACQUIRED
    scene.lease_clock.advance(0.2)
    await scene.store.due()
    for each in (scene, scene.within("acme")):
        assert await each.store.get_task("t") == Task(each.store.namespace, "t", PENDING, TARGET, 1)
        assert await taken(each) == ["t"]
    await conflicts(scene.store.settle_held(ref, "t", DONE), PENDING)
    assert (await scene.store.acquire_task(ref, LEASE)).task is not None


@rule
async def test_a_holder_of_an_expired_lease_that_nobody_freed_goes_on(scene: Scene) -> None:
    ref = await held(scene)
    scene.lease_clock.advance(60)
    assert (await scene.store.settle_held(ref, "t", DONE)).state is PromiseState.RESOLVED


@rule
async def test_a_heartbeat_extends_the_leases_of_its_process_only(scene: Scene) -> None:
    mine = await held(scene, "mine")
    await held(scene, "other")
    await opened(scene, "theirs", lease=TaskLease("process-2", 10_000))
    await held(scene.within("acme"), "mine")
    scene.lease_clock.advance(5)
    listed = [mine, mine, TaskRef("other", 0), TaskRef("theirs", 1), TaskRef("unknown", 1)]
    assert await scene.store.heartbeat_tasks("process-1", listed) == 1
    assert await scene.store.heartbeat_tasks("process-1", []) == 0
    scene.lease_clock.advance(5)
    await scene.store.due()
    found = {id: await state_of(scene, id) for id in ("mine", "other", "theirs")}
    assert found == {"mine": ACQUIRED, "other": PENDING, "theirs": PENDING}
    assert await state_of(scene.within("acme"), "mine") is PENDING


@rule
async def test_a_heartbeat_without_tasks_extends_all_leases_of_a_process(scene: Scene) -> None:
    for id in ("a", "b.1", "b"):
        await held(scene, id)
    scene.lease_clock.advance(5)
    assert await scene.store.heartbeat_tasks("process-1", None) == 3
    assert await scene.store.heartbeat_tasks("process-2", None) == 0
    scene.lease_clock.advance(9)
    await scene.store.due()
    assert {each.state for each in (await scene.store.list_tasks()).items} == {ACQUIRED}


@rule
async def test_more_expired_leases_than_the_limit_are_freed_in_turns(scene: Scene) -> None:
    for place in range(5):
        await held(scene, f"t{place}")
    scene.lease_clock.advance(11)
    await scene.store.due(limit=3)
    left = await scene.store.list_tasks(state=ACQUIRED)
    assert len(left.items) == 2
    await scene.store.due(limit=3)
    assert (await scene.store.list_tasks(state=ACQUIRED)).items == ()


# Messages


@rule
async def test_a_task_is_sent_again_until_it_is_acquired(scene: Scene) -> None:
    await opened(scene)
    [message] = await scene.store.take_task_messages([QUEUE], 10)
    assert (message.namespace, message.address, message.promise) == ("default", TARGET, None)
    assert message.task == await scene.store.get_task("t")
    assert await taken(scene) == []
    scene.clock.advance(RESEND_SECONDS)
    assert await taken(scene) == ["t"]
    await scene.store.acquire_task(TaskRef("t", 0), LEASE)
    scene.clock.advance(RESEND_SECONDS)
    assert await taken(scene) == []


@rule
async def test_a_task_is_not_sent_before_its_time(scene: Scene) -> None:
    await opened(scene, send_at=START + 60)
    assert await taken(scene) == []
    scene.clock.advance(60)
    assert await taken(scene) == ["t"]


@rule
async def test_messages_are_taken_by_queue_oldest_first_up_to_a_limit(scene: Scene) -> None:
    for place in range(4):
        await opened(scene, f"t{place}", target=f"poll://any@workers/{place}")
        scene.clock.advance(1)
    await plain(scene, "a")
    await scene.store.listen_promise("a", "poll://any@workers/x")
    await settle(scene, "a")
    await opened(scene, "u", target="poll://uni@workers/1")
    await opened(scene, "v", target="http://host/path")
    await opened(scene.within("acme"), "t0")
    assert await taken(scene, limit=3) == ["t0", "t1", "t2"]
    assert await taken(scene, limit=3) == ["t3", "a"]
    assert await taken(scene, limit=0) == []
    both = await scene.store.take_task_messages(["poll://uni@workers/1", queue_of("http://host/path")], 10)
    assert [message.address for message in both] == ["poll://uni@workers/1", "http://host/path"]
    assert await scene.store.take_task_messages([], 10) == []


@rule
async def test_a_message_is_taken_once_by_racing_processes(scene: Scene) -> None:
    for place in range(10):
        await opened(scene, f"t{place}")
    found = await asyncio.gather(*(taken(scene, limit=4) for _ in range(5)))
    ids = [id for some in found for id in some]
    assert len(ids) == len(set(ids))
    assert sorted([*ids, *await taken(scene)]) == [f"t{place}" for place in range(10)]


@rule
async def test_waiters_for_deadlines_are_notified_of_due_messages(scene: Scene) -> None:
    heard: list[Change] = []
    await scene.listen(heard)

    async def tells(work: Awaitable[object]) -> None:
        heard.clear()
        await work
        await until(lambda: any(change.due for change in heard if change.runs is not None))

    await tells(opened(scene))
    await tells(scene.store.acquire_task(TaskRef("t", 0), LEASE))
    await tells(scene.store.release_task(TaskRef("t", 1)))
    await suspended(scene, "u", "a", "b")
    await tells(settle(scene, "a"))
    await scene.store.listen_promise("b", TARGET)
    await tells(settle(scene, "b"))
    await scene.store.halt_task("t")
    await tells(scene.store.continue_task("t"))
    await tells(scene.store.resend_task_messages([TaskRef("t", 1)], []))
    await held(scene, "late")
    scene.lease_clock.advance(11)
    await tells(scene.store.due())


# Lists, limits, deletion


@rule
async def test_tasks_are_listed_by_id_in_pages(scene: Scene) -> None:
    for id in ("c", "a", "b.1", "b"):
        await opened(scene, id)
    await held(scene, "d")
    await opened(scene.within("acme"), "e")
    first = await scene.store.list_tasks(limit=3)
    assert [each.id for each in first.items] == ["a", "b", "b.1"]
    second = await scene.store.list_tasks(after=first.next, limit=3)
    assert ([each.id for each in second.items], second.next) == (["c", "d"], None)
    first = await scene.store.list_tasks(state=PENDING, limit=2)
    second = await scene.store.list_tasks(state=PENDING, after=first.next, limit=2)
    assert [each.id for each in (*first.items, *second.items)] == ["a", "b", "b.1", "c"]
    assert second.next is None


@rule
async def test_the_namespaces_with_messages_for_a_queue_are_listed(scene: Scene) -> None:
    await opened(scene.within("task"))
    await opened(scene.within("later"), send_at=START + 1000)
    await opened(scene.within("other"), target="poll://any@others")
    await held(scene.within("held"))
    for namespace in ("waits", "settled"):
        await plain(scene.within(namespace), "p")
        await scene.within(namespace).store.listen_promise("p", QUEUE)
    await settle(scene.within("settled"), "p")
    first = await scene.store.queued_namespaces(QUEUE, limit=2)
    second = await scene.store.queued_namespaces(QUEUE, after=first[-1])
    assert [*first, *second] == ["later", "settled", "task"]


@rule
async def test_the_tasks_that_a_process_holds_are_listed(scene: Scene) -> None:
    store = scene.store
    for id in ("a", "b", "c"):
        await held(scene, id)
    await store.open_invocation(new("other", lease=TaskLease("process-2", 10_000)))
    await store.release_task(TaskRef("b", 1))
    await held(scene.within("acme"), "d")
    first = await store.list_tasks(pid="process-1", limit=1)
    second = await store.list_tasks(pid="process-1", after=first.next, limit=1)
    assert [each.id for each in (*first.items, *second.items)] == ["a", "c"]
    assert second.next is None
    assert [each.id for each in (await store.list_tasks(pid="process-2", state=ACQUIRED)).items] == ["other"]
    assert (await store.list_tasks(pid="process-1", state=PENDING)).items == ()


@rule
async def test_ids_and_addresses_of_maximal_length_are_kept(scene: Scene) -> None:
    store = scene.within("n" * 256).store
    long, awaited = "t" * 640, "a" * 640
    address = "http://host/" + "x" * 488
    lease = TaskLease("p" * 500, 10_000)
    created = new(long, target=address, branch="b" * 770)
    await store.open_invocation(created)
    await store.open_invocation(replace(new(awaited), target=None))
    await store.acquire_task(TaskRef(long, 0), lease)
    assert await store.heartbeat_tasks(lease.pid, None) == 1
    await store.listen_promise(awaited, address)
    assert await store.suspend_task(TaskRef(long, 1), [awaited])
    await store.await_promise(awaited, long, address=address)
    await store.settle(awaited, PromiseKind.PROMISE, DONE)
    assert len(await store.take_task_messages([queue_of(address)], 10)) == 2
    refused: list[Awaitable[object]] = [
        store.open_invocation(new("u", target="x" * 501)),
        store.open_invocation(new("u", branch="b" * 771)),
        store.open_invocation(new("u", lease=TaskLease("p" * 501, 1))),
        store.open_invocation(new("u", lease=TaskLease("p", -1))),
        store.open_invocation(new("u", send_at=float("inf"))),
        store.acquire_task(TaskRef(long, 1), TaskLease("p" * 501, 1)),
        store.listen_promise(awaited, "x" * 501),
        store.await_promise(awaited, long, address="x" * 501),
    ]
    for attempt in refused:
        with pytest.raises(InvalidValue):
            await attempt


@rule
async def test_what_awaits_a_promise_of_a_run_is_deleted_with_the_run(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, opens=[promise("r")])
    await suspended(scene, "t", "a")
    await scene.store.await_promise("a", "r.0", address=TARGET)
    await scene.store.listen_promise("r.0", TARGET)
    await scene.complete(run)
    assert await state_of(scene, "r.0") is FULFILLED
    scene.clock.advance(10)
    assert await scene.store.delete_ended(scene.clock.now(), 10) == 1
    with pytest.raises(NotFound):
        await scene.store.get_task("r.0")
    scene.clock.advance(60)
    assert await taken(scene) == []
