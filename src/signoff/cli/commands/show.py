"""``signoff show``: the timeline of a run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import fields
from typing import Any, cast

import click

from signoff.cli.exit_codes import run_error
from signoff.cli.formatting import ago, brief, duration, moment, one_line, read
from signoff.cli.output import Output
from signoff.cli.target import on_client
from signoff.cli.timeline import Item, Items
from signoff.cli.timeline_text import lines_of
from signoff.client.async_client import AsyncClient
from signoff.codec.strict_json import read_object
from signoff.records import Origin, Run, RunState
from signoff.records.origins import facts_of
from signoff.records.timeline import TimelineChange, TimelineMark
from signoff.wire.records import to_wire


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--follow", is_flag=True, help="Follow the run until it ends.")
@on_client
async def show(client: AsyncClient, out: Output, run_id: str, follow: bool) -> None:
    """Show the timeline of RUN."""
    if follow and out.as_json:
        await _follow_as_json(client, out, run_id)
        return
    run = await client.backend.get_run(run_id)
    items = Items()
    is_current = False
    async with aclosing(client.backend.timeline(run_id, follow=follow)) as changes:
        async for change in changes:
            if change is TimelineMark.CURRENT:
                is_current = True
                if not out.as_json:
                    _print_head(out, run)
                    _print_items(out, run, items)
            elif isinstance(change, TimelineChange):
                item, is_news = items.take(change)
                if is_current and is_news and item.state != "abandoned":
                    _print_items(out, run, [item])
    if out.as_json:
        out.object({"run": to_wire(run), "timeline": [_item(item) for item in items]})
        return
    if follow and not run.state.is_final:
        run = await client.backend.get_run(run_id)
    _print_end(out, run)


async def _follow_as_json(client: AsyncClient, out: Output, run_id: str) -> None:
    async for entry in client.backend.follow(run_id):
        out.object(to_wire(entry))
    out.object(to_wire(await client.backend.get_run(run_id)))


def _item(item: Item) -> dict[str, Any]:
    """Return an item for machines: fields without a value are left out, and JSON text is parsed."""
    written: dict[str, Any] = {}
    for field in fields(item):
        value = getattr(item, field.name)
        if value is None or field.name == "attempts":
            continue
        written[field.name] = _as_json(value) if field.name in ("value", "error", "origin") else value
    if item.attempts:
        written["attempts"] = [
            {
                "number": attempt.number,
                "at": attempt.at,
                "next_at": attempt.next_at,
                "error": read(attempt.error),
            }
            for attempt in item.attempts
        ]
    return written


def _as_json(value: str | Origin) -> Any:
    return facts_of(value) if isinstance(value, Origin) else read(value)


def _print_head(out: Output, run: Run) -> None:
    given = _given(run)
    out.line(f"{run.id}  {run.state}", "bold")
    out.line(one_line(f"{run.workflow}({', '.join(given)})", 500))
    parent = f", child of {run.parent_id}" if run.parent_id else ""
    deadline = f", deadline {moment(run.deadline_at)}" if run.deadline_at else ""
    starts = f", starts {moment(run.start_at or 0.0)}" if run.is_delayed and not run.awaits_turn else ""
    place = "" if run.session_id is None else f", {run.position} of session {one_line(run.session_id)}"
    turn = ", awaits its turn" if run.awaits_turn else ""
    created = f"{moment(run.created_at)} ({ago(run.created_at, time.time())})"
    out.line(f"created {created} in group {run.group}{parent}{place}{deadline}{starts}{turn}")
    if run.is_suspended:
        by = run.suspended_by or "Signoff"
        why = f": {run.suspended_reason}" if run.suspended_reason else ""
        since = moment(run.suspended_at or 0.0)
        out.line(one_line(f"suspended by {by} at {since}{why}; signoff resume {run.id}", 500), "bold")
    out.line("")


def _given(run: Run) -> list[str]:
    """Return the arguments of a run as in a Python call."""
    arguments = read_object(run.arguments)
    args, named = arguments.get("args", []), arguments.get("kwargs", {})
    if not arguments or not isinstance(args, list) or not isinstance(named, dict):
        return [brief(run.arguments)]
    given = [_argument(value) for value in cast("list[Any]", args)]
    return [*given, *(f"{name}={_argument(value)}" for name, value in cast("dict[str, Any]", named).items())]


def _argument(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print_items(out: Output, run: Run, items: Iterable[Item]) -> None:
    now = time.time()
    for item in items:
        for line in lines_of(item, run.created_at, now):
            out.line(line.text, line.style)


def _print_end(out: Output, run: Run) -> None:
    if not run.state.is_final:
        return
    took = duration((run.ended_at or time.time()) - run.created_at)
    out.line("")
    if run.state is RunState.SUCCEEDED:
        out.line(f"succeeded after {took}", "bold green")
        out.line(json.dumps(read(run.result), ensure_ascii=False, indent=2))
        return
    type_name, message = run_error(run.error)
    out.line(f"{run.state} after {took}: {one_line(f'{type_name}: {message}', 1000)}", "bold red")
    if run.retryable:
        out.line(f"Everything is kept. Fix the code, then: signoff retry {run.id}")
