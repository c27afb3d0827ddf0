"""``signoff resolve`` and ``reject``: settle promises that are not questions."""

from __future__ import annotations

from typing import Any

import click

from signoff.cli.output import Output
from signoff.cli.target import on_client
from signoff.cli.values import JsonValue, login_name
from signoff.client.async_client import AsyncClient
from signoff.records import Promise
from signoff.wire.records import to_wire


@click.command()
@click.argument("promise_id", metavar="PROMISE")
@click.argument("value", type=JsonValue(), default=None, metavar="[JSON]")
@on_client
async def resolve(client: AsyncClient, out: Output, promise_id: str, value: Any) -> None:
    """Settle PROMISE with a value."""
    _tell(out, await client.promises.resolve(promise_id, value, by=login_name()))


@click.command()
@click.argument("promise_id", metavar="PROMISE")
@click.argument("value", type=JsonValue(), default=None, metavar="[JSON]")
@on_client
async def reject(client: AsyncClient, out: Output, promise_id: str, value: Any) -> None:
    """Reject PROMISE with a reason."""
    _tell(out, await client.promises.reject(promise_id, value, by=login_name()))


def _tell(out: Output, promise: Promise) -> None:
    if out.as_json:
        out.object(to_wire(promise))
    else:
        out.line(f"promise {promise.id} is {promise.state}")
