"""``signoff keys``: create, list, rotate and revoke keys. Also reads the worker keys that a server accepts."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.formatting import ago
from signoff.cli.output import Output
from signoff.cli.target import DEFAULT_STORE, Command, database, json_option
from signoff.cli.values import Number
from signoff.records import Token, TokenKind

if TYPE_CHECKING:
    from signoff.server.auth.key_file import WorkerKeys
    from signoff.server.auth.stored_keys import StoredKeys

KEYS_VARIABLE = "SIGNOFF_WORKER_KEYS"
SHARED_KEY_VARIABLE = "SIGNOFF_WORKER_KEY"
"""The worker's key. A server that has the same key in its environment accepts it."""
DAY = 86400.0  # seconds
_PAGE = 1000

T = TypeVar("T")


@click.group()
def keys() -> None:
    """Keys of services and remote workers, on the machine with the database, and encryption keys."""


def _store_options(command: Command) -> Command:
    for option in (
        click.option("--namespace", default="default", show_default=True, help="The keys' namespace."),
        click.option(
            "--store", metavar="URL", help=f"The database. [env: SIGNOFF_STORE]  [default: {DEFAULT_STORE}]"
        ),
    ):
        command = option(command)
    return command


@keys.command()
@click.argument("name", required=False)
@click.option("--worker", is_flag=True, help="For workers. Without NAME the key is for a server's key file.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(["viewer", "responder", "operator", "admin"]),
    help="A role of the service; repeat for more.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    help="A group that the service may start runs in, or whose runs the worker executes; repeat for more. "
    " [default: all]",
)
@click.option("--act-as", is_flag=True, help="Let the service name the user it acts for.")
@click.option(
    "--days", type=Number(min=0, min_open=True), help="How long it is valid.  [default: until revoked]"
)
@_store_options
@json_option
def create(
    name: str | None,
    worker: bool,
    roles: tuple[str, ...],
    groups: tuple[str, ...],
    act_as: bool,
    days: float | None,
    namespace: str,
    store: str | None,
    out: Output,
) -> None:
    """Create a key: for the service NAME, or with --worker for workers.

    The key is printed once; the database has only its hash. Give it to the service as SIGNOFF_KEY, or to the worker
    as SIGNOFF_WORKER_KEY. As soon as the database has a key, its servers authenticate every caller.

    For a server and workers of one machine: export SIGNOFF_WORKER_KEY=$(signoff keys create --worker), then start both.
    """
    if worker and (roles or act_as):
        raise click.UsageError("--role and --act-as are for services, not for workers")
    if worker and name is None:
        if days is not None or store is not None:
            raise click.UsageError(
                "name the key, or leave out --days and --store, which a key file does not support"
            )
        _create_for_file(namespace, groups, out)
        return
    if name is None:
        raise click.UsageError("name the service, or give --worker")
    if not worker and not roles:
        raise click.UsageError("give it a role: --role viewer, responder, operator or admin")
    lifetime = None if days is None else days * DAY

    async def make(issued: StoredKeys) -> tuple[str, Token]:
        from signoff.server.auth.roles import Role

        if worker:
            return await issued.create_for_worker(name, groups=groups or None, lifetime_seconds=lifetime)
        return await issued.create_for_service(
            name,
            [Role(role) for role in roles],
            start_groups=groups or None,
            act_as=act_as,
            lifetime_seconds=lifetime,
        )

    _print(out, *_on_keys(store, namespace, make))


@keys.command("list")
@_store_options
@json_option
def list_keys(namespace: str, store: str | None, out: Output) -> None:
    """List the database's keys. Keys that have ended stay in the list for some time."""
    from signoff.server.auth.stored_keys import key_to_wire

    async def read(issued: StoredKeys) -> list[Token]:
        found: list[Token] = []
        for kind in (TokenKind.API_KEY, TokenKind.WORKER_KEY):
            page = await issued.list_keys(kind, limit=_PAGE)
            found += page.items
            while page.next is not None:
                page = await issued.list_keys(kind, after=page.next, limit=_PAGE)
                found += page.items
        return found

    found = [key_to_wire(token) for token in _on_keys(store, namespace, read)]
    if out.as_json:
        out.object({"items": found, "next": None})
        return
    now = time.time()
    columns = ("ID", "KIND", "NAME", "ROLES", "GROUPS", "USED", "STATE")
    out.table(columns, [_row(key, now) for key in found], "no keys")


