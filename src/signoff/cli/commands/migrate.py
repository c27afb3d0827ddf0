"""``signoff migrate``."""

from __future__ import annotations

import os

import click

from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.load_app import load_app
from signoff.cli.output import Output
from signoff.cli.target import DEFAULT_STORE, json_option
from signoff.stores import migrations
from signoff.stores.address import store_at
from signoff.stores.contract.store import Store

_FINDINGS = {
    "current": "has {found}, which is up to date",
    "pending": "has {found}, this Signoff needs schema {known}: run signoff migrate",
    "newer": "has {found}, this Signoff knows up to schema {known}: upgrade signoff",
}


@click.command()
@click.argument("address", metavar="[MODULE:APP]", required=False)
@click.option(
    "--store", metavar="URL", help=f"The database. [env: SIGNOFF_STORE]  [default: {DEFAULT_STORE}]"
)
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 unless the schema is up to date.")
@click.option("--url", hidden=True, help="Refused: a server has no schema of its own.")
@json_option
def migrate(address: str | None, store: str | None, check: bool, url: str | None, out: Output) -> None:
    """Migrate the schema of a database: that of MODULE:APP, or --store.

    Servers and workers also migrate when they start, if their database role may. One process migrates at a time,
    completely or not at all; a schema that is up to date is not changed.
    """
    database = _database(address, store, url)
    if check:
        _check(database, out)
        return
    before = migrations.migrate(database)
    if out.as_json:
        out.object({"store": database.location, "from": before.found, "to": before.known})
    elif before.state == "current":
        out.line(f"{database.location} is up to date: schema {before.known}")
    else:
        out.line(f"{database.location} is migrated: from schema {before.found} to {before.known}")


def _database(address: str | None, store: str | None, url: str | None) -> Store:
    if address and store:
        raise click.UsageError("give --store or MODULE:APP, not both")
    url = url or (None if address or store else os.environ.get("SIGNOFF_URL"))
    if url:
        raise click.UsageError(f"{url} is a server: migrate where its database is, with --store")
    if address:
        return load_app(address).store
    return store_at(store or os.environ.get("SIGNOFF_STORE") or DEFAULT_STORE)


def _check(database: Store, out: Output) -> None:
    schema = migrations.schema_of(database)
    finding = _FINDINGS[schema.state].format(
        found=f"schema {schema.found}" if schema.found else "no schema yet", known=schema.known
    )
    if out.as_json:
        facts = {"store": database.location, "schema": schema.found, "known": schema.known}
        out.object({**facts, "state": schema.state})
    elif schema.state == "current":
        out.line(f"{database.location} {finding}")
    if schema.state != "current":
        raise CommandFailed(ExitCode.FAILED, f"{database.location} {finding}", state=schema.state)
