"""``signoff audit list``, ``export`` and ``verify``."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Any, Final

import click
from pydantic_core import from_json, to_json

from signoff.cli.exits import CommandFailed, ExitCode
from signoff.cli.output import Output
from signoff.cli.target import on_client
from signoff.cli.wording import brief, moment, whence
from signoff.client import AsyncClient
from signoff.people.audit import AT_ONCE, verify
from signoff.records import AuditEvent, Seal
from signoff.wire import to_wire

LAST_SEQ: Final = 2**63 - 1
"""The largest seq that a store can have."""


class HeadOption(click.ParamType[tuple[int, str]]):
    """An argument such as ``41:9f86d0...``: an event's seq and its hash."""

    name = "head"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, str]:
        match = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", value)
        if match is None:
            self.fail(f"{value!r} is no SEQ:HASH as `signoff audit verify` prints it", param, ctx)
        return int(match[1]), match[2]


@click.group()
def audit() -> None:
    """What happened to questions: asked, answered, refused, delegated, reminded."""


@audit.command("list")
@click.option("--question", "question_id", help="Only this question's.")
@click.option("--run", "run_id", help="Only what questions of this run went through.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--after", help="Where the page before ended.")
@on_client
async def list_events(client: AsyncClient, out: Output, after: str | None, limit: int, **which: Any) -> None:
    """List events in the order in which they happened."""
    page = await client.inbox.history(**which, after=after, limit=limit)
    if out.as_json:
        out.object({"items": [to_wire(event) for event in page.items], "next": page.next})
        return
    rows = [
        (
            moment(event.at),
            event.kind.value,
            event.question_id,
            event.by or "",
            whence(event.origin),
            brief(event.details),
        )
        for event in page.items
    ]
    out.table(("AT", "WHAT", "QUESTION", "BY", "FROM", "DETAILS"), rows, "nothing has happened")
    if page.next:
        out.note(f"there are more: --after {page.next}")


@audit.command()
@click.option("--after", type=click.IntRange(-1, LAST_SEQ), default=-1, help="Only events after this seq.")
@on_client
async def export(client: AsyncClient, out: Output, after: int) -> None:
    """Print all sealed events as JSON lines, with their hashes."""
    async for seal, event in _chain(client, after):
        line = {**asdict(seal), "event": None if event is None else to_wire(event)}
        out.object(from_json(to_json(line)))


@audit.command("verify")
@click.option("--expect", type=HeadOption(), metavar="SEQ:HASH", help="What it printed some time ago.")
@on_client
async def verify_chain(client: AsyncClient, out: Output, expect: tuple[int, str] | None) -> None:
    """Look whether an event was changed or removed since it was sealed, and print SEQ:HASH of the last one.

    Keep what it prints somewhere else: with --expect it shows that the trail up to there is the same, and that its end
    was not cut off. Events are sealed within seconds, while a server or a worker runs.
    """
    verdict = await verify(client.backend, expected=expect)
    if verdict.problems:
        raise CommandFailed(ExitCode.FAILED, verdict.problems[0], events=verdict.events)
    head = f"{verdict.events - 1}:{verdict.head}" if verdict.events else None
    if out.as_json:
        out.object({"events": verdict.events, "head": head, "unchecked": verdict.unchecked})
    else:
        out.line(f"{verdict.events} events, none changed or removed")
        if verdict.unchecked:
            out.note(
                f"{verdict.unchecked} of them are not shown whole here, so whether they were changed is not known: "
                "verify the database itself, with --store"
            )
        if head is not None:
            out.line(head)


async def _chain(client: AsyncClient, after: int) -> AsyncGenerator[tuple[Seal, AuditEvent | None]]:
    while links := await client.backend.read_chain(after=after, limit=AT_ONCE):
        for link in links:
            yield link
        after = links[-1][0].seq
