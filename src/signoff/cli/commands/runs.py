"""``signoff start``, ``runs``, ``signal``, ``cancel``, ``suspend``, ``resume`` and ``retry``."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click

from signoff.cli.exit_codes import CommandFailed, ExitCode, run_error
from signoff.cli.formatting import ago, duration, one_line
from signoff.cli.output import Output
from signoff.cli.paging import page_options, print_page
from signoff.cli.start_arguments import check_arguments
from signoff.cli.target import Target, connect, default_target, json_option, on_client, place_options
from signoff.cli.values import JsonObject, JsonValue, Moment, Number, check_names, login_name
from signoff.client.async_client import AsyncClient
from signoff.client.unserved_runs import name_unserved
from signoff.records import CallKind, EntryKind, Run, RunState
from signoff.records.paging import RunFilter
from signoff.records.start_options import LONGEST_DELAY
from signoff.wire.records import to_wire

START_OPTIONS = frozenset(
    {"id", "group", "timeout_seconds", "priority", "start_at", "delay_seconds", "started_by", "session_id"}
)  # of AsyncClient.start
_STATES = [state.value for state in RunState]


@click.command()
@click.argument("workflow")
@click.option("--arg", "args", multiple=True, type=JsonValue(), help="An argument; repeat for more.")
@click.option("--kwargs", type=JsonObject(), default={}, help="Arguments by name, as an object.")
@click.option("--id", "run_id", help="The run's id. A repeated start with the same id has no effect.")
@click.option("--group", help="The group whose workers run it.  [default: default]")
@click.option("--priority", type=int, default=0, help="Higher priorities are claimed first.  [default: 0]")
@click.option(
    "--delay", "delay_seconds", type=Number(min=0, max=LONGEST_DELAY), help="Seconds until it starts."
)
@click.option(
    "--start-at", type=Moment(), help="When it starts: 2026-03-01T09:00, local time or with a zone."
)
@click.option(
    "--started-by",
    metavar="USER",
    help="The requester, who may not answer four-eyes questions.",
)
@click.option(
    "--session",
    "session_id",
    help="The session. The run waits until the session's earlier runs have ended.",
)
@click.option("--wait", is_flag=True, help="Wait for the end and print the result.")
@place_options
@json_option
def start(target: Target | None, out: Output, wait: bool, group: str | None, **new: Any) -> None:
    """Start a run of WORKFLOW, by its name."""

    async def started() -> None:
        where = target or default_target()
        async with connect(where, group=group, may_create=True) as client:
            await _start(client, out, wait=wait, group=group or "default", **new)

    asyncio.run(started())


async def _start(
    client: AsyncClient,
    out: Output,
    workflow: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    run_id: str | None,
    *,
    wait: bool,
    group: str,
    **options: Any,
) -> None:
    check_names(kwargs, START_OPTIONS, "signoff start")
    await check_arguments(client, workflow, group, args, kwargs)
    handle = await client.start(workflow, *args, id=run_id, **options, **kwargs)
    if (note := await name_unserved(client.backend, await client.backend.get_run(handle.id))) is not None:
        out.note(note)
    if wait:
        await _wait_for_end(client, out, handle.id)
    elif out.as_json:
        out.object(to_wire(await client.backend.get_run(handle.id)))
    else:
        out.line(handle.id)


async def _wait_for_end(client: AsyncClient, out: Output, run_id: str) -> None:
    out.note(f"run {run_id} is started; it continues if you stop waiting")
    async for entry in client.backend.follow(run_id):
        if entry.kind is EntryKind.OPENED and entry.call is CallKind.QUESTION:
            out.note(f"it waits for a person: signoff answer {entry.fact('id')}")
    run = await client.backend.get_run(run_id)
    if out.as_json:
        out.object(to_wire(run))
    elif run.state is RunState.SUCCEEDED:
        out.line(run.result or "null")
    if run.state is not RunState.SUCCEEDED:
        raise CommandFailed(ExitCode.FAILED, ending_of(run), run_id=run.id, state=run.state.value)


def ending_of(run: Run) -> str:
    """Return one line on how a run ended that did not succeed."""
    type_name, message = run_error(run.error)
    kept = f"; fix the code, then: signoff retry {run.id}" if run.retryable else ""
    return one_line(f"run {run.id} {run.state}: {type_name}: {message}", 500) + kept


@click.command()
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Repeat for more.")
@click.option("--workflow", help="Only runs of this workflow.")
@click.option("--group", help="Only runs of this group.")
@click.option("--suspended", is_flag=True, help="Only runs that wait for an operator.")
@page_options
@on_client
async def runs(
    client: AsyncClient,
    out: Output,
    states: tuple[str, ...],
    workflow: str | None,
    group: str | None,
    suspended: bool,
    limit: int,
    after: str | None,
) -> None:
    """List runs, newest first."""
    chosen = frozenset(RunState(state) for state in states) or None
    which = RunFilter(chosen, workflow, group, suspended=suspended or None)
    page = await client.backend.list_runs(which, after=after, limit=limit)
    print_page(out, page, ("RUN", "WORKFLOW", "STATE", "CREATED", "TOOK", ""), _row, "no runs")


def _row(run: Run, now: float) -> tuple[str, ...]:
    return run.id, run.workflow, run.state.value, ago(run.created_at, now), _took(run), _remark(run)


def _took(run: Run) -> str:
    return duration(run.ended_at - run.created_at) if run.ended_at else ""


def _remark(run: Run) -> str:
    if run.is_suspended:
        return one_line(f"suspended: {run.suspended_reason or 'no reason given'}", 200)
    if run.awaits_turn:
        return f"awaits its turn in {one_line(run.session_id or '')}"
    if run.is_delayed:
        return f"starts {ago(run.start_at or 0.0, time.time())}"
    if run.state is not RunState.FAILED:
        return ""
    if run.left_out and "error" in run.left_out:
        return f"an error of {run.left_out['error']:,} bytes: signoff show {one_line(run.id)}"
    type_name, message = run_error(run.error)
    return f"{type_name}: {message}"


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@click.argument("value", type=JsonValue(), default=None, metavar="[JSON]")
@on_client
async def signal(client: AsyncClient, out: Output, run_id: str, name: str, value: Any) -> None:
    """Send RUN the signal NAME with a value. It is kept until the run waits for it."""
    await client.signal(run_id, name, value, by=login_name())
    if out.as_json:
        out.object({"run_id": run_id, "name": name, "value": value})
    else:
        out.line(f"signal {name} is sent to run {run_id}")


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--reason", help="The reason, recorded in the run's journal.")
@on_client
async def cancel(client: AsyncClient, out: Output, run_id: str, reason: str | None) -> None:
    """Cancel RUN. Its code may clean up first."""
    run = await client.backend.cancel(run_id, reason=reason, by=login_name())
    if out.as_json:
        out.object(to_wire(run))
    elif run.state.is_final:
        out.line(f"run {run_id} is {run.state}")
    else:
        out.line(f"cancellation of run {run_id} is requested; it is still {run.state}")


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--reason", help="The reason, recorded in the audit trail.")
@click.option("--by", metavar="USER", help="The user, for the audit trail.  [default: your login name]")
@on_client
async def suspend(client: AsyncClient, out: Output, run_id: str, reason: str | None, by: str | None) -> None:
    """Suspend RUN until `signoff resume`. Running steps finish first; no new steps start."""
    run = await client.suspend(run_id, reason=reason, by=by or login_name())
    if out.as_json:
        out.object(to_wire(run))
    elif run.state is RunState.RUNNING:
        out.line(f"run {run_id} will be suspended when its worker releases it")
    else:
        out.line(f"run {run_id} is suspended; later: signoff resume {run_id}")


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--by", metavar="USER", help="The user, for the audit trail.  [default: your login name]")
@on_client
async def resume(client: AsyncClient, out: Output, run_id: str, by: str | None) -> None:
    """Resume a suspended RUN."""
    run = await client.resume(run_id, by=by or login_name())
    if out.as_json:
        out.object(to_wire(run))
    else:
        out.line(f"run {run_id} is {run.state}")


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--reason", help="The reason, which callers that wait for the run receive.")
@click.option("--by", metavar="USER", help="The user, for the audit trail.  [default: your login name]")
@on_client
async def terminate(
    client: AsyncClient, out: Output, run_id: str, reason: str | None, by: str | None
) -> None:
    """Terminate RUN at once, without running its code. `signoff cancel` lets it clean up."""
    run = await client.backend.terminate(run_id, reason=reason, by=by or login_name())
    if out.as_json:
        out.object(to_wire(run))
    else:
        out.line(f"run {run_id} is {run.state}")


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--reason", help="The reason, recorded in the audit trail.")
@click.option("--by", metavar="USER", help="The user, for the audit trail.  [default: your login name]")
@on_client
async def retry(client: AsyncClient, out: Output, run_id: str, reason: str | None, by: str | None) -> None:
    """Retry RUN from where it failed, once the cause is fixed."""
    run = await client.backend.retry(run_id, reason=reason, by=by or login_name())
    if out.as_json:
        out.object(to_wire(run))
    else:
        out.line(f"run {run_id} is {run.state}")
