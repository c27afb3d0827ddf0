"""Operators' actions on runs (suspend, resume, terminate, retry), takeovers, and deadlines of runs never begun."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from signoff import codec
from signoff.errors import InvalidState, LeaseLost, NotFound, RunTerminated, RunTimeout
from signoff.records import (
    AuditKind,
    CallKind,
    Entry,
    EntryKind,
    MessageKind,
    NewAuditEvent,
    NewRun,
    PromiseState,
    Run,
    RunState,
    WorkerInfo,
)
from signoff.records.paging import AuditFilter
from signoff.service.retry_plans import Outline
from signoff.stores.contract.leases import Write
from signoff.stores.contract.retries import Retry, without_dropped
from signoff.stores.contract.timers import GRACE_SECONDS
from tests.stores.scene import FAILURE, KEPT_FAILURE, Scene, entry, promise, question, rule


def event(id: str = "e", kind: AuditKind = AuditKind.SUSPENDED, run_id: str = "r") -> NewAuditEvent:
    return NewAuditEvent(id, kind, "", run_id, "user:ana", '{"why": "because"}')


async def trail(scene: Scene) -> list[tuple[AuditKind, str | None]]:
    page = await scene.store.list_audit(AuditFilter(run_id="r"))
    return [(each.kind, each.by) for each in page.items if each.kind is not AuditKind.ASKED]


async def suspended(scene: Scene, how: str) -> None:
    """Have run ``r`` suspended that is ready, paused, delayed, behind another or has been running."""
    if how == "behind":
        await scene.start("a", session_id="s")
        await scene.start("r", session_id="s")
    elif how == "delayed":
        await scene.start(start_at=scene.clock.now() + 60)
    elif how == "paused":
        await scene.paused(wake_at=scene.clock.now() + 60)
    elif how == "keyed":
        await scene.start(concurrency_key="k", concurrency_limit=1)
    elif how == "running":
        run = await scene.run()
    else:
        await scene.start()
    await scene.store.suspend("r", event(), reason="it pays twice")
    if how == "running":
        assert [message.kind for message in await scene.messages()] == [MessageKind.SUSPEND]
        message_ids = [message.id for message in await scene.messages()]
        assert await scene.store.pause(Write("r", run.epoch, taken=message_ids), wakes=-1, wake_at=None)


@rule
@pytest.mark.parametrize("how", ["ready", "paused", "delayed", "behind", "running", "keyed"])
async def test_nothing_wakes_a_suspended_run_until_it_is_resumed(scene: Scene, how: str) -> None:
    await suspended(scene, how)
    run = await scene.store.get_run("r")
    assert (run.state, run.suspended_by, run.suspended_reason) == (
        RunState.PAUSED,
        "user:ana",
        "it pays twice",
    )
    assert run.suspended_at == scene.clock.now()
    assert await scene.listed(suspended=True) == ["r"]
    await scene.store.signal("r", "go", "1")
    scene.clock.advance(90)
    await scene.store.due()
    claimed = [claim.run.id for claim in await scene.claim()]
    assert "r" not in claimed
    for id in claimed:
        await scene.complete(await scene.store.get_run(id))
    assert await scene.claim() == []
    assert await scene.store.suspend("r", event("again"), reason="other") == await scene.store.get_run("r")
    await scene.store.resume("r", event("on", AuditKind.RESUMED))
    [claim] = await scene.claim()
    assert (claim.run.id, claim.run.suspended_at, claim.run.suspended_reason) == ("r", None, None)
    assert [message.kind for message in claim.messages] == [MessageKind.SIGNAL]
    assert await scene.listed(suspended=True) == []
    assert await trail(scene) == [(AuditKind.SUSPENDED, "user:ana"), (AuditKind.RESUMED, "user:ana")]


@rule
@pytest.mark.parametrize("how", ["delayed", "behind"])
async def test_a_resumed_run_waits_for_its_start_and_its_turn_again(scene: Scene, how: str) -> None:
    await suspended(scene, how)
    await scene.store.resume("r", event("on", AuditKind.RESUMED))
    run = await scene.store.get_run("r")
    assert run.is_delayed
    assert run.awaits_turn == (how == "behind")
    scene.clock.advance(60)
    await scene.store.due()
    assert [claim.run.id for claim in await scene.claim()] == (["a"] if how == "behind" else ["r"])


@rule
async def test_a_run_that_is_resumed_before_its_worker_let_go_runs_on(scene: Scene) -> None:
    run = await scene.run()
    await scene.store.suspend("r", event())
    await scene.append(run, entry(0))
    assert (await scene.store.resume("r", event("on"))).state is RunState.RUNNING
    assert await scene.messages() == []
    assert not await scene.store.pause(Write("r", run.epoch), wakes=-1, wake_at=None)
    await scene.append(run, entry(1))


@rule
@pytest.mark.parametrize("ends", ["lease", "release"])
async def test_a_suspended_run_whose_worker_is_lost_is_not_ready(scene: Scene, ends: str) -> None:
    await scene.run()
    await scene.store.suspend("r", event())
    if ends == "lease":
        scene.lease_clock.advance(60)
        await scene.store.due()
    else:
        await scene.store.release("w")
    assert await scene.state() is RunState.PAUSED
    assert await scene.claim() == []


@rule
async def test_the_holder_of_a_lease_suspends_its_run_at_once(scene: Scene) -> None:
    run = await scene.run()
    with pytest.raises(LeaseLost):
        await scene.store.suspend("r", event(), epoch=run.epoch + 1)
    for _ in range(2):
        found = await scene.store.suspend("r", event(), reason="no progress", epoch=run.epoch)
        assert (found.state, found.suspended_reason) == (RunState.PAUSED, "no progress")
    with pytest.raises(LeaseLost):
        await scene.append(run, entry(0))
    await scene.store.retry("r")
    [claim] = await scene.claim()
    with pytest.raises(LeaseLost):
        await scene.store.suspend("r", event("later"), epoch=run.epoch)
    assert claim.run.takeovers == 0


@rule
async def test_a_run_that_ends_as_it_is_suspended_waits_for_no_operator(scene: Scene) -> None:
    run = await scene.run()
    await scene.store.suspend("r", event(), reason="it pays twice")
    await scene.complete(run, KEPT_FAILURE)
    ended = await scene.store.get_run("r")
    assert (ended.state, ended.is_suspended, ended.suspended_reason) == (RunState.FAILED, False, None)
    assert await scene.listed(suspended=True) == []
    assert (await scene.store.retry("r", event=event("again"))).state is RunState.READY
    [claim] = await scene.claim()
    await scene.store.suspend("r", event("more"))
    await scene.complete(claim.run)
    with pytest.raises(InvalidState, match="succeeded"):
        await scene.store.retry("r")


@rule
async def test_the_next_run_of_a_key_takes_the_place_of_a_suspended_one(scene: Scene) -> None:
    await scene.start("r", concurrency_key="k", concurrency_limit=1)
    await scene.start("b", concurrency_key="k", concurrency_limit=1)
    await scene.store.suspend("r", event())
    assert [claim.run.id for claim in await scene.claim()] == ["b"]


@rule
async def test_lost_leases_are_counted_until_the_journal_grows(scene: Scene) -> None:
    await scene.start()
    counts: list[int] = []
    seq = 0
    for grows in (True, False, False, True, False):
        [claim] = await scene.claim()
        counts.append(claim.run.takeovers)
        if grows:
            await scene.append(claim.run, entry(seq))
            seq += 1
        if len(counts) % 2:
            scene.lease_clock.advance(60)
            await scene.store.due()
        else:
            await scene.store.release("w", dead=True)
    [claim] = await scene.claim()
    assert [*counts, claim.run.takeovers] == [0, 1, 2, 3, 1, 2]
    await scene.store.release("w")  # in order
    [claim] = await scene.claim()
    assert claim.run.takeovers == 2


@rule
@pytest.mark.parametrize("state", ["ready", "delayed", "running", "paused", "kept", "suspended"])
async def test_a_run_is_terminated_whatever_it_does(scene: Scene, state: str) -> None:
    parent = await scene.run("parent")
    child = NewRun("r", "refund", "default", "{}", parent_id="parent", parent_n=3)
    if state == "delayed":
        child = replace(child, start_at=scene.clock.now() + 60)
    await scene.store.append(Write("parent", parent.epoch, starts=[child]))
    run = None
    if state not in ("ready", "delayed"):
        [claim] = await scene.claim(worker="x")
        run = claim.run
        starts = [
            NewRun(id, "refund", "gpu", "{}", parent_id="r", parent_n=n) for id, n in (("c", 5), ("d", None))
        ]
        await scene.append(run, opens=[question("r", 1), promise("r", 2)], starts=starts)
    if state in ("paused", "suspended") and run is not None:
        assert await scene.pause(run)
    if state == "kept" and run is not None:
        await scene.complete(run, KEPT_FAILURE)
    if state == "suspended":
        await scene.store.suspend("r", event())
    told = event("t", AuditKind.TERMINATED)
    ended = await scene.store.terminate("r", told, reason="its code is gone")
    assert (ended.state, ended.retryable, ended.suspended_at) == (RunState.CANCELLED, False, None)
    error = codec.decode_error(ended.error or "")
    assert isinstance(error, RunTerminated)
    assert str(error) == "run 'r' was terminated: its code is gone"
    [message] = await scene.messages("parent")
    assert (message.n, message.state, message.error) == (3, "cancelled", ended.error)
    if run is not None:
        assert await scene.store.heartbeat("x", {"r": run.epoch}) == {"r"}
        with pytest.raises(LeaseLost):
            await scene.append(run, entry(0))
        assert (await scene.store.get_promise("r.1")).state is PromiseState.CANCELLED
        assert (await scene.store.get_promise("r.2")).state is PromiseState.CANCELLED
        assert await scene.state("c") is RunState.CANCELLED
        assert await scene.state("d") is RunState.READY
    [*_, last] = await scene.store.read_journal("r")
    assert (last.kind, last.fact("by"), last.fact("reason")) == (
        EntryKind.CANCELLED,
        "user:ana",
        "its code is gone",
    )
    assert await scene.store.terminate("r", told, reason="its code is gone") == ended
    with pytest.raises(InvalidState):
        await scene.store.terminate("r", event("other"))
    assert (await trail(scene))[-1] == (AuditKind.TERMINATED, "user:ana")
    assert (await trail(scene)).count((AuditKind.TERMINATED, "user:ana")) == 1


@rule
async def test_the_next_runs_of_session_and_group_replace_a_terminated_run(scene: Scene) -> None:
    await scene.store.limit_group("default", max_running=1)
    await scene.run("r", session_id="s")
    await scene.start("next", session_id="s")
    await scene.store.terminate("r", event())
    assert [claim.run.id for claim in await scene.claim()] == ["next"]


@rule
async def test_operators_learn_what_they_cannot_do(scene: Scene) -> None:
    for attempt in (scene.store.suspend, scene.store.resume, scene.store.terminate):
        with pytest.raises(NotFound):
            await attempt("r", event())
    await scene.complete(await scene.run())
    for attempt in (scene.store.suspend, scene.store.resume, scene.store.terminate):
        with pytest.raises(InvalidState):
            await attempt("r", event())
    assert await trail(scene) == []


# Deadlines


@rule
@pytest.mark.parametrize("waits", ["group", "start", "key", "limit", "freed", "suspended"])
async def test_the_deadline_of_a_run_that_was_never_begun_ends_it(scene: Scene, waits: str) -> None:
    """There may never be a worker for it: its parent would wait permanently."""
    parent = await scene.run("parent")
    await scene.store.limit_group("default", max_running=2 if waits == "freed" else 1)
    child = NewRun(
        "r",
        "refund",
        "gpu" if waits == "group" else "default",
        "{}",
        parent_id="parent",
        parent_n=3,
        deadline_at=scene.clock.now() + 10,
        start_at=scene.clock.now() + 60 if waits == "start" else None,
        concurrency_key="k" if waits == "key" else None,
        concurrency_limit=1 if waits == "key" else None,
    )
    await scene.append(parent, starts=[child])
    if waits == "freed":  # its worker died before it wrote anything
        assert [claim.run.id for claim in await scene.claim(worker="x")] == ["r"]
        await scene.store.release("x", dead=True)
    if waits == "suspended":
        await scene.store.suspend("r", event())
    scene.clock.advance(11)
    await scene.store.due()
    run = await scene.store.get_run("r")
    assert run.state is RunState.FAILED
    assert isinstance(codec.decode_error(run.error or ""), RunTimeout)
    [message] = await scene.messages("parent")
    assert (message.n, message.state, message.error) == (3, "failed", run.error)
    assert await scene.journal("r") == [EntryKind.FAILED]
    assert await scene.claim() == []


@rule
@pytest.mark.parametrize("has_worker", [True, False])
async def test_a_run_that_has_begun_is_notified_of_its_deadline(scene: Scene, has_worker: bool) -> None:
    run = await scene.run(deadline_at=scene.clock.now() + 10)
    await scene.append(run, entry(0))
    await scene.store.release("w")
    if has_worker:
        await scene.store.enlist(WorkerInfo("other", "host", 1, 0.0, "default"))
    scene.clock.advance(11)
    next_at = await scene.store.due()
    assert next_at == (scene.clock.now() + 60 if has_worker else 1_000_010 + GRACE_SECONDS)
    assert await scene.state() is RunState.READY
    assert [message.kind for message in await scene.messages()] == [MessageKind.DEADLINE]


async def unclaimed(scene: Scene, waits: str) -> None:
    """A child with open calls, whose deadline is in 10 s, and that no worker claims."""
    parent = await scene.run("parent")
    child = NewRun(
        "r", "refund", "gpu", "{}", parent_id="parent", parent_n=3, deadline_at=scene.clock.now() + 10
    )
    await scene.append(parent, starts=[child])
    [claim] = await scene.claim(group="gpu", worker="x")
    own = [
        NewRun(id, "refund", "gpu", "{}", parent_id="r", parent_n=n) for n, id in ((2, "begun"), (3, "new"))
    ]
    await scene.append(claim.run, entry(0), opens=[question("r", 1)], starts=own)
    [begun] = await scene.claim(group="gpu", worker="x", limit=1)
    await scene.append(begun.run, entry(0))
    if waits == "paused":
        assert await scene.pause(claim.run)
    await scene.store.release("x", dead=True)
    if waits == "paused group":
        await scene.store.pause_group("gpu")
    elif waits == "full group":
        await scene.store.limit_group("gpu", max_running=1)
        await scene.start("first", group="gpu", priority=1)
        assert [claim.run.id for claim in await scene.claim(group="gpu", worker="y")] == ["first"]
    if waits != "paused":
        await scene.store.enlist(WorkerInfo("y", "host", 1, 0.0, "gpu"))


@rule
@pytest.mark.parametrize("waits", ["ready", "paused", "paused group", "full group"])
async def test_a_begun_run_without_a_worker_ends_after_its_grace(scene: Scene, waits: str) -> None:
    """There may never be a worker for it: its parent would wait permanently."""
    await unclaimed(scene, waits)
    scene.clock.advance(10)
    await scene.store.due()
    scene.clock.advance(GRACE_SECONDS - 1)
    await scene.store.due()
    assert await scene.state("r") is RunState.READY
    scene.clock.advance(1)
    await scene.store.due()
    run = await scene.store.get_run("r")
    assert (run.state, run.worker_id) == (RunState.FAILED, None)
    assert isinstance(codec.decode_error(run.error or ""), RunTimeout)
    [message] = await scene.messages("parent")
    assert (message.n, message.state, message.error) == (3, "failed", run.error)
    assert (await scene.journal("r"))[-1] is EntryKind.FAILED
    assert (await scene.store.get_promise("r.1")).state is PromiseState.CANCELLED
    assert await scene.state("new") is RunState.CANCELLED
    assert [message.kind for message in await scene.messages("begun")] == [MessageKind.CANCEL]
    assert await scene.listed(states=frozenset({RunState.FAILED})) == ["r"]


@rule
async def test_a_worker_that_cleans_up_is_not_ended_by_the_grace(scene: Scene) -> None:
    run = await scene.run(deadline_at=scene.clock.now() + 10)
    await scene.append(run, entry(0))
    await scene.store.release("w")
    scene.clock.advance(11)
    await scene.store.due()
    [claim] = await scene.claim(worker="late")
    scene.clock.advance(10 * GRACE_SECONDS)
    await scene.store.due()
    assert await scene.state() is RunState.RUNNING
    # It asks in its clean-up code, and pauses: no other worker has to claim it.
    assert await scene.pause(claim.run, opens=[question("r", 1)], taken=[each.id for each in claim.messages])
    scene.clock.advance(10 * GRACE_SECONDS)
    await scene.store.due()
    assert await scene.state() is RunState.PAUSED
    await scene.settle("r.1")
    await scene.store.due()
    assert await scene.state() is RunState.READY
    scene.clock.advance(GRACE_SECONDS)
    await scene.store.due()
    assert await scene.state() is RunState.FAILED


@rule
async def test_the_grace_counts_from_the_loss_of_the_last_worker(scene: Scene) -> None:
    run = await scene.run(deadline_at=scene.clock.now() + 10)
    await scene.append(run, entry(0))
    scene.clock.advance(GRACE_SECONDS)
    await scene.store.due()
    scene.lease_clock.advance(1_000)
    await scene.store.due()
    assert await scene.state() is RunState.READY
    scene.clock.advance(GRACE_SECONDS - 1)
    await scene.store.due()
    assert await scene.state() is RunState.READY
    scene.clock.advance(1)
    await scene.store.due()
    assert await scene.state() is RunState.FAILED


@rule
async def test_a_deadline_noticed_late_leaves_its_whole_grace(scene: Scene) -> None:
    """No process was up: workers and servers start at the same moment."""
    run = await scene.run(deadline_at=scene.clock.now() + 10)
    await scene.append(run, entry(0))
    await scene.store.release("w")
    scene.clock.advance(100_000)
    assert await scene.store.due() == scene.clock.now() + GRACE_SECONDS
    assert [message.kind for message in await scene.messages()] == [MessageKind.DEADLINE]
    scene.clock.advance(GRACE_SECONDS)
    await scene.store.due()
    assert await scene.state() is RunState.FAILED


@rule
async def test_a_retried_run_has_neither_its_old_deadline_nor_a_grace(scene: Scene) -> None:
    await unclaimed(scene, "ready")
    scene.clock.advance(GRACE_SECONDS)
    await scene.store.due()
    scene.clock.advance(GRACE_SECONDS)
    await scene.store.due()
    run = await scene.store.get_run("r")
    assert run.state is RunState.FAILED
    await scene.store.retry("r", how=Retry(run.epoch, 1, 0, ()))
    scene.clock.advance(100 * GRACE_SECONDS)
    await scene.store.due()
    assert await scene.state("r") is RunState.READY


@rule
async def test_the_deadline_of_a_suspended_run_waits_for_its_operator(scene: Scene) -> None:
    run = await scene.run(deadline_at=scene.clock.now() + 10)
    await scene.append(run, entry(0))
    await scene.store.release("w")
    await scene.store.suspend("r", event())
    scene.clock.advance(11)
    await scene.store.due()
    scene.clock.advance(10 * GRACE_SECONDS)
    await scene.store.due()
    assert await scene.state() is RunState.PAUSED
    assert [message.kind for message in await scene.messages()] == [MessageKind.DEADLINE]


# Retrying what failed for good


@rule
async def test_a_run_that_failed_for_good_goes_on_as_planned(scene: Scene) -> None:
    run = await scene.run(deadline_at=scene.clock.now() + 10)
    await scene.append(
        run,
        entry(0),
        opens=[question("r", 1)],
        starts=[NewRun("c", "refund", "gpu", "{}", parent_id="r", parent_n=2)],
    )
    await scene.store.terminate("c", event("c", run_id="c"))
    [told] = await scene.messages()
    await scene.append(run, taken=[told.id])
    await scene.complete(run, FAILURE)
    scene.clock.advance(20)
    how = Retry(run.epoch, 1, 0, (1, 2))
    for wrong in (None, replace(how, epoch=run.epoch + 1)):
        with pytest.raises(InvalidState):
            await scene.store.retry("r", how=wrong)
    retried = await scene.store.retry("r", how=how, event=event("e", AuditKind.RETRIED), token="t")
    assert (retried.state, retried.error, retried.deadline_at) == (RunState.READY, None, None)
    assert retried == await scene.store.get_run("r")
    again = await scene.store.retry("r", how=how, event=event("f", AuditKind.RETRIED), token="t")
    assert again.state is RunState.READY
    [*_, last] = await scene.store.read_journal("r")
    assert (last.kind, json.loads(last.details or "")) == (
        EntryKind.RETRIED,
        {"token": "t", "from": 1, "n": 0},
    )
    [claim] = await scene.claim()
    assert [(message.n, message.state) for message in claim.messages] == [(1, "cancelled"), (2, "cancelled")]
    assert await trail(scene) == [(AuditKind.CANCELLED, None), (AuditKind.RETRIED, "user:ana")]


@rule
async def test_a_failed_run_of_a_session_is_not_retried_while_another_is_active(scene: Scene) -> None:
    run = await scene.run("r", session_id="s")
    await scene.complete(run, FAILURE)
    await scene.start("next", session_id="s")
    with pytest.raises(InvalidState, match="session"):
        await scene.store.retry("r", how=Retry(run.epoch, 0))
    await scene.store.cancel("next")
    assert (await scene.store.retry("r", how=Retry(run.epoch, 0))).state is RunState.READY


RUN = Run("default", "r", "refund", "default", "{}", RunState.FAILED, 1.0, epoch=1)


def step(seq: int, n: int, kind: EntryKind = EntryKind.COMPLETED, **more: Any) -> Entry:
    return Entry(seq, 1.0, kind, n=n, call=CallKind.STEP, name="pay", **more)


def plan(run: Run, entries: Sequence[Entry]) -> Retry:
    async def read(seq: int) -> Entry:
        return entries[seq]

    outline = Outline(run)
    for each in entries:
        outline.add(each)
    return asyncio.run(outline.plan(read))


@pytest.mark.parametrize("retries", [1, 2])
def test_what_a_retried_run_has_forgotten(retries: int) -> None:
    error = FAILURE.error
    entries = [
        Entry(0, 1.0, EntryKind.STARTED),
        step(1, 1),
        Entry(2, 1.0, EntryKind.OPENED, n=2, call=CallKind.QUESTION, name="ok?"),
        step(3, 3, EntryKind.STEP_STARTED),
        step(4, 3, EntryKind.ATTEMPT_FAILED, error=error),
        step(5, 3, error=error),
        Entry(6, 1.0, EntryKind.SIGNALLED, name="go"),
        step(7, 4),
        Entry(8, 1.0, EntryKind.FAILED, error=error),
    ]
    run = replace(RUN, error=error)
    for number in range(retries):
        how = plan(run, entries)
        assert (how.n, how.open) == (3, (2,))
        entries.append(Entry(len(entries), 1.0, EntryKind.RETRIED, details=json.dumps(how.facts)))
        assert [each.seq for each in without_dropped(entries)][:4] == [0, 1, 2, 6]
        if number < retries - 1:
            entries += [
                step(10, 3, error=error),
                Entry(11, 1.0, EntryKind.FAILED, error=error),
            ]


def test_a_run_that_asked_on_its_way_out_is_not_retried() -> None:
    entries = [
        Entry(0, 1.0, EntryKind.STARTED),
        step(1, 1, error=FAILURE.error),
        Entry(2, 1.0, EntryKind.OPENED, n=2, call=CallKind.QUESTION, name="refund?"),
    ]
    with pytest.raises(InvalidState, match=r"question 'refund\?'"):
        plan(replace(RUN, error=FAILURE.error), entries)


def test_a_run_whose_code_failed_keeps_its_whole_journal() -> None:
    entries = [
        Entry(0, 1.0, EntryKind.STARTED),
        step(1, 1, error='{"type": "builtins:OSError", "message": "caught", "args": []}'),
        step(2, 2),
        Entry(3, 1.0, EntryKind.FAILED, error=FAILURE.error),
    ]
    how = plan(replace(RUN, error=FAILURE.error), entries)
    assert (how.from_seq, how.n) == (4, None)


# Seen from outside


@rule
async def test_a_group_says_how_many_of_its_runs_wait_for_an_operator(scene: Scene) -> None:
    for id in ("asked", "lost", "running", "ended", "free"):
        run = await scene.run(id)
        if id == "lost":
            await scene.store.release("w", dead=True)
            [claim] = await scene.claim()
            unnamed = replace(event(id, run_id=id), by=None)
            await scene.store.suspend(id, unnamed, epoch=claim.run.epoch)
        elif id != "free":
            if id == "asked":
                await scene.pause(run)
            await scene.store.suspend(id, event(id, run_id=id))
        if id == "ended":
            await scene.complete(run)
    await scene.start("elsewhere", group="gpu")
    found = {group.name: (group.suspended, group.set_aside) for group in await scene.store.list_groups()}
    assert found == {"default": (2, 1), "gpu": (0, 0)}
