"""Checks of the work in one namespace: its workers, and runs and deliveries that wait in vain or failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

from signoff.doctor.findings import Check, Verdict, failure, ok, skipped, warning
from signoff.errors import AccessDenied
from signoff.records import Group, Run, RunState, Schedule, WorkerInfo
from signoff.records.deliveries import Delivery, DeliveryState
from signoff.records.paging import DeliveryFilter, Page, RunFilter
from signoff.stores.contract.groups import COUNTED_AT_MOST
from signoff.stores.contract.workers import ENLIST_SECONDS
from signoff.stores.shared.inspection import COUNTED_AT_MOST as LATE_COUNTED
from signoff.stores.shared.inspection import Late
from signoff.stores.shared.listed_payloads import may_be_cut

T = TypeVar("T")

LATE_SECONDS: Final = 10.0
"""How late due work may be. Servers and workers look for it every second."""
SENT_SECONDS: Final = 60.0
"""How late a due delivery may be."""
SILENT_SECONDS: Final = 3 * ENLIST_SECONDS
"""A worker without a heartbeat for this long counts as silent."""
LOOKED_AT: Final = 100
"""How many runs (the newest) and schedules (the first) are read: each may have a mebibyte of payload."""
NAMED: Final = 3  # ids in a message


class Source(Protocol):
    """A source of the work in a namespace: an open store, or a client's backend."""

    async def list_groups(self) -> Sequence[Group]: ...
    async def list_workers(self) -> Sequence[WorkerInfo]: ...
    async def list_runs(
        self, which: RunFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Run]: ...
    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]: ...
    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]: ...


@dataclass(frozen=True)
class Known:
    """The workflows that an app registers, and the group that its workers poll."""

    group: str
    has: Callable[[str], bool]


@dataclass(frozen=True)
class Workload:
    """A snapshot of a namespace. ``closed`` names the checks for which a worker key gives no access."""

    namespace: str
    now: float
    known: Known | None = None
    groups: Sequence[Group] = ()
    workers: Sequence[WorkerInfo] = ()
    ready: Sequence[Run] = ()  # of the app's group, the newest
    failed: Sequence[Run] = ()  # the newest
    suspended: Sequence[Run] = ()  # the newest
    schedules: Sequence[Schedule] = ()
    pending: Sequence[Delivery] = ()  # the newest
    dead: Sequence[Delivery] = ()  # the newest
    closed: frozenset[str] = field(default_factory=frozenset[str])

    @property
    def place(self) -> str:
        """The namespace, as messages name it."""
        return "" if self.namespace == "default" else f" of namespace {self.namespace}"

    @property
    def live(self) -> Sequence[WorkerInfo]:
        """Its workers with a recent heartbeat."""
        return [worker for worker in self.workers if self.now - (worker.seen_at or 0.0) <= SILENT_SECONDS]


async def look(source: Source, work: Workload) -> Workload:
    """Fill in the snapshot from a source."""
    closed: set[str] = set()

    async def unless_closed(what: str, asking: Awaitable[Sequence[T]]) -> Sequence[T]:
        try:
            return await asking
        except AccessDenied:
            closed.add(what)
            return ()

    async def runs(state: RunState, group: str | None) -> Sequence[Run]:
        return (await source.list_runs(RunFilter(frozenset({state}), None, group), limit=LOOKED_AT)).items

    async def suspended() -> Sequence[Run]:
        which = RunFilter(frozenset({RunState.PAUSED}), suspended=True)
        return (await source.list_runs(which, limit=LOOKED_AT)).items

    async def schedules() -> Sequence[Schedule]:
        return (await source.list_schedules(limit=LOOKED_AT)).items

    async def sent(state: DeliveryState) -> Sequence[Delivery]:
        return (await source.list_deliveries(DeliveryFilter(state), limit=LOOKED_AT)).items

    workers = await unless_closed("workers", source.list_workers())
    return replace(
        work,
        groups=await unless_closed("ready runs", source.list_groups()),
        workers=[worker for worker in workers if worker.namespace == work.namespace],
        ready=await unless_closed("ready runs", runs(RunState.READY, work.known.group)) if work.known else (),
        failed=await unless_closed("failed runs", runs(RunState.FAILED, None)),
        suspended=await unless_closed("suspended runs", suspended()),
        schedules=await unless_closed("schedules", schedules()),
        pending=await unless_closed("deliveries", sent(DeliveryState.PENDING)),
        dead=await unless_closed("deliveries", sent(DeliveryState.DEAD)),
        closed=frozenset(closed),
    )


def workers(work: Workload) -> Iterable[Verdict]:
    silent = [worker for worker in work.workers if worker not in work.live]
    for worker in silent:
        ago = work.now - (worker.seen_at or 0.0)
        yield warning(
            f"worker {worker.id} of group {worker.group} had its last heartbeat {ago:.0f} s ago and holds "
            f"{worker.held} runs: is its process stuck, or its machine down?"
        )
    if work.live:
        groups = ", ".join(sorted({worker.group for worker in work.live}))
        yield ok(f"{len(work.live)} running{work.place}, for {groups}")
    elif not silent:
        yield warning(
            f"none is registered{work.place}, so runs do not progress; start one: signoff worker MODULE:APP"
        )


