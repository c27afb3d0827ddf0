"""``signoff compact``."""

from __future__ import annotations

import os

import click

from signoff.cli.output import Output
from signoff.cli.target import DEFAULT_STORE, json_option, require_database
from signoff.stores.address import is_postgres, store_at
from signoff.stores.sqlite.free_space import give_back, rebuild
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.store_wrapper import unwrapped


@click.command()
@click.option(
    "--store", metavar="URL", help=f"The database. [env: SIGNOFF_STORE]  [default: {DEFAULT_STORE}]"
)
@click.option(
    "--rebuild",
    "rebuilds",
    is_flag=True,
    help="Rewrite the file. Stop every process that uses it first: nothing can be committed meanwhile.",
)
@json_option
def compact(store: str | None, rebuilds: bool, out: Output) -> None:
    """Return the space that pruning has freed in an SQLite file to the file system.

    Servers and workers may run meanwhile; their commits wait, usually about 20 ms. A file created by an earlier version
    needs --rebuild once.
    """
    address = store or os.environ.get("SIGNOFF_STORE") or DEFAULT_STORE
    if is_postgres(address):
        raise click.UsageError("Postgres manages its own space: see autovacuum and VACUUM there")
    require_database(address)
    opened = unwrapped(store_at(address))
    assert isinstance(opened, SqliteStore)
    free_up = rebuild if rebuilds else give_back
    freed = free_up(opened.path, opened.location, busy_seconds=opened.busy_seconds)
    size = opened.path.stat().st_size
    if out.as_json:
        out.object({"store": opened.location, "freed_bytes": freed, "bytes": size})
    else:
        out.line(f"{freed >> 20:,} MiB returned to the system; {opened.path} has {size >> 20:,} MiB")
