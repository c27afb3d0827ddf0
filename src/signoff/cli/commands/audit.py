"""``signoff audit list``, ``export``, ``verify`` and ``restart``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Any, Final

import click
from pydantic_core import from_json, to_json

from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.formatting import brief, iso, moment, whence
from signoff.cli.output import Output
from signoff.cli.paging import page_options, print_page
from signoff.cli.target import (
    DEFAULT_STORE,
    Target,
    database,
    default_target,
    json_option,
    named_target,
    on_client,
    place_options,
)
from signoff.client.async_client import AsyncClient
from signoff.people.audit.anchors.anchoring import restart
from signoff.people.audit.anchors.checkpoint import LONGEST_REASON, Checkpoint
from signoff.people.audit.anchors.config import ANCHORS, Anchors, anchors_of
from signoff.people.audit.anchors.verification import AnchorView, Examination, examine
from signoff.people.audit.hash_chain import AT_ONCE
from signoff.records import AuditEvent, Seal
from signoff.wire.records import to_wire

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
            self.fail(f"{value!r} is not a valid SEQ:HASH as `signoff audit verify` prints it", param, ctx)
        return int(match[1]), match[2]


@click.group()
def audit() -> None:
    """The audit trail of questions: asked, answered, refused, delegated, reminded."""


@audit.command("list")
@click.option("--question", "question_id", help="Only events of this question.")
@click.option("--run", "run_id", help="Only events of this run's questions.")
@page_options
@on_client
async def list_events(client: AsyncClient, out: Output, after: str | None, limit: int, **which: Any) -> None:
    """List events, oldest first."""
    page = await client.inbox.history(**which, after=after, limit=limit)
    print_page(out, page, ("AT", "WHAT", "QUESTION", "BY", "FROM", "DETAILS"), _row, "no events")


def _row(event: AuditEvent, _now: float) -> tuple[str, ...]:
    return (
        moment(event.at),
        event.kind.value,
        event.question_id,
        event.by or "",
        whence(event.origin),
        brief(event.details),
    )


@audit.command()
@click.option("--after", type=click.IntRange(-1, LAST_SEQ), default=-1, help="Only events after this seq.")
@on_client
async def export(client: AsyncClient, out: Output, after: int) -> None:
    """Print all sealed events as JSON lines, with their hashes."""
    async for seal, event in _chain(client, after):
        line = {**asdict(seal), "event": None if event is None else to_wire(event)}
        out.object(from_json(to_json(line)))


@audit.command("verify")
@click.option(
    "--expect", type=HeadOption(), metavar="SEQ:HASH", help="The SEQ:HASH that an earlier `verify` printed."
)
@click.option(
    "--namespace",
    default="default",
    show_default=True,
    help="The namespace of the trail; through a server, the namespace of the key.",
)
@click.option("--strict", is_flag=True, help="Also fail if something could not be checked.")
@place_options
@json_option
def verify_chain(
    expect: tuple[int, str] | None, namespace: str, strict: bool, target: Target | None, out: Output
) -> None:
    """Check whether an event was changed or removed since it was sealed, and print SEQ:HASH of the last one.

    The trail alone proves only that its events follow one another. A truncated or wholly rewritten trail is detected
    only by comparison with records kept elsewhere. These are the anchors in SIGNOFF_AUDIT_ANCHORS, or an earlier
    output of this command, given with --expect. The command reports what it could not check. It exits with 1 if
    something is wrong, and with 5 if an anchor cannot be read. Events are sealed within seconds, and anchored within a
    minute, while a server or a worker runs.
    """
    anchors = anchors_of()
    found = asyncio.run(_examine(target or default_target(), namespace, anchors, expect))
    _report(out, found, expect, strict=strict)


async def _examine(
    target: Target, namespace: str, anchors: Anchors, expect: tuple[int, str] | None
) -> Examination:
    try:
        if target.url is None:
            async with database(target.store or DEFAULT_STORE) as opened:
                store = opened.within(namespace)
                return await examine(store, namespace, anchors, store=store, expected=expect)
        async with AsyncClient(target.url) as client:
            await _check_namespace(client, namespace)
            return await examine(client.backend, namespace, anchors, expected=expect)
    finally:
        await anchors.close()


async def _check_namespace(client: AsyncClient, namespace: str) -> None:
    """Raise CommandFailed if the server shows another namespace's trail."""
    for _, event in await client.backend.read_chain(limit=1):
        if event is not None and event.namespace != namespace:
            raise CommandFailed(
                ExitCode.USAGE,
                f"the server shows namespace {event.namespace}: give --namespace {event.namespace}",
            )


