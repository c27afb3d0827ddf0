"""``signoff workflows``."""

from __future__ import annotations

import click

from signoff.cli.formatting import ago, one_line
from signoff.cli.output import Output
from signoff.cli.paging import page_options, print_page
from signoff.cli.target import on_client
from signoff.client.async_client import AsyncClient
from signoff.records import WorkflowInfo


@click.command()
@click.option("--name", help="Only workflows with this name.")
@click.option("--group", help="Only workflows that workers of this group serve.")
@page_options
@on_client
async def workflows(
    client: AsyncClient, out: Output, name: str | None, group: str | None, limit: int, after: str | None
) -> None:
    """List the workflows that workers last announced. --json includes their parameters, as a JSON Schema."""
    page = await client.workflows.list(name=name, group=group, limit=limit, after=after)
    columns = ("WORKFLOW", "VERSION", "GROUP", "SEEN", "ABOUT")
    print_page(out, page, columns, _row, "no workflows: no worker has started yet")


def _row(workflow: WorkflowInfo, now: float) -> tuple[str, ...]:
    seen = "never" if workflow.seen_at is None else ago(min(workflow.seen_at, now), now)
    version = workflow.version if workflow.is_current else f"{workflow.version} (old)"
    return (
        one_line(workflow.name),
        one_line(version),
        one_line(workflow.group),
        seen,
        one_line(workflow.description or ""),
    )
