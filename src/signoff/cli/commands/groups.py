"""``signoff groups list``, ``pause``, ``resume`` and ``limit``."""

from __future__ import annotations

import re
from typing import Any

import click

from signoff.cli.formatting import duration
from signoff.cli.output import Output
from signoff.cli.target import on_client
from signoff.client.async_client import AsyncClient
from signoff.records import Group, Rate
from signoff.stores.contract.groups import COUNTED_AT_MOST
from signoff.wire.records import to_wire

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class RateOption(click.ParamType[Rate]):
    """An argument such as ``10/min`` or ``5/30s``."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Rate:
        match = re.fullmatch(r"([1-9]\d{0,8})/(\d{1,12}(?:\.\d{1,9})?)?(s|min|h|d)", value)
        if match is None:
            self.fail(f"{value!r} is not a valid rate, such as 10/min, 5/30s, 100/h or 1000/d", param, ctx)
        count, number, unit = match.groups()
        return Rate(int(count), float(number or 1) * _UNITS[unit])


@click.group()
def groups() -> None:
    """Pause and limit the groups that workers poll."""


@groups.command("list")
@on_client
async def list_groups(client: AsyncClient, out: Output) -> None:
    """List groups with their runs and limits."""
    found = await client.groups.list()
    if out.as_json:
        out.object({"items": [to_wire(group) for group in found], "next": None})
        return
    rows = [
        (group.name, _count(group.ready), _count(group.running), _count(group.paused), _limits(group))
        for group in found
    ]
    out.table(("GROUP", "READY", "RUNNING", "PAUSED", "LIMITS"), rows, "no groups have runs or limits")


@groups.command()
@click.argument("name", metavar="GROUP")
@on_client
async def pause(client: AsyncClient, out: Output, name: str) -> None:
    """Pause GROUP: workers claim no more of its runs. Running runs continue until they pause or end."""
    await client.groups.pause(name)
    await _print(client, out, name, "is paused")


@groups.command()
@click.argument("name", metavar="GROUP")
@on_client
async def resume(client: AsyncClient, out: Output, name: str) -> None:
    """Resume a paused GROUP: workers claim its runs again."""
    await client.groups.resume(name)
    await _print(client, out, name, "is resumed")


@groups.command()
@click.argument("name", metavar="GROUP")
@click.option("--max-running", type=click.IntRange(min=1), help="Maximum number of runs running at once.")
@click.option("--rate", type=RateOption(), help="Maximum rate of starts: 10/min, 5/30s, 100/h.")
@click.option("--none", "no_limits", is_flag=True, help="Remove all limits.")
@on_client
async def limit(
    client: AsyncClient,
    out: Output,
    name: str,
    max_running: int | None,
    rate: Rate | None,
    no_limits: bool,
) -> None:
    """Replace the limits of GROUP. A limit that is not given is removed."""
    if no_limits == (max_running is not None or rate is not None):
        raise click.UsageError("give --max-running, --rate or both; or --none to remove all limits")
    await client.groups.limit(name, max_running=max_running, starts_per=rate)
    await _print(client, out, name, "is limited" if not no_limits else "has no limits")


async def _print(client: AsyncClient, out: Output, name: str, what: str) -> None:
    group = next(group for group in await client.groups.list() if group.name == name)
    if out.as_json:
        out.object(to_wire(group))
        return
    limits = _limits(group)
    out.line(f"group {name} {what}" + (f": {limits}" if limits and not group.is_paused else ""))


def _count(count: int) -> str:
    return f"{count}+" if count == COUNTED_AT_MOST else str(count)


def _limits(group: Group) -> str:
    words = ["paused"] if group.is_paused else []
    if group.max_running is not None:
        words.append(f"at most {group.max_running} running")
    if group.starts_per is not None:
        words.append(f"{group.starts_per.count} starts in {duration(group.starts_per.seconds)}")
    return ", ".join(words)
