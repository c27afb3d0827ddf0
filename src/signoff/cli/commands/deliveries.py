"""``signoff deliveries list`` and ``redeliver``."""

from __future__ import annotations

import click

from signoff.cli.formatting import ago
from signoff.cli.output import Output
from signoff.cli.paging import page_options, print_page
from signoff.cli.target import on_client
from signoff.client.async_client import AsyncClient
from signoff.records.deliveries import Delivery, DeliveryState
from signoff.wire.records import to_wire


@click.group()
def deliveries() -> None:
    """List notification deliveries, and send them again."""


@deliveries.command("list")
@click.option(
    "--state",
    type=click.Choice([each.value for each in DeliveryState]),
    help="Only this state.",
)
@click.option("--channel", help="Only deliveries of this channel.")
@click.option("--question", "question_id", help="Only deliveries about this question.")
@page_options
@on_client
async def list_deliveries(
    client: AsyncClient,
    out: Output,
    state: str | None,
    channel: str | None,
    question_id: str | None,
    limit: int,
    after: str | None,
) -> None:
    """List deliveries, newest first. --state dead shows those whose attempts all failed."""
    page = await client.notifications.list(
        state=state, channel=channel, question_id=question_id, after=after, limit=limit
    )
    columns = ("DELIVERY", "CHANNEL", "TO", "EVENT", "QUESTION", "STATE", "ATTEMPTS", "NEXT", "ERROR")
    print_page(out, page, columns, _row, "no deliveries")


@deliveries.command()
@click.argument("delivery_id", metavar="DELIVERY")
@on_client
async def redeliver(client: AsyncClient, out: Output, delivery_id: str) -> None:
    """Send DELIVERY, which has finished, again."""
    delivery = await client.notifications.redeliver(delivery_id)
    if out.as_json:
        out.object(to_wire(delivery))
    else:
        out.line(f"delivery {delivery.id} of channel {delivery.channel} is sent again")


def _row(delivery: Delivery, now: float) -> tuple[str, ...]:
    return (
        delivery.id,
        delivery.channel,
        delivery.recipient,
        delivery.kind.value,
        delivery.question_id,
        delivery.state.value,
        str(delivery.attempts),
        "" if delivery.due_at is None else ago(delivery.due_at, now),
        delivery.error or "",
    )
