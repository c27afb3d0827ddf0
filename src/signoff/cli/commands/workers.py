"""``signoff workers``."""

from __future__ import annotations

import time

import click

from signoff.cli.formatting import ago
from signoff.cli.output import Output
from signoff.cli.target import on_client
from signoff.client.async_client import AsyncClient
from signoff.records import WorkerInfo
from signoff.wire.records import to_wire


@click.command()
@on_client
async def workers(client: AsyncClient, out: Output) -> None:
    """List the workers of the database. Workers that died stay listed for a minute."""
    found = await client.workers()
    if out.as_json:
        out.object({"items": [to_wire(worker) for worker in found], "next": None})
        return
    now = time.time()
    rows = [_row(worker, now) for worker in found]
    out.table(
        ("WORKER", "HOST", "PID", "GROUP", "RUNS", "THREADS", "SEEN", "SIGNOFF", "PYTHON", "BUILD"),
        rows,
        "no workers",
    )


def _row(worker: WorkerInfo, now: float) -> tuple[str, ...]:
    node = worker.host.partition("/")[0]
    seen = "never" if worker.seen_at is None else ago(min(worker.seen_at, now), now)
    of = (worker.signoff_version, worker.python_version, worker.build)
    return (
        worker.id,
        node,
        str(worker.pid),
        worker.group,
        str(worker.held),
        _threads(worker),
        seen,
        *(each or "-" for each in of),
    )


def _threads(worker: WorkerInfo) -> str:
    if worker.threads is None:
        return "-"
    waiting = f" ({worker.threads_waiting} wait)" if worker.threads_waiting else ""
    return f"{worker.threads_busy}/{worker.threads}{waiting}"
