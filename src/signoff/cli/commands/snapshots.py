"""``signoff save`` and ``load``: runs as files, to continue in another store."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, cast

import click

from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.output import Output
from signoff.cli.target import Target, connect, default_target, json_option, on_client, place_options
from signoff.cli.values import login_name
from signoff.client.async_client import AsyncClient
from signoff.codec.strict_json import read_exactly
from signoff.wire.records import to_wire


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write it to this new file, which only you may read, instead of printing it.",
)
@click.option("--by", metavar="USER", help="The user, for the audit trail.  [default: your login name]")
@on_client
async def save(client: AsyncClient, out: Output, run_id: str, file: Path | None, by: str | None) -> None:
    """Save RUN as JSON, for `signoff load` in another store. It also continues in its own store.

    The file holds everything unencrypted: arguments, answers, results. Protect it like the database.
    """
    snapshot = await client.save(run_id, by=by or login_name())
    if file is None:
        out.object(snapshot)
        return
    _write(file, json.dumps(snapshot, ensure_ascii=False, indent=1) + "\n")
    if out.as_json:
        out.object({"file": str(file), "digest": snapshot["digest"]})
    else:
        out.line(f"{run_id} is saved in {file}; elsewhere: signoff load {file}")


def _write(file: Path, text: str) -> None:
    """Write a file that only its owner may read, completely or not at all."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandFailed(ExitCode.CONFLICT, f"{file} exists already; nothing was written") from None
    except OSError as error:
        raise CommandFailed(ExitCode.USAGE, f"{file} cannot be written: {error.strerror}") from None
    try:
        with open(descriptor, "w", encoding="utf-8") as written:
            written.write(text)
    except OSError as error:
        file.unlink(missing_ok=True)
        raise CommandFailed(ExitCode.UNAVAILABLE, f"{file} cannot be written: {error.strerror}") from None


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--by", metavar="USER", help="The user, for the audit trail.  [default: your login name]")
@place_options
@json_option
def load(file: Any, by: str | None, target: Target | None, out: Output) -> None:
    """Load the run in FILE, which `signoff save` wrote, and continue it here. `-` reads the standard input.

    A store that already has the run refuses it.
    """
    try:
        snapshot = read_exactly(file.read())
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file.name} is not a snapshot: {error}") from None
    if not isinstance(snapshot, dict):
        raise click.UsageError(f"{file.name} is not a snapshot: it is not a JSON object")

    async def loaded() -> None:
        async with connect(target or default_target(), may_create=True) as client:
            handle = await client.load(cast("dict[str, Any]", snapshot), by=by or login_name())
            run = await client.backend.get_run(handle.id)
        if out.as_json:
            out.object(to_wire(run))
        else:
            out.line(f"{run.id} continues here: {run.state.value}")

    asyncio.run(loaded())