@keys.command()
@click.argument("key_id", metavar="ID")
@click.option(
    "--grace-days",
    type=Number(min=0),
    default=1.0,
    show_default=True,
    help="How long the old key stays valid.",
)
@_store_options
@json_option
def rotate(key_id: str, grace_days: float, namespace: str, store: str | None, out: Output) -> None:
    """Create another key with the same access as ID. ID expires after --grace-days."""

    async def make(issued: StoredKeys) -> tuple[str, Token]:
        return await issued.rotate(key_id, grace_seconds=grace_days * DAY)

    _print(out, *_on_keys(store, namespace, make))


@keys.command()
@click.argument("key_id", metavar="ID")
@_store_options
@json_option
def revoke(key_id: str, namespace: str, store: str | None, out: Output) -> None:
    """Revoke the key ID. Its open streams end within a minute."""
    from signoff.server.auth.stored_keys import key_to_wire

    token = _on_keys(store, namespace, lambda issued: issued.revoke(key_id))
    if out.as_json:
        out.object(key_to_wire(token))
    else:
        out.line(f"{token.id} ({token.subject}) is revoked")


def _on_keys(store: str | None, namespace: str, work: Callable[[StoredKeys], Awaitable[T]]) -> T:
    """Run ``work`` on a database's keys, and return its result."""

    async def on_database() -> T:
        from signoff.server.auth.stored_keys import StoredKeys

        async with database(store or os.environ.get("SIGNOFF_STORE") or DEFAULT_STORE) as opened:
            return await work(StoredKeys(opened.within(namespace)))

    return asyncio.run(on_database())


def _print(out: Output, secret: str, token: Token) -> None:
    from signoff.server.auth.stored_keys import key_to_wire

    if out.as_json:
        out.object({**key_to_wire(token), "key": secret})
        return
    out.line(secret)
    out.note(f"{token.subject} has the key {token.id}; its secret cannot be shown again")
    out.note("every request to a server of this database now needs a key or a login")


def _row(key: dict[str, Any], now: float) -> tuple[str, ...]:
    used = "never" if key["used_at"] is None else ago(min(key["used_at"], now), now)
    state = "open"
    if key["revoked_at"] is not None:
        state = "revoked"
    elif key["expires_at"] is not None and key["expires_at"] <= now:
        state = "expired"
    roles = [*key["roles"], *(["act-as"] if key["act_as"] else [])]
    groups = "all" if key["groups"] is None else ",".join(key["groups"])
    return key["id"], key["kind"], key["name"], ",".join(roles) or "-", groups, used, state


def _create_for_file(namespace: str, groups: tuple[str, ...], out: Output) -> None:
    """Create a worker key for a key file."""
    from signoff.server.auth.key_file import new_worker_key

    secret, key = new_worker_key(namespace, groups)
    if out.as_json:
        out.object({"key": secret, "line": key.line, "namespace": namespace, "groups": sorted(groups)})
        return
    out.line(secret)
    out.note("for the server's key file:")
    out.note(key.line)


@keys.command()
@click.argument("name")
@json_option
def encryption(name: str, out: Output) -> None:
    """Create an encryption key called NAME for stored payloads.

    Put it first in SIGNOFF_ENCRYPTION_KEYS of every process that opens the database, and keep the existing keys there.
    The data cannot be read without it: keep a copy apart from the database's backup.
    """
    from signoff.codec.ciphers import EncryptionKey

    key = EncryptionKey.new(name)
    if out.as_json:
        out.object({"name": name, "key": key.text})
        return
    out.line(key.text)


def no_worker_key(url: str) -> str:
    """Return the message for a worker without a key, with the commands that create one."""
    return (
        f"{url} needs a worker key, and none is given. On one machine: "
        f"export {SHARED_KEY_VARIABLE}=$(signoff keys create --worker), then start the server and this worker with it. "
        "Otherwise create one on the machine with the database: signoff keys create NAME --worker; and give it to this "
        f"worker: {SHARED_KEY_VARIABLE}=sgw_..., or --key"
    )


def server_keys(file: Path | None, namespace: str) -> WorkerKeys:
    """Return the worker keys that a server accepts besides those of its database.

    Args:
        file: The key file, if there is one. The environment adds lines to it, and the key that server and worker share.
        namespace: The namespace of the shared key.

    Raises:
        CommandFailed: The file cannot be read.
        InvalidValue: A line, or the shared key, is not a key.
    """
    from signoff.server.auth.key_file import WorkerKeys, key_of

    shared = os.environ.get(SHARED_KEY_VARIABLE, "").strip()
    own = key_of(shared, namespace, SHARED_KEY_VARIABLE) if shared else None
    keys = list(WorkerKeys.parse(os.environ.get(KEYS_VARIABLE, ""), KEYS_VARIABLE))
    if file is not None:
        try:
            keys += WorkerKeys.parse(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandFailed(ExitCode.USAGE, f"cannot read {file}: {error}") from error
    return WorkerKeys(keys, own)
