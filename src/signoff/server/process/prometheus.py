"""Metrics for Prometheus: of this process, and of the store at the time of the scrape."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from signoff.engine.steps import threads
from signoff.engine.timers.timers import running_seconds
from signoff.errors import SignoffError
from signoff.people.audit.anchors.anchoring import Anchoring
from signoff.records import Group, WorkerInfo
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.shared import failed_items
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.store_wrapper import unwrapped

log = own_logger("signoff.server")

FRESH_SECONDS: Final = 1.0
"""How long metrics of the store are reused, so that many scrapers do not read the store more often."""

READ_SECONDS: Final = 5.0
"""Time limit for reading the store; Prometheus itself waits for 10 s."""
MOST_GROUPS: Final = 500


@dataclass(frozen=True, slots=True)
class Held:
    """The resources that a server holds for its callers.

    Attributes:
        streams: The number of open streams and waiting requests, by kind.
        reply_bytes: The bytes of replies that are kept for repeated requests.
    """

    streams: Mapping[str, int]
    reply_bytes: int


class Scrape:
    """Answers scrapes by Prometheus.

    Args:
        store: An open store, whose metrics are included; None: metrics of this process alone.
        timers_alive: Returns whether this process fires deadlines.
        anchoring: Sends checkpoints of audit trails to anchors.
        held: Returns the resources that this process holds for its callers.
    """

    def __init__(
        self,
        store: Store | None = None,
        timers_alive: Callable[[], bool] | None = None,
        anchoring: Anchoring | None = None,
        held: Callable[[], Held] | None = None,
    ) -> None:
        self._store = store
        self._anchoring = anchoring
        self._timers_alive = timers_alive
        self._held = held
        self._reading: asyncio.Task[Sequence[Metric]] | None = None
        self._read_at = 0.0

    async def answer(self, accept: str) -> Response:
        """Return all metrics in the format that a request's ``Accept`` header names."""
        found = [*self._of_timers(), *self._of_callers(), *self._of_anchors(), *await self._of_store()]
        encode, content_type = choose_encoder(accept)
        body = await asyncio.to_thread(encode, _Both(found))  # metrics of the process read /proc
        return Response(body, headers={"content-type": content_type})

    def _of_timers(self) -> Sequence[Metric]:
        if self._timers_alive is None:
            return ()
        alive = float(self._timers_alive())
        return (GaugeMetricFamily("signoff_timers_alive", "Whether deadlines fire in this server.", alive),)

    def _of_anchors(self) -> Sequence[Metric]:
        if self._anchoring is None:
            return ()
        late = {anchor.name: self._anchoring.late_seconds(anchor) for anchor in self._anchoring.anchors}
        help = "For how long this server could not keep checkpoints of audit trails in an anchor; 0: it can."
        return (_gauges("signoff_audit_anchor_failing_seconds", help, "anchor", late),)

    def _of_callers(self) -> Sequence[Metric]:
        if self._held is None:
            return ()
        held = self._held()
        help = "Streams and waiting requests that are open."
        return _gauges("signoff_open_streams", help, "kind", held.streams), GaugeMetricFamily(
            "signoff_kept_reply_bytes",
            "Replies to remote stores that are kept for repetitions.",
            held.reply_bytes,
        )

    async def _of_store(self) -> Sequence[Metric]:
        if self._store is None:
            return ()
        now = asyncio.get_running_loop().time()
        if self._reading is None or (self._reading.done() and now - self._read_at > FRESH_SECONDS):
            self._read_at = now
            self._reading = asyncio.create_task(self._read(self._store), name="signoff metrics")
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await asyncio.shield(self._reading)
        except TimeoutError:
            return (_up(False),)

    async def close(self) -> None:
        """Stop reading the store."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _read(self, store: Store) -> Sequence[Metric]:
        try:
            groups, workers = await store.list_groups(), await store.list_workers()
        except SignoffError as error:
            log.warning("metrics of the store are missing: %s", error)
            return (_up(False),)
        return [
            _up(await _takes_writes(store)),
            *_of_groups(store.namespace, groups),
            _of_workers(store.namespace, workers),
            *_of_files(store),
        ]


class _Both(Collector):
    """Collector of the process's metrics and of ``more``."""

    def __init__(self, more: Iterable[Metric]) -> None:
        self._more = more

    def collect(self) -> Generator[Metric]:
        yield from REGISTRY.collect()
        yield _of_threads()
        yield from of_jobs()
        yield from self._more


