"""``signoff resolve`` and ``reject``: settle promises that are not questions."""

from __future__ import annotations

from typing import Any

import click

from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.output import Output
from signoff.cli.target import on_client
from signoff.cli.values import JsonValue, login_name
from signoff.client.async_client import AsyncClient
from signoff.records import Promise, PromiseKind
from signoff.wire.records import to_wire


@click.command()
@click.argument("promise_id", metavar="PROMISE")
@click.argument("value", type=JsonValue(), default=None, metavar="[JSON]")
@on_client
async def resolve(client: AsyncClient, out: Output, promise_id: str, value: Any) -> None:
    """Settle PROMISE with a value."""
    await _check_kind(client, promise_id)
    _tell(out, await client.promises.resolve(promise_id, value, by=login_name()))


@click.command()
@click.argument("promise_id", metavar="PROMISE")
@click.argument("value", type=JsonValue(), default=None, metavar="[JSON]")
@on_client
async def reject(client: AsyncClient, out: Output, promise_id: str, value: Any) -> None:
    """Reject PROMISE with a reason."""
    await _check_kind(client, promise_id)
    _tell(out, await client.promises.reject(promise_id, value, by=login_name()))


async def _check_kind(client: AsyncClient, promise_id: str) -> None:
    """Refuse a question, which takes checked answers only. Raises NotFound."""
    if (await client.promises.get(promise_id)).kind is PromiseKind.QUESTION:
        raise CommandFailed(
            ExitCode.NOT_FOUND,
            f"{promise_id!r} is a question, not a promise; answer it with: signoff answer {promise_id}",
        )


def _tell(out: Output, promise: Promise) -> None:
    if out.as_json:
        out.object(to_wire(promise))
    else:
        out.line(f"promise {promise.id} is {promise.state}")
