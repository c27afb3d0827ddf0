"""The workers of a simulated server that call functions of SDK processes for runs."""

from __future__ import annotations

from collections.abc import Callable

from signoff.engine.worker.worker import Worker
from signoff.records import WorkerInfo
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.function_calls import FunctionCalls, function_worker
from signoff.server.resonate.function_groups import FunctionGroups
from signoff.stores.contract.store import Store
from signoff.testing.simulation import Process
from signoff.testing.simulation.process import worker_on


def function_groups(process: Process, *deliveries: Deliveries) -> FunctionGroups:
    """Return the groups that a server process serves: those that poll it."""

    def polled() -> dict[str, list[str]]:
        return {"default": sorted({group for each in deliveries for group in each.groups.get("default", ())})}

    return FunctionGroups(process.store, polled, _on(process))


def _on(process: Process) -> Callable[[Store, FunctionCalls, str], Worker]:
    def new_worker(_: Store, calls: FunctionCalls, group: str) -> Worker:
        info = WorkerInfo(f"{process.name}/{group}", process.host, process.pid, 0.0, group)
        return worker_on(
            process,
            calls,
            function_worker(info),
            group=group,
            hot_runs=0,
            look_seconds=2.0,
            beat_seconds=1.5,
        )

    return new_worker
