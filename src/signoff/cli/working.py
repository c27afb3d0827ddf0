"""Running a worker until the process is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from signoff.app import Signoff
from signoff.cli.output import Output
from signoff.cli.stopping import StopSignals
from signoff.engine.worker import Worker


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker of the command line works.

    Attributes:
        group: The group it polls; by default the app's.
        concurrency: How many runs it holds at once.
        threads: How many plain functions of steps run at once.
        grace_seconds: How long running steps may go on when it is asked to stop.
        retention_days: How long ended runs are kept; None: for ever.
    """

    group: str | None = None
    concurrency: int = 1000
    threads: int = 32
    grace_seconds: float = 30.0
    retention_days: float | None = None


async def work(app: Signoff, options: WorkerOptions, stop: StopSignals, out: Output) -> None:
    """Work on an open store until asked to stop; then let running steps finish and be journaled, and give back leases.

    Raises:
        StoreUnavailable: The store could not be written at the start.
    """
    group = options.group or app.group
    worker = Worker(
        app.store,
        app.registry,
        group=group,
        concurrency=options.concurrency,
        threads=options.threads,
        retention_days=options.retention_days,
    )
    working = asyncio.create_task(worker.run(), name="signoff worker")
    names = app.registry.names()
    out.event(
        "working",
        f"working for group {group}: {', '.join(names) or 'no workflows are registered'}",
        group=group,
        workflows=list(names),
        store=app.store.location,
    )
    await stop.asked(working)
    if not working.done():
        out.event("draining", _draining(worker, options.grace_seconds), runs=list(worker.held))
        draining = asyncio.create_task(worker.drain(options.grace_seconds))
        await stop.urged(draining, working)
        draining.cancel()
        working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    out.event("stopped", "the worker has stopped")


def _draining(worker: Worker, grace_seconds: float) -> str:
    held = len(worker.held)
    if not held:
        return "stopping"
    return f"stopping: running steps of {held} runs may finish within {grace_seconds:g} s; again to leave at once"
