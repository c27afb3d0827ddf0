"""``signoff workflows``."""

from __future__ import annotations

import shlex
import time

import click

from signoff.cli.formatting import ago, one_line
from signoff.cli.output import Output
from signoff.cli.target import on_client
from signoff.client.async_client import AsyncClient
from signoff.records import WorkflowInfo
from signoff.wire.records import to_wire


@click.command()
@click.option("--name", help="Only workflows with this name.")
@click.option("--group", help="Only workflows that workers of this group serve.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Maximum number of items."
)
@click.option("--after", help="The end of the previous page.")
@on_client
async def workflows(
    client: AsyncClient, out: Output, name: str | None, group: str | None, limit: int, after: str | None
) -> None:
    """List the workflows that workers last announced. --json includes their parameters, as a JSON Schema."""
    page = await client.workflows.list(name=name, group=group, limit=limit, after=after)
    if out.as_json:
        out.object({"items": [to_wire(each) for each in page.items], "next": page.next})
        return
    now = time.time()
    rows = [_row(each, now) for each in page.items]
    out.table(
        ("WORKFLOW", "VERSION", "GROUP", "SEEN", "ABOUT"), rows, "no workflows: no worker has started yet"
    )
    if page.next:
        out.note(f"there are more: --after {shlex.quote(page.next)}")


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