def claims(work: Workload) -> Iterable[Verdict]:
    served = {worker.group for worker in work.live}
    waiting = [group for group in work.groups if group.ready]
    is_well = True
    for group in waiting:
        count = f"{'at least ' if group.ready >= COUNTED_AT_MOST else ''}{group.ready:,} ready runs"
        if group.is_paused:
            is_well = False
            yield warning(
                f"group {group.name}{work.place} is paused and has {count}; signoff groups resume {group.name}"
            )
        elif group.name not in served:
            is_well = False
            yield failure(
                f"group {group.name}{work.place} has {count} but no live worker; start one: "
                f"signoff worker MODULE:APP --group {group.name}"
            )
    if work.known is not None:
        strange = [run for run in work.ready if not work.known.has(run.workflow)]
        if strange:
            is_well = False
            names = ", ".join(sorted({run.workflow for run in strange})[:NAMED])
            yield warning(
                f"at least {len(strange)} ready runs of group {work.known.group} are of workflows that this app does "
                f"not register ({names}): they wait until a worker that has them starts"
            )
    if is_well:
        yield ok(f"every group with ready runs{work.place} has a worker")


def failed(work: Workload) -> Iterable[Verdict]:
    kept = [run for run in work.failed if run.retryable]
    if not kept:
        yield ok(f"no run{work.place} waits for a fix of its code")
        return
    yield warning(
        f"at least {len(kept)} runs{work.place} failed because of their code ({_ids(kept)}): see signoff show, fix "
        f"the code, then signoff retry"
    )


def suspended(work: Workload) -> Iterable[Verdict]:
    lost = [run for run in work.suspended if run.suspended_by is None and run.takeovers > 0]
    others = [run for run in work.suspended if run not in lost]
    if lost:
        yield failure(
            f"at least {len(lost)} runs{work.place} were suspended because several workers in turn were lost with them "
            f"({_ids(lost)}): see signoff show, fix the code that blocks or ends its workers, then signoff resume or "
            f"signoff terminate"
        )
    if others:
        yield warning(
            f"at least {len(others)} runs{work.place} are suspended by operators ({_ids(others)}): signoff resume"
        )
    if not work.suspended:
        yield ok(f"no run{work.place} waits for an operator")


def threads(work: Workload) -> Iterable[Verdict]:
    full = [worker for worker in work.live if worker.threads_waiting > 0]
    for worker in full:
        yield warning(
            f"all {worker.threads} threads of worker {worker.id} of group {worker.group} are busy and "
            f"{worker.threads_waiting} plain-function steps wait for one: its log names the longest running; make "
            f"steps that wait async, or start it with more --threads"
        )
    if not full:
        yield ok(f"no step{work.place} waits for a thread")


def schedules(work: Workload) -> Iterable[Verdict]:
    late = [each for each in work.schedules if not each.is_paused and each.next_at < work.now - LATE_SECONDS]
    for schedule in late[:NAMED]:
        yield failure(
            f"schedule {schedule.id}{work.place} is {work.now - schedule.next_at:.0f} s late: is a server or worker "
            f"running, and does it know time zone {schedule.timezone}? See their logs"
        )
    if not late:
        first = f" of the first {len(work.schedules)}" if may_be_cut(work.schedules, LOOKED_AT) else ""
        yield ok(f"none{work.place} is late{first}")


def deliveries(work: Workload) -> Iterable[Verdict]:
    late = [
        each for each in work.pending if each.due_at is not None and each.due_at < work.now - SENT_SECONDS
    ]
    failing = [each for each in work.pending if each.error is not None]
    for channel in sorted({each.channel for each in late}):
        count = sum(each.channel == channel for each in late)
        yield failure(
            f"channel {channel}{work.place} has at least {count} overdue deliveries: start a signoff server whose "
            f"--channels include it, or see the logs of the running ones"
        )
    for channel in sorted({each.channel for each in failing} - {each.channel for each in late}):
        errors = [each.error for each in failing if each.channel == channel]
        yield warning(
            f"channel {channel}{work.place} retries {len(errors)} deliveries, the newest after: {errors[0]}"
        )
    for channel in sorted({each.channel for each in work.dead}):
        count = sum(each.channel == channel for each in work.dead)
        yield warning(
            f"channel {channel}{work.place} has at least {count} failed deliveries: "
            f"signoff deliveries list --state dead, then signoff deliveries redeliver"
        )
    if not (late or failing or work.dead):
        yield ok(f"none{work.place} is late, failing or failed")


def _ids(runs: Sequence[Run]) -> str:
    return ", ".join(run.id for run in runs[:NAMED]) + (", ..." if len(runs) > NAMED else "")


def unless_closed(name: str, check: Check[Workload]) -> Check[Workload]:
    """Return a check that is skipped if the worker key gives no access."""

    def checked(work: Workload) -> Iterable[Verdict]:
        return [skipped("this worker key gives no access to it")] if name in work.closed else check(work)

    return checked


WORK_CHECKS: Mapping[str, Check[Workload]] = {
    name: unless_closed(name, check)
    for name, check in {
        "workers": workers,
        "ready runs": claims,
        "failed runs": failed,
        "suspended runs": suspended,
        "threads": threads,
        "schedules": schedules,
        "deliveries": deliveries,
    }.items()
}


def time(late: Sequence[Late]) -> Iterable[Verdict]:
    """Judge overdue timers, deadlines and leases in the whole database."""
    for each in late:
        count = f"{'at least ' if each.count >= LATE_COUNTED else ''}{each.count:,}"
        yield failure(
            f"{each.what}: {count} overdue, the first by {each.seconds:.0f} s; no process fires them: start a signoff "
            f"server or a worker, or see the logs of the running ones"
        )
    if not late:
        yield ok(f"nothing is overdue by more than {LATE_SECONDS:g} s")
