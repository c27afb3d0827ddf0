"""``signoff sessions list`` and ``show``."""

from __future__ import annotations

import time

import click

from signoff.cli.formatting import ago, one_line
from signoff.cli.output import Output
from signoff.cli.paging import note_next, page_options, print_page
from signoff.cli.target import on_client
from signoff.client.async_client import AsyncClient
from signoff.records import Run, Session
from signoff.wire.records import to_wire


@click.group()
def sessions() -> None:
    """List sessions, and show the runs of one."""


@sessions.command("list")
@page_options
@on_client
async def list_sessions(client: AsyncClient, out: Output, limit: int, after: str | None) -> None:
    """List sessions, the one with the newest run first."""
    page = await client.sessions.list(limit=limit, after=after)
    print_page(out, page, ("SESSION", "RUNS", "LAST", "ACTIVE"), _session_row, "no sessions")


@sessions.command()
@click.argument("session_id", metavar="SESSION")
@page_options
@on_client
async def show(client: AsyncClient, out: Output, session_id: str, limit: int, after: str | None) -> None:
    """Show the runs of SESSION, newest first, and which one is active."""
    session = await client.sessions.get(session_id)
    page = await client.list(session_id=session_id, limit=limit, after=after)
    if out.as_json:
        runs = {"items": [to_wire(run) for run in page.items], "next": page.next}
        out.object({**to_wire(session), "runs": runs})
        return
    now = time.time()
    header = ("PLACE", "RUN", "WORKFLOW", "STATE", "STARTED")
    rows = [_run_row(run, session, now) for run in page.items]
    out.table(header, rows, "its runs were deleted")
    note_next(out, page)


def _session_row(session: Session, now: float) -> tuple[str, ...]:
    active = session.active_run_id or "-"
    return one_line(session.id), str(session.last_position), ago(session.last_at, now), one_line(active)


def _run_row(run: Run, session: Session, now: float) -> tuple[str, ...]:
    state = "awaits its turn" if run.awaits_turn else run.state.value
    if run.id == session.active_run_id:
        state += ", active"
    return str(run.position), one_line(run.id), one_line(run.workflow), state, ago(run.created_at, now)
