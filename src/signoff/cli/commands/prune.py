"""``signoff prune``."""

from __future__ import annotations

from datetime import timedelta

import click

from signoff.cli.output import Output
from signoff.cli.target import on_client
from signoff.cli.values import Number
from signoff.client.async_client import AsyncClient


@click.command()
@click.option(
    "--older-than",
    "days",
    type=Number(min=0),
    required=True,
    metavar="DAYS",
    help="The minimum age of ended runs, in days.",
)
@on_client
async def prune(client: AsyncClient, out: Output, days: float) -> None:
    """Delete runs that ended more than DAYS ago, with their journals and promises.

    Runs that failed because of their code are kept: retry or cancel them. This also deletes settled promises without
    a run, links, keys and logins that expired or were revoked that long ago, and finished notifications. Workflows are
    deleted if no worker has announced them for that long, and for at least a week.
    """
    try:
        older_than = timedelta(days=days)
    except OverflowError:
        raise click.BadParameter(
            f"{days:g} days is more than a timedelta can hold", param_hint="--older-than"
        ) from None
    deleted = await client.prune(older_than)
    if out.as_json:
        out.object({"deleted": deleted})
    else:
        out.line(f"{deleted} runs deleted" if deleted != 1 else "1 run deleted")
