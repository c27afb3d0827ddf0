"""The rules of the store contract. Every store must pass all of them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from signoff.codec import decode_error
from signoff.errors import (
    AlreadySettled,
    IdConflict,
    InvalidState,
    InvalidValue,
    LeaseLost,
    NotFound,
    RequestConflict,
    RunCancelled,
    SignoffError,
)
from signoff.records import (
    AuditKind,
    EntryKind,
    MessageKind,
    NewAuditEvent,
    NewPromise,
    NewRun,
    PromiseKind,
    PromiseState,
    Run,
    RunState,
    Settlement,
    WorkerInfo,
)
from signoff.records.paging import PromiseFilter, RunFilter
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.retries import Retry
from signoff.stores.contract.store import Change
from tests.stores.scene import (
    FAILURE,
    GROUP,
    KEPT_FAILURE,
    NO,
    SUCCESS,
    WORKFLOW,
    YES,
    Scene,
    entry,
    promise,
    question,
    rule,
    until,
)

TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
OTHER_TRACE = f"00-{'c' * 32}-{'d' * 16}-00"

# Starting runs


@rule
async def test_starting_twice_with_one_id_starts_once(scene: Scene) -> None:
    new = NewRun("r", WORKFLOW, GROUP, '{"args": [1], "kwargs": {"a": 1, "b": 2}}', deadline_at=5.5)
    first, created = await scene.store.create_run(new)
    again, created_again = await scene.store.create_run(
        replace(new, arguments='{"kwargs":{"b":2,"a":1},"args":[1]}')
    )
    assert (created, created_again) == (True, False)
    assert first == again == await scene.store.get_run("r")
    assert first.state is RunState.READY
    assert (first.created_at, first.deadline_at, first.epoch, first.wakes) == (1_000_000.0, 5.5, 0, 0)


@rule
@pytest.mark.parametrize(
    "other", [{"workflow": "other"}, {"arguments": '{"args": [2]}'}, {"arguments": '{"args": [true]}'}]
)
async def test_an_id_taken_by_something_else_is_a_conflict(scene: Scene, other: dict[str, str]) -> None:
    new = NewRun("r", WORKFLOW, GROUP, '{"args": [1]}')
    await scene.store.create_run(new)
    with pytest.raises(IdConflict):
        await scene.store.create_run(replace(new, **other))


@rule
async def test_a_run_keeps_the_trace_of_its_first_start(scene: Scene) -> None:
    new = NewRun("r", WORKFLOW, GROUP, "{}", traceparent=TRACE)
    run, _ = await scene.store.create_run(new)
    assert run.traceparent == TRACE
    for other in (replace(new, traceparent=OTHER_TRACE), replace(new, traceparent=None)):
        assert await scene.store.create_run(other) == (run, False)
    assert (await scene.store.list_runs(RunFilter())).items == (run,)
    [claim] = await scene.claim()
    assert claim.run.traceparent == TRACE
    await scene.append(claim.run, starts=[NewRun("c", "other", GROUP, "{}", "r", 0, traceparent=OTHER_TRACE)])
    assert (await scene.store.get_run("c")).traceparent == OTHER_TRACE
    assert (await scene.start("untraced")).traceparent is None


@rule
@pytest.mark.parametrize(
    "wrong", ["", TRACE.upper(), f"{TRACE}-more", TRACE.replace("a", "0"), f"01{TRACE[2:]}"]
)
async def test_what_is_no_trace_context_is_refused(scene: Scene, wrong: str) -> None:
    with pytest.raises(InvalidValue):
        await scene.start(traceparent=wrong)


@rule
async def test_an_unknown_run_is_not_found(scene: Scene) -> None:
    store = scene.store
    for attempt in (store.get_run("x"), store.cancel("x"), store.retry("x"), store.signal("x", "go", "1")):
        with pytest.raises(NotFound):
            await attempt
    assert list(await store.read_journal("x")) == []


# Claims, leases and the fence


@rule
async def test_the_oldest_ready_run_is_claimed_first(scene: Scene) -> None:
    for name in ("c", "a", "b"):
        await scene.start(name)
        scene.clock.advance(1)
    assert [claim.run.id for claim in await scene.claim(limit=2)] == ["c", "a"]
    assert [claim.run.id for claim in await scene.claim(limit=2)] == ["b"]
    assert await scene.claim() == []


@rule
async def test_the_oldest_is_first_across_workflows(scene: Scene) -> None:
    for number in range(6):
        await scene.start(f"r{number}", workflow=f"w{number % 3}")
        scene.clock.advance(1)
    claims = await scene.claim(workflows=["w0", "w1", "w2"], limit=4)
    assert [claim.run.id for claim in claims] == ["r0", "r1", "r2", "r3"]


@rule
async def test_a_worker_gets_only_its_group_and_workflows(scene: Scene) -> None:
    await scene.start("mine")
    await scene.start("other-group", group="gpu")
    await scene.start("other-workflow", workflow="other")
    assert await scene.claim(workflows=[]) == []
    assert [claim.run.id for claim in await scene.claim()] == ["mine"]
    assert [claim.run.id for claim in await scene.claim(group="gpu")] == ["other-group"]


@rule
async def test_a_worker_may_know_a_thousand_workflows(scene: Scene) -> None:
    names = [f"w{number}" for number in range(1_000)]
    for name in names[::100]:
        await scene.start(name, workflow=name)
    assert len(await scene.claim(workflows=names, limit=4)) == 4
    assert len(await scene.claim(workflows=names, limit=100)) == 6


@rule
async def test_a_claim_leases_the_run_in_a_new_epoch(scene: Scene) -> None:
    await scene.start()
    [claim] = await scene.claim(worker="w1")
    run = claim.run
    assert (run.state, run.epoch, run.worker_id, run.lease_until) == (RunState.RUNNING, 1, "w1", 5_010.0)
    assert run == await scene.store.get_run("r")
    await scene.store.release("w1")
    [claim] = await scene.claim(worker="w2")
    assert (claim.run.epoch, claim.run.worker_id) == (2, "w2")


@rule
async def test_a_claim_brings_the_messages_oldest_first(scene: Scene) -> None:
    await scene.start("a")
    await scene.start("b")
    for number in range(12):
        await scene.store.signal("a", "go", str(number))
    claims = {claim.run.id: claim for claim in await scene.claim()}
    assert [message.value for message in claims["a"].messages] == [str(number) for number in range(12)]
    assert claims["a"].run.wakes == 12
    assert claims["b"].messages == ()


@rule
async def test_racing_workers_never_claim_the_same_run(scene: Scene) -> None:
    for number in range(60):
        await scene.start(f"r{number}")
    batches = await asyncio.gather(*(scene.claim(worker=f"w{n}", limit=7) for n in range(12)))
    claimed = [claim.run.id for batch in batches for claim in batch]
    assert len(claimed) == len(set(claimed)) == 60


@rule
async def test_an_append_is_journaled_as_given(scene: Scene) -> None:
    run = await scene.run()
    entries = [entry(0), entry(1, EntryKind.ATTEMPT_FAILED, error='{"type": "x"}', details="{}"), entry(2)]
    await scene.append(run, *entries[:2])
    await scene.append(run, entries[2])
    assert list(await scene.store.read_journal("r")) == entries
    assert list(await scene.store.read_journal("r", after=0, limit=1)) == entries[1:2]


@rule
async def test_a_worker_that_lost_its_lease_writes_nothing(scene: Scene) -> None:
    lost = await scene.run()
    await scene.store.signal("r", "go", "1")
    await scene.store.release("w")
    [claim] = await scene.claim()
    write = Write(
        "r",
        lost.epoch,
        entries=[entry(0)],
        opens=[question("r")],
        starts=[NewRun("child", WORKFLOW, GROUP, "{}", "r", 1)],
        taken=[claim.messages[0].id],
        first_seq=1,
    )
    for attempt in (
        scene.store.append(write),
        scene.store.pause(write, wakes=1, wake_at=None),
        scene.store.complete(write, SUCCESS),
        scene.store.append(Write("r", lost.epoch)),
        scene.store.append(Write("unknown", 1)),
    ):
        with pytest.raises(LeaseLost):
            await attempt
    assert await scene.journal() == []
    assert await scene.store.get_run("r") == claim.run
    assert len(await scene.messages()) == 1
    for missing in (scene.store.get_promise("r.0"), scene.store.get_run("child")):
        with pytest.raises(NotFound):
            await missing


@rule
@pytest.mark.parametrize("seqs", [(1,), (0, 2), (0, 0), (-1,)])
async def test_a_journal_has_no_holes(scene: Scene, seqs: tuple[int, ...]) -> None:
    run = await scene.run()
    with pytest.raises(InvalidValue):
        await scene.append(run, *(entry(seq) for seq in seqs), opens=[question("r")])
    assert await scene.journal() == []
    with pytest.raises(NotFound):
        await scene.store.get_promise("r.0")


@rule
async def test_an_entry_is_never_written_over(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, entry(0))
    with pytest.raises(InvalidValue):
        await scene.append(run, replace(entry(0), value="2"))
    assert [found.value for found in await scene.store.read_journal("r")] == ["1"]


@rule
async def test_a_refused_operation_does_not_harm_those_beside_it(scene: Scene) -> None:
    run = await scene.run()
    lost = replace(run, epoch=7)
    results = await asyncio.gather(
        scene.append(lost, entry(0)),
        scene.append(run, entry(0)),
        scene.store.signal("unknown", "go", "1"),
        scene.store.signal("r", "go", "1"),
        return_exceptions=True,
    )
    assert isinstance(results[0], LeaseLost)
    assert isinstance(results[2], NotFound)
    assert results[1::2] == [None, True]
    assert await scene.journal() == [EntryKind.COMPLETED]


@rule
async def test_a_cancelled_caller_leaves_its_operation_whole_and_others_unharmed(scene: Scene) -> None:
    run = await scene.run()
    tasks = [asyncio.create_task(scene.store.signal("r", "go", str(n))) for n in range(20)]
    append = asyncio.create_task(scene.append(run, entry(0), opens=[question("r")]))
    await asyncio.sleep(0)
    append.cancel()
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(result is True for result in results[1::2])
    journaled = await scene.journal()
    promises = (await scene.store.list_promises(PromiseFilter())).items
    assert len(journaled) == len(promises)


@rule
async def test_a_heartbeat_extends_what_is_held_and_names_what_is_lost(scene: Scene) -> None:
    held = await scene.run("held")
    other = await scene.run("other", worker="w2")
    await scene.run("stale")
    await scene.paused("paused")
    scene.lease_clock.advance(4)
    lost = await scene.store.heartbeat(
        "w", {"held": held.epoch, "other": other.epoch, "stale": 7, "paused": 1, "unknown": 1}
    )
    assert lost == {"other", "stale", "paused", "unknown"}
    assert (await scene.store.get_run("held")).lease_until == 5_014.0
    assert (await scene.store.get_run("other")).lease_until == 5_010.0
    assert await scene.store.heartbeat("w", {}) == set()


@rule
async def test_a_lost_lease_is_freed_by_the_lease_clock_only(scene: Scene) -> None:
    run = await scene.run()
    scene.clock.advance(86_400)
    await scene.store.due()
    assert await scene.state() is RunState.RUNNING
    scene.lease_clock.advance(9)
    assert await scene.store.due() == scene.clock.now() + 1
    assert await scene.state() is RunState.RUNNING
    scene.lease_clock.advance(1)
    await scene.store.due()
    freed = await scene.store.get_run("r")
    assert (freed.state, freed.worker_id, freed.lease_until) == (RunState.READY, None, None)
    with pytest.raises(LeaseLost):
        await scene.append(run, entry(0))


@rule
async def test_release_frees_the_runs_of_a_worker_in_every_namespace(scene: Scene) -> None:
    elsewhere = scene.within("acme")
    await scene.run("a")
    await elsewhere.run("b")
    await scene.run("c", worker="other")
    assert await scene.store.release("w") == 2
    assert [await scene.state("a"), await elsewhere.state("b")] == [RunState.READY] * 2
    assert await scene.state("c") is RunState.RUNNING
    assert await scene.store.release("w") == 0


@rule
async def test_the_register_of_workers(scene: Scene) -> None:
    one = WorkerInfo("w1", "host", 10, 1.5, GROUP)
    two = WorkerInfo("w2", "host", 11, 2.5, GROUP)
    for worker in (two, one, one):
        await scene.store.enlist(worker)
    seen = [replace(each, seen_at=5_000.0) for each in (one, two)]
    assert list(await scene.within("acme").store.list_workers()) == seen
    await scene.store.release("w1")
    assert list(await scene.store.list_workers()) == seen[1:]


@rule
async def test_the_register_says_what_a_worker_is_of_as_far_as_it_has_said_so(scene: Scene) -> None:
    old = WorkerInfo("old", "host", 10, 1.5, GROUP)
    new = replace(old, id="new", signoff_version="1.2.0", python_version="3.13.1", build="commit 8f3a9é")
    for worker in (old, replace(new, build="before"), new):
        await scene.store.enlist(worker)
    assert list(await scene.store.list_workers()) == [replace(each, seen_at=5_000.0) for each in (new, old)]


@rule
@pytest.mark.parametrize(
    "build", ["", "x" * 201, "nul\0", "half \ud800"], ids=["empty", "long", "nul", "half"]
)
async def test_a_build_that_cannot_be_kept_is_refused(scene: Scene, build: str) -> None:
    with pytest.raises(InvalidValue, match="build"):
        await scene.store.enlist(WorkerInfo("w", "host", 10, 1.5, GROUP, build=build))
    assert list(await scene.store.list_workers()) == []


# Repeating what may have been done


@rule
async def test_a_write_repeated_exactly_by_the_same_lease_has_no_effect(scene: Scene) -> None:
    run = await scene.run()
    await scene.store.signal("r", "go", "1")
    [message] = await scene.messages()
    write = Write(
        "r",
        run.epoch,
        entries=[entry(0), entry(1, EntryKind.ATTEMPT_FAILED, error="{}", details="{}")],
        opens=[question("r"), question("r", 1)],
        starts=[NewRun("child", "other", GROUP, "{}", "r", 2)],
        taken=[message.id],
    )
    await scene.store.append(write)
    await scene.append(run, entry(2), closes=["r.1"])
    before = await scene.store.get_run("r")
    await scene.store.append(write)
    assert list(await scene.store.read_journal("r")) == [*write.entries, entry(2)]
    assert await scene.store.get_run("r") == before
    assert (await scene.store.get_promise("r.1")).state is PromiseState.CANCELLED
    assert await scene.messages() == []
    for other in (
        replace(write, entries=[entry(0), entry(1)]),
        replace(write, entries=[replace(entry(0), at=2.5)]),
        replace(write, entries=[entry(2), entry(3)]),
    ):
        with pytest.raises(InvalidValue):
            await scene.store.append(other)


@rule
async def test_a_pause_that_is_repeated_is_still_paused_whatever_came_meanwhile(scene: Scene) -> None:
    run = await scene.run()
    for _ in range(2):
        assert await scene.pause(run, entry(0), opens=[question("r")])
        assert await scene.state() is RunState.PAUSED
    await scene.settle("r.0")
    assert await scene.pause(run, entry(0), opens=[question("r")])
    assert await scene.state() is RunState.READY
    [claim] = await scene.claim()
    with pytest.raises(LeaseLost):
        await scene.pause(run, entry(0), opens=[question("r")])
    assert await scene.store.get_run("r") == claim.run


@rule
async def test_a_pause_that_came_too_late_is_refused_again_when_it_is_repeated(scene: Scene) -> None:
    run = await scene.run()
    await scene.store.signal("r", "go", "1")
    for _ in range(2):
        assert not await scene.pause(run, entry(0))
    assert await scene.state() is RunState.RUNNING
    assert len(await scene.journal()) == 1


@rule
@pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, KEPT_FAILURE])
async def test_a_repeated_end_is_announced_once(scene: Scene, outcome: Outcome) -> None:
    parent = await scene.run("parent")
    await scene.pause(parent, starts=[NewRun("r", WORKFLOW, GROUP, "{}", "parent", 0)])
    [claim] = await scene.claim()
    for _ in range(2):
        await scene.complete(claim.run, outcome, entries=[entry(0)])
    assert len(await scene.journal()) == 1
    assert len(await scene.messages("parent")) == (0 if outcome.retryable else 1)
    if outcome.retryable:
        await scene.store.retry("r")
        await scene.complete(claim.run, outcome, entries=[entry(0)])
        assert await scene.state() is RunState.READY


@rule
async def test_a_worker_without_its_lease_may_only_repeat_its_own_write(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, entry(0))
    await scene.store.release("w")
    await scene.append(run, entry(0))
    with pytest.raises(LeaseLost):
        await scene.append(run, entry(0), entry(1))
    assert await scene.state() is RunState.READY
    assert len(await scene.journal()) == 1
    await scene.claim()
    with pytest.raises(LeaseLost):
        await scene.append(run, entry(0))


@rule
async def test_a_call_that_is_repeated_says_what_it_said(scene: Scene) -> None:
    store = scene.store
    new, promise = NewRun("r", WORKFLOW, GROUP, "{}"), NewPromise("p", PromiseKind.QUESTION)
    for token, is_first in (("a", True), ("b", False), ("a", True)):
        assert (await store.create_run(new, token=token))[1] is is_first
        assert (await store.create_promise(promise, token=token))[1] is is_first
    [claim] = await scene.claim()
    for _ in range(2):
        assert await store.signal("r", "go", "1", token="c")
    assert await store.signal("r", "go", "1", token="d")
    for token, is_first in (("e", True), ("f", False), ("e", True)):
        assert await store.signal("r", "go", "2", request_id="q", token=token) is is_first
    assert [message.value for message in await scene.messages()] == ["1", "1", "2"]
    for _ in range(2):
        settled, is_first = await store.settle("p", PromiseKind.QUESTION, YES, token="g")
        assert (settled.value, is_first) == ("true", True)
    for token in ("h", None):
        with pytest.raises(AlreadySettled):
            await store.settle("p", PromiseKind.QUESTION, YES, token=token)
    await scene.complete(claim.run, KEPT_FAILURE)
    for _ in range(2):
        assert (await store.retry("r", token="i")).state is RunState.READY
    assert await scene.journal() == [EntryKind.RETRIED]
    [claim] = await scene.claim()
    await scene.complete(claim.run, KEPT_FAILURE, entries=[entry(1)])
    assert (await store.retry("r", token="i")).state is RunState.FAILED
    assert (await store.retry("r", token="j")).state is RunState.READY


@rule
async def test_a_repeated_settlement_with_its_request_id_reports_success(scene: Scene) -> None:
    await scene.paused()
    answer = replace(YES, request_id="q")
    for token, is_first in (("a", True), ("b", False), ("a", True)):
        _, settled_it = await scene.store.settle("r.0", PromiseKind.QUESTION, answer, token=token)
        assert settled_it is is_first
    assert len(await scene.messages()) == 1


@rule
async def test_a_claim_that_is_repeated_returns_what_it_leased(scene: Scene) -> None:
    for name in ("a", "b", "c"):
        await scene.start(name)
        scene.clock.advance(1)
    await scene.store.signal("b", "go", "1")
    first = await scene.claim(limit=2, token="one")
    assert [claim.run.id for claim in first] == ["a", "b"]
    await scene.store.signal("a", "go", "2")
    again = await scene.claim(limit=2, token="one")
    assert [(claim.run.id, claim.run.epoch, len(claim.messages)) for claim in again] == [
        ("a", 1, 1),
        ("b", 1, 1),
    ]
    await scene.complete(first[0].run)
    assert [claim.run.id for claim in await scene.claim(limit=2, token="one")] == ["b"]
    assert await scene.state("c") is RunState.READY, "a repetition leases no others"
    assert [claim.run.id for claim in await scene.claim(token="two")] == ["c"]
    assert await scene.claim(token="three") == []
    assert [claim.run.id for claim in await scene.claim(token="one")] == ["b"]


@rule
async def test_a_claim_that_is_repeated_after_its_leases_ran_out_is_a_new_one(scene: Scene) -> None:
    await scene.start("a")
    await scene.claim(token="one")
    scene.lease_clock.advance(10)
    await scene.store.due()
    [claim] = await scene.claim(token="one")
    assert claim.run.epoch == 2
    await scene.store.release("w")
    [claim] = await scene.claim(worker="other")
    assert await scene.claim(token="one") == []
    assert await scene.store.get_run("a") == claim.run


# Pausing and waking


@rule
async def test_a_paused_run_holds_no_lease(scene: Scene) -> None:
    run = await scene.paused(wake_at=1_000_060.0)
    assert (run.state, run.worker_id, run.lease_until) == (RunState.PAUSED, None, None)
    assert run.wake_at == 1_000_060.0
    assert await scene.claim() == []


@rule
async def test_what_came_meanwhile_keeps_a_run_from_pausing(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, entry(0), opens=[question("r")])
    await scene.settle("r.0")
    assert not await scene.pause(run, entry(1))
    assert len(await scene.journal()) == 2, "the batch is written in either case"
    assert await scene.state() is RunState.RUNNING
    [(message, wakes)] = await scene.store.read_messages(["r"])
    now = replace(run, wakes=wakes)
    assert await scene.pause(now, entry(2), taken=[message.id])
    assert await scene.messages() == []


@rule
async def test_an_answer_wakes_the_paused_run(scene: Scene) -> None:
    await scene.paused(wake_at=1_000_060.0)
    await scene.settle("r.0")
    run = await scene.store.get_run("r")
    assert (run.state, run.wakes, run.wake_at) == (RunState.READY, 1, None)
    [claim] = await scene.claim()
    [message] = claim.messages
    assert (message.kind, message.n, message.name) == (MessageKind.SETTLED, 0, "r.0")
    assert (message.state, message.value, message.by) == ("resolved", "true", "user:ana")
    assert message.at == 1_000_000.0


@rule
async def test_taken_messages_are_not_seen_again(scene: Scene) -> None:
    run = await scene.run()
    for value in ("1", "2"):
        await scene.store.signal("r", "go", value)
    first, second = await scene.messages()
    await scene.append(run, entry(0), taken=[first.id])
    assert await scene.messages() == [second]
    await scene.append(run, entry(1), taken=[second.id])
    await scene.store.signal("r", "go", "3")
    [third] = await scene.messages()
    assert third.id not in (first.id, second.id)


@rule
async def test_messages_of_many_runs_are_in_order_with_their_counter(scene: Scene) -> None:
    for name in ("a", "b"):
        await scene.start(name)
        for value in ("1", "2"):
            await scene.store.signal(name, "go", value)
    await scene.store.signal("a", "go", "3")
    read = await scene.store.read_messages(["a", "b", "unknown"])
    assert sorted((message.run_id, message.value, wakes) for message, wakes in read) == [
        ("a", "1", 3),
        ("a", "2", 3),
        ("a", "3", 3),
        ("b", "1", 2),
        ("b", "2", 2),
    ]
    assert [message.value for message, _ in read if message.run_id == "a"] == ["1", "2", "3"]


@rule
async def test_no_wake_up_is_lost_in_races_of_answer_and_pause(scene: Scene) -> None:
    """Whichever comes first: a paused run never has a message, and each answer is seen once."""
    chance = random.Random(7)

    async def play(name: str) -> None:
        await asyncio.sleep(chance.random() * 0.02)
        run = replace(await scene.store.get_run(name), wakes=0)
        if await scene.pause(run, entry(0), opens=[question(name)]):
            return
        [(message, wakes)] = await scene.store.read_messages([name])
        assert message.n == 0
        assert not await scene.pause(run, entry(1))
        assert await scene.pause(replace(run, wakes=wakes), entry(2), taken=[message.id])

    async def answer(name: str) -> None:
        await asyncio.sleep(chance.random() * 0.02)
        while True:
            try:
                await scene.settle(f"{name}.0")
                return
            except NotFound:
                await asyncio.sleep(0)

    names = [f"r{number}" for number in range(300)]
    for name in names:
        await scene.start(name)
    assert len(await scene.claim(limit=300)) == 300
    await asyncio.gather(*(play(name) for name in names), *(answer(name) for name in names))
    for name in names:
        run = await scene.store.get_run(name)
        waiting = await scene.messages(name)
        assert (run.state, len(waiting)) in [(RunState.READY, 1), (RunState.PAUSED, 0)]
        assert run.wakes == 1


# Promises


@rule
async def test_a_promise_of_a_caller_is_created_once(scene: Scene) -> None:
    new = NewPromise("p", PromiseKind.PROMISE, due_at=1_000_060.0, data='{"a": 1}')
    first, created = await scene.store.create_promise(new)
    again, created_again = await scene.store.create_promise(new)
    assert (created, created_again) == (True, False)
    assert first == again == await scene.store.get_promise("p")
    assert (first.state, first.run_id, first.due_at) == (PromiseState.PENDING, None, 1_000_060.0)


@rule
async def test_a_promise_id_taken_by_something_else_is_a_conflict(scene: Scene) -> None:
    await scene.paused()
    await scene.store.create_promise(NewPromise("p", PromiseKind.PROMISE))
    for new in (NewPromise("p", PromiseKind.QUESTION), NewPromise("r.0", PromiseKind.QUESTION)):
        with pytest.raises(IdConflict):
            await scene.store.create_promise(new)


@rule
async def test_a_promise_is_settled_once_and_the_second_learns_by_whom(scene: Scene) -> None:
    await scene.paused()
    promise, now = await scene.settle("r.0", replace(YES, note="fine"))
    assert now
    assert (promise.state, promise.value, promise.settled_by) == (PromiseState.RESOLVED, "true", "user:ana")
    assert (promise.note, promise.settled_at) == ("fine", 1_000_000.0)
    with pytest.raises(AlreadySettled) as error:
        await scene.settle("r.0", NO)
    assert (error.value.state, error.value.settled_by) == ("resolved", "user:ana")
    assert error.value.settled_at == 1_000_000.0
    assert await scene.store.get_promise("r.0") == promise
    assert len(await scene.messages()) == 1


@rule
async def test_of_racing_answers_one_wins(scene: Scene) -> None:
    await scene.paused()
    answers = [Settlement(PromiseState.RESOLVED, str(n), by=f"user:{n}") for n in range(50)]
    results = await asyncio.gather(*(scene.settle("r.0", one) for one in answers), return_exceptions=True)
    [(promise, _)] = [result for result in results if isinstance(result, tuple)]
    told = {result.settled_by for result in results if isinstance(result, AlreadySettled)}
    assert len(results) == 50
    assert told == {promise.settled_by}
    assert len(await scene.messages()) == 1


@rule
async def test_a_repeated_request_succeeds_without_effect(scene: Scene) -> None:
    await scene.paused()
    answer = Settlement(PromiseState.RESOLVED, '{"a": 1, "b": 2}', by="user:ana", request_id="q1")
    first, _ = await scene.settle("r.0", answer)
    again, now = await scene.settle("r.0", replace(answer, value='{"b":2,"a":1}'))
    assert (again, now) == (first, False)
    assert len(await scene.messages()) == 1
    for other in (replace(answer, value="1"), replace(answer, state=PromiseState.REJECTED)):
        with pytest.raises(RequestConflict):
            await scene.settle("r.0", other)
    with pytest.raises(AlreadySettled):
        await scene.settle("r.0", replace(answer, request_id="q2"))


@rule
async def test_a_promise_is_found_by_its_kind_only(scene: Scene) -> None:
    await scene.paused()
    for id, kind in (("r.0", PromiseKind.PROMISE), ("unknown", PromiseKind.QUESTION)):
        with pytest.raises(NotFound):
            await scene.store.settle(id, kind, YES)
    with pytest.raises(InvalidValue):
        await scene.settle("r.0", Settlement(PromiseState.PENDING))
    assert (await scene.store.get_promise("r.0")).state is PromiseState.PENDING


@rule
async def test_a_late_answer_never_wins(scene: Scene) -> None:
    run = await scene.run()
    assert await scene.pause(run, opens=[question("r", due_at=1_000_060.0)])
    scene.clock.advance(60)
    with pytest.raises(AlreadySettled) as error:
        await scene.settle("r.0")
    assert error.value.state == "timed_out"
    assert (await scene.store.get_promise("r.0")).state is PromiseState.TIMED_OUT
    assert [message.state for message in await scene.messages()] == ["timed_out"]
    assert await scene.state() is RunState.READY
    await scene.store.due()
    assert len(await scene.messages()) == 1


@rule
async def test_every_run_that_waits_for_a_promise_is_notified(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("go"))
    names = ["a", "b", "c"]
    for name in names:
        run = await scene.run(name)
        assert await scene.pause(run, opens=[promise(name, 3, id="go")])
    await scene.settle("go", kind=PromiseKind.PROMISE)
    for name in names:
        assert await scene.state(name) is RunState.READY
        assert [(message.n, message.name) for message in await scene.messages(name)] == [(3, "go")]


@rule
async def test_two_calls_of_one_run_may_wait_for_one_promise(scene: Scene) -> None:
    run = await scene.run()
    assert await scene.pause(run, opens=[promise("r", 0, id="go"), promise("r", 1, id="go")])
    await scene.settle("go", kind=PromiseKind.PROMISE)
    assert sorted(message.n for message in await scene.messages() if message.n is not None) == [0, 1]


@rule
async def test_opening_a_promise_again_after_a_crash_changes_nothing(scene: Scene) -> None:
    await scene.paused()
    await scene.settle("r.0")
    [claim] = await scene.claim()
    before = await scene.store.get_promise("r.0")
    await scene.append(claim.run, opens=[question("r", data='{"text": "other"}')])
    assert await scene.store.get_promise("r.0") == before
    assert len(await scene.messages()) == 1


@rule
async def test_joining_what_is_settled_counts_as_a_wake(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("go"))
    await scene.settle("go", kind=PromiseKind.PROMISE)
    run = await scene.run()
    assert not await scene.pause(run, entry(0), opens=[promise("r", 0, id="go")])
    [message] = await scene.messages()
    assert (message.n, message.state, message.value) == (0, "resolved", "true")
    await scene.append(run, opens=[promise("r", 0, id="go")])
    assert len(await scene.messages()) == 1, "the same call joins once"


@rule
async def test_joining_another_kind_leaves_a_conflict_for_the_call(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("go", PromiseKind.PROMISE))
    run = await scene.run()
    assert not await scene.pause(run, opens=[question("r", 4, id="go")])
    [message] = await scene.messages()
    assert message.n == 4
    assert message.error is not None
    assert isinstance(decode_error(message.error), IdConflict)


@rule
async def test_a_closed_promise_is_cancelled_and_a_joined_one_left(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("shared"))
    run = await scene.run()
    await scene.append(run, opens=[question("r"), promise("r", 1, id="shared")])
    await scene.append(run, opens=[question("r", 2)])
    await scene.settle("r.2")
    [message] = await scene.messages()
    await scene.append(run, closes=["r.0", "r.2", "shared", "unknown"], taken=[message.id])
    assert (await scene.store.get_promise("r.2")).state is PromiseState.RESOLVED
    assert (await scene.store.get_promise("r.0")).state is PromiseState.CANCELLED
    assert (await scene.store.get_promise("shared")).state is PromiseState.PENDING
    await scene.settle("shared", kind=PromiseKind.PROMISE)
    assert await scene.messages() == []


@rule
async def test_closing_a_promise_tells_those_who_joined_it(scene: Scene) -> None:
    owner = await scene.run("owner")
    await scene.append(owner, opens=[promise("owner")])
    run = await scene.run()
    assert await scene.pause(run, opens=[promise("r", 0, id="owner.0")])
    await scene.append(owner, closes=["owner.0"])
    assert [message.state for message in await scene.messages()] == ["cancelled"]


# Ends, parents and children


@rule
async def test_the_end_of_a_run_notifies_its_parent_at_once(scene: Scene) -> None:
    parent = await scene.run("parent")
    child = NewRun("child", WORKFLOW, GROUP, "{}", "parent", 3)
    assert await scene.pause(parent, entry(0), starts=[child])
    [claim] = await scene.claim()
    await scene.complete(claim.run, SUCCESS, entries=[entry(0, EntryKind.SUCCEEDED)])
    ended = await scene.store.get_run("child")
    assert (ended.state, ended.result, ended.ended_at) == (RunState.SUCCEEDED, "1", 1_000_000.0)
    assert (ended.worker_id, ended.lease_until) == (None, None)
    assert await scene.state("parent") is RunState.READY
    [message] = await scene.messages("parent")
    assert (message.kind, message.n, message.name) == (MessageKind.SETTLED, 3, "child")
    assert (message.state, message.value, message.error) == ("succeeded", "1", None)


@rule
async def test_a_failure_is_delivered_with_its_error(scene: Scene) -> None:
    parent = await scene.run("parent")
    assert await scene.pause(parent, starts=[NewRun("child", WORKFLOW, GROUP, "{}", "parent", 0)])
    [claim] = await scene.claim()
    await scene.complete(claim.run, FAILURE)
    [message] = await scene.messages("parent")
    assert (message.state, message.value, message.error) == ("failed", None, FAILURE.error)


@rule
async def test_a_run_that_is_joined_tells_all_who_wait(scene: Scene) -> None:
    await scene.start("shared", arguments="{}", workflow="shared")
    join = NewRun("shared", "shared", GROUP, "{}")
    for name in ("a", "b"):
        run = await scene.run(name)
        assert await scene.pause(run, starts=[replace(join, parent_id=name, parent_n=2)])
    [claim] = await scene.claim(workflows=["shared"])
    await scene.complete(claim.run)
    for name in ("a", "b"):
        assert [(message.n, message.name) for message in await scene.messages(name)] == [(2, "shared")]
    await scene.claim()
    late = await scene.run("late")
    assert not await scene.pause(late, starts=[replace(join, parent_id="late", parent_n=0)])
    assert [message.value for message in await scene.messages("late")] == ["1"]


@rule
async def test_a_child_started_again_after_a_crash_is_the_same_child(scene: Scene) -> None:
    parent = await scene.run("parent")
    child = NewRun("child", "other", GROUP, "{}", "parent", 0)
    await scene.append(parent, starts=[child])
    await scene.append(parent, starts=[child])
    [claim] = await scene.claim(workflows=["other"])
    await scene.complete(claim.run)
    assert len(await scene.messages("parent")) == 1


@rule
async def test_a_child_id_of_something_else_leaves_a_conflict_for_the_call(scene: Scene) -> None:
    await scene.start("taken", workflow="other")
    run = await scene.run()
    child = NewRun("taken", WORKFLOW, GROUP, "{}", "r", 5)
    assert not await scene.pause(run, starts=[child])
    await scene.append(run, starts=[child])
    [message] = await scene.messages()
    assert (message.n, message.name, message.state) == (5, "taken", "failed")
    assert message.error is not None
    assert isinstance(decode_error(message.error), IdConflict)


@rule
async def test_a_detached_run_notifies_no_parent(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, starts=[NewRun("free", "other", GROUP, "{}")])
    [claim] = await scene.claim(workflows=["other"])
    await scene.complete(claim.run)
    assert await scene.messages() == []


@rule
async def test_the_end_of_a_run_cancels_its_open_promises_but_not_its_children(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, opens=[question("r"), promise("r", 1)])
    await scene.append(run, starts=[NewRun("child", "other", GROUP, "{}", "r", 2)])
    waiter = await scene.run("waiter")
    assert await scene.pause(waiter, opens=[promise("waiter", 0, id="r.1")])
    await scene.settle("r.0")
    await scene.complete(run)
    states = [(await scene.store.get_promise(id)).state for id in ("r.0", "r.1")]
    assert states == [PromiseState.RESOLVED, PromiseState.CANCELLED]
    assert await scene.state("child") is RunState.READY
    assert [message.state for message in await scene.messages("waiter")] == ["cancelled"]
    assert await scene.messages() == []
    with pytest.raises(AlreadySettled):
        await scene.settle("r.1", kind=PromiseKind.PROMISE)


@rule
async def test_an_ended_run_gets_no_messages(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("go"))
    run = await scene.run()
    child = NewRun("child", "other", GROUP, "{}", "r", 1)
    await scene.append(run, opens=[promise("r", id="go")], starts=[child])
    await scene.complete(run)
    ended = await scene.store.get_run("r")
    await scene.settle("go", kind=PromiseKind.PROMISE)
    [claim] = await scene.claim(workflows=["other"])
    await scene.complete(claim.run)
    assert await scene.messages() == []
    assert await scene.store.get_run("r") == ended


@rule
async def test_a_retryable_failure_keeps_everything_and_notifies_no_waiter(scene: Scene) -> None:
    parent = await scene.run("parent")
    assert await scene.pause(parent, starts=[NewRun("r", WORKFLOW, GROUP, "{}", "parent", 0)])
    [claim] = await scene.claim()
    await scene.append(claim.run, entry(0), opens=[question("r")])
    await scene.store.signal("r", "go", "1")
    await scene.complete(claim.run, KEPT_FAILURE)
    failed = await scene.store.get_run("r")
    assert (failed.state, failed.retryable, failed.error) == (RunState.FAILED, True, FAILURE.error)
    assert failed.ended_at is not None
    assert (await scene.store.get_promise("r.0")).state is PromiseState.PENDING
    assert await scene.messages("parent") == []

    await scene.settle("r.0")  # meanwhile
    assert await scene.state() is RunState.FAILED
    retried = await scene.store.retry("r")
    assert (retried.state, retried.retryable) == (RunState.READY, False)
    assert (retried.error, retried.ended_at) == (None, None)
    assert await scene.journal() == [EntryKind.COMPLETED, EntryKind.RETRIED]
    [claim] = await scene.claim()
    assert [message.kind for message in claim.messages] == [MessageKind.SIGNAL, MessageKind.SETTLED]
    await scene.complete(claim.run)
    assert len(await scene.messages("parent")) == 1


@rule
async def test_a_run_that_failed_retryably_can_be_given_up(scene: Scene) -> None:
    parent = await scene.run("parent")
    assert await scene.pause(parent, starts=[NewRun("r", WORKFLOW, GROUP, "{}", "parent", 0)])
    [claim] = await scene.claim()
    await scene.append(claim.run, entry(0), opens=[question("r")])
    await scene.complete(claim.run, KEPT_FAILURE)
    cancelled = await scene.store.cancel("r", reason="never mind")
    assert (cancelled.state, cancelled.retryable) == (RunState.CANCELLED, False)
    assert (await scene.store.get_promise("r.0")).state is PromiseState.CANCELLED
    assert [message.state for message in await scene.messages("parent")] == ["cancelled"]
    assert await scene.journal() == [EntryKind.COMPLETED, EntryKind.CANCELLED]
    with pytest.raises(InvalidState):
        await scene.store.retry("r")


@rule
@pytest.mark.parametrize(
    "sizes", [[10] * 200, [40_000] * 10, [900_000] * 3 + [10] * 70, [10] * 64, [10] * 65]
)
async def test_a_journal_is_read_whole_or_in_parts_whatever_its_size(scene: Scene, sizes: list[int]) -> None:
    run = await scene.run()
    entries = [replace(entry(seq), value=json.dumps("x" * size)) for seq, size in enumerate(sizes)]
    await scene.append(run, *entries)
    for after in (-1, 0, 63, len(sizes) - 2, len(sizes)):
        rest = entries[after + 1 :]
        assert list(await scene.store.read_journal("r", after=after)) == rest
        for limit in (0, 1, 3, 63, 64, 65, 1000):
            assert list(await scene.store.read_journal("r", after=after, limit=limit)) == rest[:limit]


@rule
async def test_a_run_that_continues_as_new_notes_where_its_journal_begins(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, entry(0))
    await scene.append(run, entry(1, EntryKind.CONTINUED), first_seq=1)
    assert (await scene.store.get_run("r")).first_seq == 1
    await scene.append(run, entry(2))
    assert len(await scene.journal()) == 3


# Cancelling


@rule
async def test_a_run_that_never_started_is_cancelled_at_once(scene: Scene) -> None:
    parent = await scene.run("parent")
    assert await scene.pause(parent, starts=[NewRun("r", "other", GROUP, "{}", "parent", 1)])
    await scene.store.signal("r", "go", "1")
    run = await scene.store.cancel("r", reason="too late", by="user:ana")
    assert (run.state, run.ended_at) == (RunState.CANCELLED, 1_000_000.0)
    assert run.error is not None
    error = decode_error(run.error)
    assert isinstance(error, RunCancelled)
    assert (error.run_id, error.reason) == ("r", "too late")
    [journaled] = await scene.store.read_journal("r")
    assert (journaled.seq, journaled.kind) == (0, EntryKind.CANCELLED)
    assert await scene.messages() == []
    [message] = await scene.messages("parent")
    assert (message.n, message.state, message.error) == (1, "cancelled", run.error)


@rule
async def test_a_run_that_was_started_is_asked_once(scene: Scene) -> None:
    await scene.paused()
    run = await scene.store.cancel("r", reason="too late", by="user:ana")
    assert run.state is RunState.READY
    await scene.store.cancel("r", reason="again")
    [message] = await scene.messages()
    assert (message.kind, message.by, message.note) == (MessageKind.CANCEL, "user:ana", "too late")
    [claim] = await scene.claim()
    await scene.append(claim.run, entry(0), taken=[message.id])
    await scene.store.cancel("r")
    assert await scene.messages() == []


@rule
async def test_a_run_released_after_its_first_claim_is_asked_and_not_cut_off(scene: Scene) -> None:
    await scene.run()
    await scene.store.release("w")
    assert (await scene.store.cancel("r")).state is RunState.READY
    assert len(await scene.messages()) == 1


@rule
async def test_a_parent_cancels_its_children_and_leaves_those_it_joined(scene: Scene) -> None:
    await scene.start("joined", workflow="other", arguments="{}")
    run = await scene.run()
    children = [NewRun(id, "other", GROUP, "{}", "r", n) for n, id in enumerate(["own", "joined"])]
    await scene.append(run, starts=children)
    await scene.append(run, cancels=["own", "joined", "unknown"])
    assert await scene.state("own") is RunState.CANCELLED
    assert await scene.state("joined") is RunState.READY
    [claim] = await scene.claim(workflows=["other"])
    await scene.complete(claim.run)
    assert [message.name for message in await scene.messages()] == ["own"]


# Signals


@rule
async def test_a_signal_is_kept_until_it_is_taken(scene: Scene) -> None:
    await scene.start()
    assert await scene.store.signal("r", "go", '{"a": 1}', by="user:ana")
    [claim] = await scene.claim()
    [message] = claim.messages
    assert (message.kind, message.name, message.value) == (MessageKind.SIGNAL, "go", '{"a": 1}')
    assert (message.by, message.n) == ("user:ana", None)


@rule
async def test_a_repeated_signal_is_left_once(scene: Scene) -> None:
    run = await scene.run()
    assert await scene.store.signal("r", "go", '{"a": 1, "b": 2}', request_id="q")
    assert not await scene.store.signal("r", "go", '{"b": 2, "a": 1}', request_id="q")
    [message] = await scene.messages()
    await scene.append(run, entry(0), taken=[message.id])
    assert not await scene.store.signal("r", "go", '{"b": 2, "a": 1}', request_id="q")
    for name, value in (("go", "2"), ("stop", '{"a": 1, "b": 2}')):
        with pytest.raises(RequestConflict):
            await scene.store.signal("r", name, value, request_id="q")
    assert await scene.messages() == []
    await scene.complete(run)
    assert not await scene.store.signal("r", "go", '{"a": 1, "b": 2}', request_id="q")


# Time


@rule
async def test_a_deadline_fires_at_its_time(scene: Scene) -> None:
    run = await scene.run()
    await scene.store.create_promise(NewPromise("free", due_at=1_000_090.0))
    assert await scene.pause(run, opens=[question("r", due_at=1_000_060.0)])
    assert await scene.store.due() == 1_000_060.0
    scene.clock.advance(59.5)
    assert await scene.store.due() == 1_000_060.0
    assert await scene.state() is RunState.PAUSED
    scene.clock.advance(0.5)
    assert await scene.store.due() == 1_000_090.0
    timed_out = await scene.store.get_promise("r.0")
    assert (timed_out.state, timed_out.settled_at) == (PromiseState.TIMED_OUT, 1_000_060.0)
    assert [(message.n, message.state) for message in await scene.messages()] == [(0, "timed_out")]
    assert await scene.state() is RunState.READY
    scene.clock.advance(3600)
    assert await scene.store.due() is None
    assert (await scene.store.get_promise("free")).state is PromiseState.TIMED_OUT


@rule
async def test_a_timer_wakes_its_run_without_a_message(scene: Scene) -> None:
    await scene.paused(wake_at=1_000_030.0)
    assert await scene.store.due() == 1_000_030.0
    scene.clock.advance(31)
    assert await scene.store.due() is None
    run = await scene.store.get_run("r")
    assert (run.state, run.wake_at) == (RunState.READY, None)
    assert await scene.messages() == []


@rule
async def test_the_deadline_of_a_run_is_delivered_once(scene: Scene) -> None:
    await scene.paused("paused", deadline_at=1_000_010.0)
    await scene.run("running", deadline_at=1_000_010.0)
    ended = await scene.run("ended", deadline_at=1_000_010.0)
    await scene.complete(ended)
    await scene.store.enlist(WorkerInfo("w", "host", 10, 1.5, GROUP))
    scene.clock.advance(10)
    for _ in range(2):
        await scene.store.due()
    for name in ("paused", "running"):
        assert [message.kind for message in await scene.messages(name)] == [MessageKind.DEADLINE]
    assert await scene.state("paused") is RunState.READY
    assert await scene.messages("ended") == []


@rule
async def test_due_does_no_more_than_its_limit_and_says_so(scene: Scene) -> None:
    for number in range(5):
        await scene.store.create_promise(NewPromise(f"p{number}", due_at=1_000_001.0 + number))
    scene.clock.advance(60)
    waits = [await scene.store.due(limit=2) for _ in range(3)]
    assert waits[0] is not None
    assert waits[0] <= scene.clock.now()
    assert waits[2] is None
    states = [item.state for item in (await scene.store.list_promises(PromiseFilter())).items]
    assert states == [PromiseState.TIMED_OUT] * 5


@rule
async def test_due_serves_every_namespace(scene: Scene) -> None:
    elsewhere = scene.within("acme")
    await elsewhere.paused(wake_at=1_000_001.0)
    scene.clock.advance(2)
    await scene.store.due()
    assert await elsewhere.state() is RunState.READY


# Namespaces


@rule
async def test_nothing_crosses_a_namespace(scene: Scene) -> None:
    other = scene.within("acme")
    await scene.paused()
    await scene.store.signal("r", "go", "1")
    for attempt in (
        other.store.get_run("r"),
        other.store.get_promise("r.0"),
        other.settle("r.0"),
        other.store.signal("r", "go", "1"),
        other.store.cancel("r"),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert await other.claim() == []
    assert await other.messages() == []
    assert await other.listed() == []
    assert (await other.store.list_promises(PromiseFilter())).items == ()
    await other.paused()
    await other.settle("r.0")
    assert (await other.store.get_run("r")).namespace == "acme"
    assert (await scene.store.get_promise("r.0")).state is PromiseState.PENDING
    [claim] = await other.claim()
    assert claim.run.namespace == "acme"
    with pytest.raises(LeaseLost):
        await scene.append(claim.run, entry(0))
    assert await other.store.heartbeat("w", {"r": 2}) == set()
    assert await scene.store.heartbeat("w", {"r": 2}) == {"r"}


# Lists


@rule
async def test_runs_are_listed_newest_first_page_by_page(scene: Scene) -> None:
    for number in range(25):
        await scene.start(f"r{number:02}", workflow=f"w{number % 2}", group=f"g{number % 3}")
    for claim in await scene.claim(workflows=["w0"], group="g0"):
        await scene.complete(claim.run)
    runs = {run.id: run for run in (await scene.store.list_runs(RunFilter(), limit=1000)).items}
    assert list(runs) == [f"r{number:02}" for number in reversed(range(25))]
    for which in (
        RunFilter(),
        RunFilter(states=frozenset({RunState.READY})),
        RunFilter(states=frozenset({RunState.READY, RunState.SUCCEEDED, RunState.PAUSED})),
        RunFilter(workflow="w1"),
        RunFilter(group="g0"),
        RunFilter(workflow="w0", group="g0", states=frozenset({RunState.SUCCEEDED})),
        RunFilter(states=frozenset()),
        RunFilter(workflow="unknown"),
    ):
        expected = [
            id
            for id, run in runs.items()
            if (which.states is None or run.state in which.states)
            and which.workflow in (None, run.workflow)
            and which.group in (None, run.group)
        ]
        for limit in (1, 4, 5, 100):
            found: list[str] = []
            after: str | None = None
            while True:
                page = await scene.store.list_runs(which, after=after, limit=limit)
                assert len(page.items) <= limit
                found += [run.id for run in page.items]
                after = page.next
                if after is None:
                    break
            assert found == expected


@rule
async def test_of_many_runs_the_ended_ones_are_returned(scene: Scene) -> None:
    for id in ("paused", "running", "done", "broken", "cancelled", "not asked for"):
        await scene.start(id)
    await scene.store.cancel("cancelled")
    held = {claim.run.id: claim.run for claim in await scene.claim()}
    await scene.start("ready")
    await scene.pause(held["paused"])
    await scene.complete(held["done"])
    await scene.complete(held["not asked for"])
    await scene.complete(held["broken"], Outcome(RunState.FAILED, error="{}", retryable=True))
    asked = ["ready", "paused", "running", "done", "broken", "cancelled", "unknown", "done"]
    assert await scene.store.ended(asked) == {"done", "broken", "cancelled"}
    assert await scene.store.ended([]) == set()
    assert await scene.within("acme").store.ended(asked) == set()


@rule
async def test_the_children_of_a_run_are_listed(scene: Scene) -> None:
    run = await scene.run()
    children = [NewRun(f"c{n}", "other", GROUP, "{}", "r", n) for n in range(3)]
    await scene.append(run, starts=children)
    assert await scene.listed(parent_id="r") == ["c2", "c1", "c0"]
    assert await scene.listed(parent_id="r", states=frozenset({RunState.PAUSED})) == []


@rule
async def test_promises_are_listed_oldest_first_page_by_page(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, opens=[question("r", n) for n in range(4)])
    for number in range(12):
        await scene.store.create_promise(NewPromise(f"p{number}", list(PromiseKind)[number % 2]))
    await scene.settle("r.1")
    await scene.settle("p3", NO)
    promises = (await scene.store.list_promises(PromiseFilter(), limit=1000)).items
    assert [promise.id for promise in promises] == [f"r.{n}" for n in range(4)] + [f"p{n}" for n in range(12)]
    for which in (
        PromiseFilter(),
        PromiseFilter(kind=PromiseKind.QUESTION),
        PromiseFilter(state=PromiseState.PENDING),
        PromiseFilter(kind=PromiseKind.QUESTION, state=PromiseState.PENDING),
        PromiseFilter(run_id="r"),
        PromiseFilter(run_id="r", state=PromiseState.RESOLVED),
    ):
        expected = [
            promise.id
            for promise in promises
            if which.kind in (None, promise.kind)
            and which.state in (None, promise.state)
            and which.run_id in (None, promise.run_id)
        ]
        for limit in (1, 3, 100):
            found: list[str] = []
            after: str | None = None
            while True:
                page = await scene.store.list_promises(which, after=after, limit=limit)
                found += [promise.id for promise in page.items]
                after = page.next
                if after is None:
                    break
            assert found == expected


@rule
async def test_a_list_ends_with_its_last_page_even_if_that_is_full(scene: Scene) -> None:
    for number in range(4):
        await scene.start(f"r{number}")
        await scene.store.create_promise(NewPromise(f"p{number}"))
    for read in (
        partial(scene.store.list_runs, RunFilter()),
        partial(scene.store.list_promises, PromiseFilter()),
    ):
        first = await read(limit=2)
        assert first.next is not None
        last = await read(after=first.next, limit=2)
        assert (len(last.items), last.next) == (2, None)


@rule
async def test_a_page_that_is_none_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidValue):
        await scene.store.list_runs(RunFilter(), after="yesterday")


# Listeners


@rule
async def test_listeners_are_notified_of_commits_and_clock_jumps(scene: Scene) -> None:
    heard: list[Change] = []
    elsewhere: list[Change] = []
    stop = await scene.listen(heard)
    await scene.within("acme").listen(elsewhere)
    run = await scene.run()
    await scene.pause(run, opens=[question("r", due_at=1_000_060.0)])
    await until(lambda: len(heard) == 3)
    heard.clear()
    await scene.settle("r.0")
    await until(lambda: len(heard) == 1)
    one = frozenset({"r"})
    assert heard.pop() == Change(runs=one, woken=one, ended=frozenset(), ready=True, due=False)
    [claim] = await scene.claim()
    await scene.complete(claim.run)
    await until(lambda: len(heard) == 2)
    assert heard.pop() == Change(runs=one, woken=frozenset(), ended=one, ready=False, due=False)
    heard.clear()
    scene.clock.advance(1)
    await until(lambda: heard == [Change(frozenset(), ready=False, due=True)])
    stop()
    await scene.start("s")
    await asyncio.sleep(0.01)
    assert len(heard) == 1
    assert elsewhere[0] == Change(frozenset(), ready=False, due=True), "its timers may be served from there"
    assert not any(change.runs for change in elsewhere)


@rule
async def test_a_failing_listener_harms_no_other(scene: Scene) -> None:
    def fail(_: Change) -> None:
        raise RuntimeError("no")

    scene.store.listen(fail)
    await scene.paused()
    assert await scene.state() is RunState.PAUSED


# The state machine: every state with every operation


async def _ready(scene: Scene) -> Run:
    return await scene.start()


async def _freed(scene: Scene) -> Run:
    await scene.run()
    await scene.store.release("w")
    return await scene.store.get_run("r")


async def _running(scene: Scene) -> Run:
    return await scene.run(deadline_at=None)


async def _paused(scene: Scene) -> Run:
    return await scene.paused(wake_at=1_000_005.0)


async def _succeeded(scene: Scene) -> Run:
    await scene.complete(await scene.run(), SUCCESS)
    return await scene.store.get_run("r")


async def _failed(scene: Scene) -> Run:
    await scene.complete(await scene.run(), FAILURE)
    return await scene.store.get_run("r")


async def _kept(scene: Scene) -> Run:
    await scene.complete(await scene.run(), KEPT_FAILURE)
    return await scene.store.get_run("r")


async def _cancelled(scene: Scene) -> Run:
    await scene.start()
    return await scene.store.cancel("r")


async def _due(scene: Scene) -> None:
    scene.clock.advance(60)
    scene.lease_clock.advance(60)
    await scene.store.due()


STATES: dict[str, Callable[[Scene], Awaitable[Run]]] = {
    "ready": _ready,
    "freed": _freed,
    "running": _running,
    "paused": _paused,
    "succeeded": _succeeded,
    "failed": _failed,
    "kept": _kept,
    "cancelled": _cancelled,
}

EVENT = NewAuditEvent("e", AuditKind.SUSPENDED, "", "r")

OPERATIONS: dict[str, Callable[[Scene, Run], Awaitable[object]]] = {
    "claim": lambda scene, _: scene.claim(worker="other"),
    "append": lambda scene, run: scene.append(run, entry(0)),
    "pause": lambda scene, run: scene.pause(run),
    "succeed": lambda scene, run: scene.complete(run, SUCCESS),
    "fail": lambda scene, run: scene.complete(run, FAILURE),
    "signal": lambda scene, _: scene.store.signal("r", "go", "1"),
    "cancel": lambda scene, _: scene.store.cancel("r"),
    "retry": lambda scene, _: scene.store.retry("r"),
    "retry, as planned": lambda scene, run: scene.store.retry("r", how=Retry(run.epoch, 0)),
    "suspend": lambda scene, _: scene.store.suspend("r", EVENT),
    "resume": lambda scene, _: scene.store.resume("r", EVENT),
    "terminate": lambda scene, _: scene.store.terminate("r", EVENT),
    "release": lambda scene, _: scene.store.release("w"),
    "due": lambda scene, _: _due(scene),
}

ENDED = ("succeeded", "failed", "kept", "cancelled")

# What each operation makes of each state: the new state, or the error and no change.
TABLE: dict[str, dict[str, RunState | type[SignoffError]]] = {
    "claim": {"ready": RunState.RUNNING, "freed": RunState.RUNNING},
    "append": {"running": RunState.RUNNING} | dict.fromkeys(STATES.keys() - {"running"}, LeaseLost),
    "pause": {"running": RunState.PAUSED} | dict.fromkeys(STATES.keys() - {"running"}, LeaseLost),
    "succeed": {"running": RunState.SUCCEEDED} | dict.fromkeys(STATES.keys() - {"running"}, LeaseLost),
    "fail": {"running": RunState.FAILED} | dict.fromkeys(STATES.keys() - {"running"}, LeaseLost),
    "signal": {"paused": RunState.READY} | dict.fromkeys(["succeeded", "failed", "cancelled"], InvalidState),
    "cancel": {"ready": RunState.CANCELLED, "kept": RunState.CANCELLED, "paused": RunState.READY},
    "retry": {"kept": RunState.READY} | dict.fromkeys(STATES.keys() - {"kept"}, InvalidState),
    "retry, as planned": dict.fromkeys(STATES, InvalidState)
    | dict.fromkeys(["kept", "failed"], RunState.READY),
    "suspend": {"ready": RunState.PAUSED, "freed": RunState.PAUSED} | dict.fromkeys(ENDED, InvalidState),
    "resume": dict.fromkeys(ENDED, InvalidState),
    "terminate": dict.fromkeys(STATES, RunState.CANCELLED)
    | dict.fromkeys(["succeeded", "failed", "cancelled"], InvalidState),
    "release": {"running": RunState.READY},
    "due": {"running": RunState.READY, "paused": RunState.READY},
}


@rule
@pytest.mark.parametrize("operation", TABLE)
@pytest.mark.parametrize("state", STATES)
async def test_no_transition_exists_but_those_of_the_table(scene: Scene, state: str, operation: str) -> None:
    run = await STATES[state](scene)
    if operation in ("append", "pause", "succeed", "fail") and run.epoch == 0:
        run = replace(run, epoch=1)
    before = await scene.state()
    expected = TABLE[operation].get(state, before)
    if isinstance(expected, RunState):
        await OPERATIONS[operation](scene, run)
        assert await scene.state() is expected
    else:
        with pytest.raises(expected):
            await OPERATIONS[operation](scene, run)
        assert await scene.state() is before
