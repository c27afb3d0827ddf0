"""The target of a command: a database, or a server."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from signoff.app import Signoff
from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.output import Output
from signoff.client.async_client import AsyncClient
from signoff.errors import SchemaTooOld
from signoff.records.origins import of_command
from signoff.stores.address import is_postgres, store_at
from signoff.stores.contract.store import Store
from signoff.stores.migrations import schema_of
from signoff.stores.sqlite.schema import path_of
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.store_wrapper import unwrapped

DEFAULT_STORE = "sqlite:///signoff.db"
DEFAULT_URL = "http://127.0.0.1:8000"
PATIENCE_SECONDS = 5.0
"""How long a command waits for an unavailable database server. It is short, since a user waits for the command."""
_LOOK_SECONDS = 2.0


@dataclass(frozen=True)
class Target:
    """The URL of a server or the address of a store. One of them is set."""

    url: str | None = None
    store: str | None = None

    @property
    def place(self) -> str:
        """The name for messages."""
        return self.url or self.store or ""


def named_target(url: str | None, store: str | None) -> Target | None:
    """Return the target that the options name, else the one in the environment, else None.

    Raises:
        UsageError: The options, or the environment, name both a server and a store.
    """
    if url and store:
        raise click.UsageError("give --url or --store, not both")
    if url or store:
        return Target(url, store)
    url, store = os.environ.get("SIGNOFF_URL"), os.environ.get("SIGNOFF_STORE")
    if url and store:
        raise click.UsageError(
            "SIGNOFF_URL and SIGNOFF_STORE are both set; unset one, or give --url or --store"
        )
    return Target(url, store) if url or store else None


def default_target() -> Target:
    """Return the working directory's database, or the server at the default address.

    Raises:
        CommandFailed: Neither exists.
    """
    if path_of(DEFAULT_STORE).exists():
        return Target(store=DEFAULT_STORE)
    place = urlsplit(DEFAULT_URL)
    try:
        socket.create_connection((place.hostname or "", place.port or 80), _LOOK_SECONDS).close()
    except OSError:
        raise CommandFailed(
            ExitCode.UNAVAILABLE,
            f"no signoff.db in {Path.cwd()} and no server at {DEFAULT_URL}; name one with --store or --url, or start "
            f"one with: signoff dev module:app",
        ) from None
    return Target(url=DEFAULT_URL)


@asynccontextmanager
async def connect(
    target: Target, *, group: str | None = None, may_create: bool = False
) -> AsyncGenerator[AsyncClient]:
    """Yield a client of the target.

    Args:
        target: The database or server.
        group: The group that runs are started in.
        may_create: Whether to create a missing SQLite file. An existing schema is not migrated.

    Raises:
        CommandFailed: The database does not exist.
        SchemaTooOld: The database is not migrated.
        StoreUnavailable: The database cannot be opened, or the server cannot be reached.
    """
    if target.url is not None:
        async with AsyncClient(target.url, group=group) as client:
            yield client
        return
    async with (
        database(target.store or DEFAULT_STORE, may_create=may_create) as store,
        AsyncClient(Signoff(store), group=group, origin=of_command()) as client,
    ):
        yield client


@asynccontextmanager
async def database(address: str, *, may_create: bool = False) -> AsyncGenerator[Store]:
    """Open the store of a database, and close it at the end.

    Args:
        address: The store's address.
        may_create: Whether to create the store if the SQLite file is missing or empty. An existing schema is not
            migrated.

    Raises:
        CommandFailed: The database does not exist.
        SchemaTooOld: The database is not migrated.
        StoreUnavailable: The database cannot be opened.
    """
    if not may_create:
        require_database(address)
    store = store_at(address, patience_seconds=PATIENCE_SECONDS, migrates=False)
    database = unwrapped(store)
    if isinstance(database, SqliteStore) and database.path.exists():
        schema = schema_of(store)
        is_new = may_create and not schema.found  # another process may be creating it as well
        if schema.state == "pending" and not is_new:
            raise SchemaTooOld(store.location, schema.found, schema.known, may_migrate=True)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


def require_database(address: str) -> None:
    """Raise CommandFailed if the SQLite file does not exist: a command that only reads must not create it."""
    if is_postgres(address):
        return
    store_at(address)
    path = path_of(address)
    if not path.exists():
        raise CommandFailed(
            ExitCode.UNAVAILABLE, f"database {path} does not exist; check --store and the working directory"
        )


Work = Callable[..., Awaitable[None]]
Command = Callable[..., int | None]  # returns the exit code, None for 0


def json_option(command: Command) -> Command:
    """Add --json to a command. The command gets an ``Output`` as ``out``."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
    @functools.wraps(command)
    def with_output(*args: Any, as_json: bool, **options: Any) -> int | None:
        return command(*args, out=Output(as_json), **options)

    return with_output


def place_options(command: Command) -> Command:
    """Add --url and --store to a command. The command gets the named target, or None, as ``target``."""

    @click.option("--url", metavar="URL", help="A signoff server. [env: SIGNOFF_URL]")
    @click.option(
        "--store", metavar="URL", help="A database, such as sqlite:///signoff.db. [env: SIGNOFF_STORE]"
    )
    @functools.wraps(command)
    def with_target(*args: Any, url: str | None, store: str | None, **options: Any) -> int | None:
        return command(*args, target=named_target(url, store), **options)

    return with_target


def on_client(work: Work) -> Command:
    """Turn an async function that takes a connected ``client`` and an ``out`` into a command."""

    @place_options
    @json_option
    @functools.wraps(work)
    def command(*args: Any, target: Target | None, out: Output, **options: Any) -> None:
        async def connected() -> None:
            async with connect(target or default_target()) as client:
                await work(*args, client=client, out=out, **options)

        asyncio.run(connected())

    return command