def _gauges(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a metric with one label and its values."""
    found = GaugeMetricFamily(name, help, labels=(label,))
    for each, value in values.items():
        found.add_metric((each,), value)
    return found


def _of_threads() -> Metric:
    """Return metrics of the threads for plain steps of this process's workers."""
    pools = threads.at_work()
    counts = {
        "all": sum(pool.count for pool in pools),
        "busy": sum(pool.busy for pool in pools),
        "waiting": sum(pool.waiting for pool in pools),
    }
    help = "Threads of this process's workers for plain steps: all, busy, and how many steps wait for one."
    return _gauges("signoff_step_threads", help, "state", counts)


def of_jobs() -> Sequence[Metric]:
    """Return metrics of the periodic jobs of this process: items set aside, and calls that do not return."""
    failures = CounterMetricFamily(
        "signoff_set_aside_failures", "How often items of periodic jobs have failed.", labels=("job",)
    )
    held, failed = Counter[str](), Counter[str]()
    for job in failed_items.running_jobs():
        held[job.noun] += len(job)
        failed[job.noun] += job.failures
    for noun in sorted(failed):
        failures.add_metric((noun,), failed[noun])
    help = "Items of periodic jobs that failed and are tried again, such as a schedule or a question."
    items = _gauges("signoff_set_aside_items", help, "job", dict(sorted(held.items())))
    help = "How long the current call of a periodic job has taken; 0 between calls."
    running = _gauges("signoff_periodic_job_running_seconds", help, "job", running_seconds())
    return items, failures, running


async def _takes_writes(store: Store) -> bool:
    try:
        await store.check_writable()
    except SignoffError as error:
        log.warning("the store takes no writes: %s", error)
        return False
    return True


def _of_files(store: Store) -> Sequence[Metric]:
    """Return the file sizes of an SQLite store."""
    database = unwrapped(store)
    if not isinstance(database, SqliteStore):
        return ()
    sizes: dict[str, float] = {}
    for name, end in (("database", ""), ("log", "-wal")):
        with contextlib.suppress(OSError):
            sizes[name] = os.path.getsize(f"{database.path}{end}")
    help = "Sizes of an SQLite store's files: the database, and its write-ahead log."
    return (_gauges("signoff_store_file_bytes", help, "file", sizes),)


def _up(is_up: bool) -> Metric:
    return GaugeMetricFamily("signoff_store_up", "Whether the store could be read and written.", float(is_up))


def _of_groups(namespace: str, groups: Sequence[Group]) -> Sequence[Metric]:
    runs = GaugeMetricFamily(
        "signoff_runs",
        "Runs that have not ended; counts stop at 10,000.",
        labels=("namespace", "group", "state"),
    )
    paused = GaugeMetricFamily(
        "signoff_group_paused", "Whether a group is paused.", labels=("namespace", "group")
    )
    for group in _most(groups):
        paused.add_metric((namespace, group.name), float(group.is_paused))
        for state, number in (("ready", group.ready), ("running", group.running), ("paused", group.paused)):
            runs.add_metric((namespace, group.name, state), number)
    return runs, paused, _suspended(namespace, groups)


def _suspended(namespace: str, groups: Sequence[Group]) -> Metric:
    suspended = GaugeMetricFamily(
        "signoff_runs_suspended",
        "Runs that wait for an operator: suspended by one, or by Signoff after takeovers without progress.",
        labels=("namespace", "group", "by"),
    )
    for group in _most(groups):
        suspended.add_metric((namespace, group.name, "operator"), group.suspended - group.set_aside)
        suspended.add_metric((namespace, group.name, "takeovers"), group.set_aside)
    return suspended


def _most(groups: Sequence[Group]) -> Sequence[Group]:
    """Return the first ``MOST_GROUPS`` groups, with the others merged into one."""
    rest = groups[MOST_GROUPS:]
    if not rest:
        return groups
    others = Group(
        "(other)",
        ready=sum(group.ready for group in rest),
        running=sum(group.running for group in rest),
        paused=sum(group.paused for group in rest),
        suspended=sum(group.suspended for group in rest),
        set_aside=sum(group.set_aside for group in rest),
    )
    return [*groups[:MOST_GROUPS], others]


def _of_workers(namespace: str, workers: Iterable[WorkerInfo]) -> Metric:
    found = GaugeMetricFamily(
        "signoff_workers", "Workers that were heard of within a minute.", labels=("namespace", "group")
    )
    counts = Counter(worker.group for worker in workers if worker.namespace == namespace)
    if len(counts) > MOST_GROUPS:
        most = dict(counts.most_common(MOST_GROUPS))
        counts = Counter({**most, "(other)": counts.total() - sum(most.values())})
    for group, number in counts.items():
        found.add_metric((namespace, group), number)
    return found
