"""``signoff schedules list``, ``create``, ``pause``, ``resume`` and ``delete``."""

from __future__ import annotations

import time
from typing import Any

import click

from signoff.cli.formatting import ago
from signoff.cli.output import Output
from signoff.cli.paging import page_options, print_page
from signoff.cli.start_arguments import check_arguments
from signoff.cli.target import on_client
from signoff.cli.values import JsonObject, JsonValue, check_names
from signoff.client.async_client import AsyncClient
from signoff.client.unserved_runs import name_unserved_workflow
from signoff.records import CatchUp, Schedule
from signoff.wire.records import to_wire

SCHEDULE_OPTIONS = frozenset({"cron", "timezone", "catch_up", "group", "priority"})  # of AsyncSchedules.put


@click.group()
def schedules() -> None:
    """Schedules: workflows that are started repeatedly."""


@schedules.command("list")
@page_options
@on_client
async def list_schedules(client: AsyncClient, out: Output, limit: int, after: str | None) -> None:
    """List schedules with their next start."""
    page = await client.schedules.list(after=after, limit=limit)
    columns = ("SCHEDULE", "WORKFLOW", "CRON", "ZONE", "NEXT", "LAST RUN")
    print_page(out, page, columns, _row, "no schedules")


@schedules.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@click.argument("workflow")
@click.option("--cron", required=True, help="Minute, hour, day, month, weekday: '0 9 * * MON-FRI'.")
@click.option("--timezone", default="UTC", show_default=True, help="The time zone, such as Europe/Berlin.")
@click.option(
    "--catch-up",
    type=click.Choice([each.value for each in CatchUp]),
    default=CatchUp.LATEST.value,
    show_default=True,
    help="Which missed times start a run after a downtime.",
)
@click.option("--arg", "args", multiple=True, type=JsonValue(), help="An argument; repeat for more.")
@click.option("--kwargs", type=JsonObject(), default={}, help="Arguments by name, as an object.")
@click.option("--group", help="The group whose workers run it.  [default: default]")
@click.option("--priority", type=int, default=0, help="Higher priorities are claimed first.  [default: 0]")
@on_client
async def create(
    client: AsyncClient,
    out: Output,
    schedule_id: str,
    workflow: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    **options: Any,
) -> None:
    """Start WORKFLOW at the times of a cron expression. An existing schedule with this id is changed.

    Arguments that do not match the parameters that workers announced are refused.
    """
    check_names(kwargs, SCHEDULE_OPTIONS, "signoff schedules create")
    group = options["group"] or "default"
    await check_arguments(client, workflow, group, args, kwargs)
    schedule = await client.schedules.put(schedule_id, workflow, *args, **options, **kwargs)
    if (note := await name_unserved_workflow(client.backend, schedule.workflow, schedule.group)) is not None:
        out.note(note)
    _tell(out, schedule)


@schedules.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@on_client
async def pause(client: AsyncClient, out: Output, schedule_id: str) -> None:
    """Pause SCHEDULE: it starts no more runs."""
    _tell(out, await client.schedules.pause(schedule_id))


@schedules.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@on_client
async def resume(client: AsyncClient, out: Output, schedule_id: str) -> None:
    """Resume a paused SCHEDULE at its next time."""
    _tell(out, await client.schedules.resume(schedule_id))


@schedules.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@on_client
async def delete(client: AsyncClient, out: Output, schedule_id: str) -> None:
    """Delete SCHEDULE. Its runs stay."""
    await client.schedules.delete(schedule_id)
    if out.as_json:
        out.object({"id": schedule_id})
    else:
        out.line(f"schedule {schedule_id} is deleted")


def _tell(out: Output, schedule: Schedule) -> None:
    if out.as_json:
        out.object(to_wire(schedule))
    elif schedule.is_paused:
        out.line(f"schedule {schedule.id} is paused")
    else:
        out.line(f"schedule {schedule.id} fires {ago(schedule.next_at, time.time())}")


def _row(schedule: Schedule, now: float) -> tuple[str, ...]:
    following = "paused" if schedule.is_paused else ago(schedule.next_at, now)
    return (
        schedule.id,
        schedule.workflow,
        schedule.cron,
        schedule.timezone,
        following,
        schedule.last_run_id or "",
    )
