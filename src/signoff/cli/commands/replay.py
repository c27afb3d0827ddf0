"""``signoff replay`` and ``export``: check recorded journals against the current code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from signoff.app import Signoff
from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.load_app import load_app
from signoff.cli.output import Output
from signoff.cli.target import Target, connect, json_option, on_client, place_options, require_database
from signoff.client.async_client import AsyncClient
from signoff.engine.run import blocking_guard
from signoff.engine.run.trial_replay import Finding, Verdict, check
from signoff.engine.worker.leases import BUSY_SECONDS
from signoff.records import Entry, Run, RunState
from signoff.records.paging import RunFilter
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.store_wrapper import unwrapped
from signoff.wire.records import from_wire, to_wire

_UNFINISHED = frozenset({RunState.READY, RunState.RUNNING, RunState.PAUSED, RunState.FAILED})

Recorded = tuple[Run, Sequence[Entry]]


@click.command()
@click.argument("run_id", metavar="RUN")
@on_client
async def export(client: AsyncClient, out: Output, run_id: str) -> None:
    """Print RUN with its journal as JSON, for `signoff replay --from`."""
    run = await client.backend.get_run(run_id)
    entries = await client.backend.read_journal(run_id)
    out.object({"run": to_wire(run), "journal": [to_wire(entry) for entry in entries]})


@click.command()
@click.argument("address", metavar="MODULE:APP")
@click.argument("run_ids", metavar="[RUN...]", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All unfinished runs of the app's group.")
@click.option("--from", "file", type=click.Path(path_type=Path), help="A file that `signoff export` wrote.")
@place_options
@json_option
def replay(
    address: str, run_ids: Sequence[str], every: bool, file: Path | None, target: Target | None, out: Output
) -> None:
    """Check that recorded runs match the code of MODULE:APP. No step runs, and nothing is written.

    The journals are read from the app's own store, unless --store or --url names another.
    """
    if (bool(run_ids), every, file is not None).count(True) != 1:
        raise click.UsageError("name the runs to check: RUN..., --all, or --from FILE")
    with contextlib.redirect_stdout(
        sys.stderr
    ):  # keeps the output of the user's code apart from the findings
        app = load_app(address)
    asyncio.run(_replay(app, run_ids, file, target, out))


async def _replay(
    app: Signoff, run_ids: Sequence[str], file: Path | None, target: Target | None, out: Output
) -> None:
    found: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
    journals = _read_file(file) if file else _recorded(app, run_ids, target)
    with _interrupting_busy_code():
        async for run, entries in journals:
            with contextlib.redirect_stdout(sys.stderr):
                finding = await check(run, entries, app.registry)
            found[finding.verdict] += 1
            _print(out, finding)
    if not sum(found.values()):
        out.note("no unfinished runs")
    if found[Verdict.DIFFERS]:
        raise CommandFailed(
            ExitCode.FAILED, f"{found[Verdict.DIFFERS]} of {sum(found.values())} runs do not match this code"
        )


async def _recorded(app: Signoff, run_ids: Sequence[str], target: Target | None) -> AsyncIterator[Recorded]:
    async with connect(target or _own(app)) as client:
        async for run in _named(client, run_ids) if run_ids else _unfinished(client, app.group):
            yield run, await client.backend.read_journal(run.id, after=run.first_seq - 1)


def _own(app: Signoff) -> Target:
    if not isinstance(unwrapped(app.store), SqliteStore):
        raise click.UsageError(
            f"the app's store {app.store.location} cannot be opened here; give --store or --url"
        )
    require_database(app.store.location)
    return Target(store=app.store.location)


async def _named(client: AsyncClient, run_ids: Sequence[str]) -> AsyncIterator[Run]:
    for run_id in run_ids:
        yield await client.backend.get_run(run_id)


async def _unfinished(client: AsyncClient, group: str) -> AsyncIterator[Run]:
    after: str | None = None
    while True:
        page = await client.backend.list_runs(RunFilter(_UNFINISHED, group=group), after=after, limit=1000)
        for run in page.items:
            if run.retryable or not run.state.is_final:
                yield await client.backend.get_run(run.id) if run.left_out else run
        after = page.next
        if after is None:
            return


async def _read_file(file: Path) -> AsyncIterator[Recorded]:
    for recorded in _parse(file):
        yield recorded


def _parse(file: Path) -> Iterator[Recorded]:
    """Read exported runs, one per line."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        for line in lines:
            exported: dict[str, Any] = json.loads(line)
            yield from_wire(Run, exported["run"]), [from_wire(Entry, entry) for entry in exported["journal"]]
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise click.UsageError(f"{file} is not what `signoff export` writes: {error!r}") from error


def _print(out: Output, finding: Finding) -> None:
    if out.as_json:
        out.object({name: value for name, value in _facts(finding).items() if value is not None})
        return
    head = f"{finding.run_id}  {finding.workflow}  {finding.verdict}"
    counted = f"{finding.checked} of {finding.entries} entries"
    style = "red" if finding.verdict is Verdict.DIFFERS else None
    if finding.recorded is None:
        out.line(f"{head}: {finding.message or counted}", style)
        return
    out.line(f"{head} at call {finding.n}, after {counted}", style)
    out.line(f"  journal: {finding.recorded}")
    out.line(f"  code:    {finding.issued}{f' at {finding.where}' if finding.where else ''}")


def _facts(finding: Finding) -> dict[str, Any]:
    return {
        "run_id": finding.run_id,
        "workflow": finding.workflow,
        "verdict": finding.verdict.value,
        "entries": finding.entries,
        "checked": finding.checked,
        "n": finding.n,
        "recorded": finding.recorded,
        "issued": finding.issued,
        "where": finding.where,
        "message": finding.message,
    }


@contextmanager
def _interrupting_busy_code() -> Generator[None]:
    """Interrupt code that loops without waiting, as a worker does."""
    done = threading.Event()

    def look() -> None:
        while not blocking_guard.wait(done, BUSY_SECONDS / 5):
            blocking_guard.interrupt_busy(BUSY_SECONDS)

    thread = threading.Thread(target=look, name="signoff replay guard", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