def _report(out: Output, found: Examination, expect: tuple[int, str] | None, *, strict: bool) -> None:
    verdict = found.verdict
    if verdict.problems:
        raise CommandFailed(
            ExitCode.FAILED,
            verdict.problems[0],
            events=verdict.events,
            problems=list(verdict.problems),
        )
    unverified = list(found.unverified)
    if verdict.unchecked:
        unverified.append(
            f"{verdict.unchecked} events are not shown in full here, so it is unknown whether they were changed: "
            "verify the database itself, with --store"
        )
    head = f"{verdict.events - 1}:{verdict.head}" if verdict.events else None
    if out.as_json:
        out.object(
            {
                "events": verdict.events,
                "head": head,
                "unchecked": verdict.unchecked,
                "anchored": found.anchored,
                "anchors": [_look_of(look) for look in found.looks],
                "unverified": [*unverified, *found.unavailable],
            }
        )
    else:
        out.line(f"{verdict.events} events, each follows from the one before it")
        for look in found.looks:
            for each in look.restarts:
                out.line(
                    f"the trail was restarted at event {each.seq} on {moment(each.at)}: {each.restart} "
                    f"({look.anchor})"
                )
            if look.seq is not None and look.at is not None:
                later = verdict.events - 1 - look.seq
                more = f"; {later} later ones are not anchored yet" if later else ""
                out.line(f"up to event {look.seq} as anchored at {moment(look.at)} in {look.anchor}{more}")
        if expect is not None:
            out.line(f"up to event {expect[0]} as expected")
        if head is not None:
            out.line(head)
        for each in (*unverified, *found.unavailable):
            out.note(f"not checked: {each}", "yellow")
    if found.unavailable:
        raise CommandFailed(ExitCode.UNAVAILABLE, found.unavailable[0], events=verdict.events)
    if strict and unverified:
        raise CommandFailed(ExitCode.FAILED, f"not everything could be checked: {unverified[0]}")


def _look_of(look: AnchorView) -> dict[str, Any]:
    return {
        "anchor": look.anchor,
        "seq": look.seq,
        "at": iso(look.at),
        "restarts": [{"seq": each.seq, "at": iso(each.at), "reason": each.restart} for each in look.restarts],
    }


@audit.command("restart")
@click.option("--namespace", default="default", show_default=True, help="The namespace of the trail.")
@click.option(
    "--reason", required=True, help="The reason that the anchors record, such as: backup of May 1 restored."
)
@click.option("--store", metavar="URL", help="The database. [env: SIGNOFF_STORE]")
@json_option
def restart_trail(namespace: str, reason: str, store: str | None, out: Output) -> None:
    """Record in all anchors that a trail restarts from its current end, for example after a backup was restored.

    The anchors keep their records of later events, and `signoff audit verify` shows when and why the trail was
    restarted.
    """
    reason = reason.strip()
    if not 0 < len(reason) <= LONGEST_REASON:
        raise click.BadParameter(f"give 1 to {LONGEST_REASON} characters", param_hint="--reason")
    target = named_target(None, store) or Target(store=DEFAULT_STORE)
    if target.store is None:
        raise click.UsageError("anchors are restarted by the database: give --store")
    checkpoint = asyncio.run(_restart(target.store, namespace, reason))
    if out.as_json:
        out.object({"namespace": namespace, "seq": checkpoint.seq, "hash": checkpoint.hash, "reason": reason})
    else:
        out.line(f"the trail of namespace {namespace} is restarted at event {checkpoint.seq}")


async def _restart(address: str, namespace: str, reason: str) -> Checkpoint:
    anchors = anchors_of()
    if not anchors.anchors:
        raise click.UsageError(f"there are no anchors: set {ANCHORS}")
    try:
        async with database(address) as opened:
            return await restart(opened.within(namespace), anchors.anchors, reason, origin=anchors.origin)
    finally:
        await anchors.close()


async def _chain(client: AsyncClient, after: int) -> AsyncGenerator[tuple[Seal, AuditEvent | None]]:
    while links := await client.backend.read_chain(after=after, limit=AT_ONCE):
        for link in links:
            yield link
        after = links[-1][0].seq
