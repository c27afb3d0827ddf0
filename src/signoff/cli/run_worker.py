"""Runs a worker until the process is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from signoff.app import Signoff
from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.output import Output
from signoff.cli.signals import StopSignals
from signoff.engine.steps.own_tasks import own_task
from signoff.engine.worker.worker import HOT_RUNS, Worker
from signoff.people.audit.anchors.anchoring import Anchoring
from signoff.people.audit.anchors.config import Anchors


@dataclass(frozen=True)
class WorkerOptions:
    """The options of a worker that the command line runs.

    Attributes:
        group: The group it polls; by default the app's.
        concurrency: The most runs that it holds at once.
        threads: The most plain step functions that run at once.
        hot_runs: The most paused runs that stay in memory, as ``Worker`` counts them.
        grace_seconds: How long running steps may continue when the worker is asked to stop.
        build: The build of its code, such as a commit; by default from the environment.
        retention_days: How long ended runs are kept; None: permanently.
        metrics_host: The address for metrics and health checks.
        metrics_port: The port for metrics and health checks; 0 takes a free one, None: they are off.
    """

    group: str | None = None
    concurrency: int = 1000
    threads: int = 32
    hot_runs: int = HOT_RUNS
    grace_seconds: float = 30.0
    build: str | None = None
    retention_days: float | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None


async def opened(app: Signoff, stop: StopSignals) -> bool:
    """Open the store, and wait while it is unavailable. Return False if the process is asked to stop first."""
    opening = asyncio.create_task(app.store.open())
    await stop.asked(opening)
    if not opening.done():
        opening.cancel()
        await asyncio.wait({opening})
        return False
    await opening
    return True


async def work(
    app: Signoff,
    options: WorkerOptions,
    stop: StopSignals,
    out: Output,
    anchors: Anchors | None = None,
) -> None:
    """Run a worker until the process is asked to stop. Then let running steps finish, and give the leases back.

    Checkpoints of the audit trails are sent to the anchors meanwhile. An unavailable store is waited for.

    Raises:
        StoreUnavailable: The store could not be written at the start.
        CommandFailed: The worker cannot listen on the port for metrics.
    """
    worker = Worker(
        app.store,
        app.registry,
        group=options.group or app.group,
        concurrency=options.concurrency,
        threads=options.threads,
        hot_runs=options.hot_runs,
        build=options.build,
        retention_days=options.retention_days,
    )
    async with _answering(worker, options, out):
        if await opened(app, stop):
            async with _anchoring(app, anchors or Anchors()):
                await _work(worker, app, options, stop, out)


@asynccontextmanager
async def _anchoring(app: Signoff, anchors: Anchors) -> AsyncGenerator[None]:
    """Send checkpoints of the audit trails to the anchors within the block."""
    anchoring = Anchoring(app.store, anchors.anchors, origin=anchors.origin)
    task = asyncio.create_task(anchoring.run(), name="signoff anchors")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        await anchors.close()


@asynccontextmanager
async def _answering(worker: Worker, options: WorkerOptions, out: Output) -> AsyncGenerator[None]:
    """Serve metrics and health checks within the block, if a port is given."""
    if options.metrics_port is None:
        yield
        return
    from signoff.server.process.probes import Probes

    try:
        async with Probes(worker, options.metrics_host, options.metrics_port) as probes:
            out.event("metrics", f"metrics at {probes.url}/metrics", url=probes.url, port=probes.port)
            yield
    except OSError as error:
        raise CommandFailed(ExitCode.UNAVAILABLE, error.strerror or str(error)) from error


async def _work(worker: Worker, app: Signoff, options: WorkerOptions, stop: StopSignals, out: Output) -> None:
    group = options.group or app.group
    working = own_task(worker.run(), name="signoff worker")
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
        if not worker.is_leaving:
            working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    out.event("stopped", "the worker has stopped")


def _draining(worker: Worker, grace_seconds: float) -> str:
    held = len(worker.held)
    if not held:
        return "stopping"
    return f"stopping: running steps of {held} runs may finish within {grace_seconds:g} s; again to leave at once"
