"""``signoff keys``: making keys, and reading those that a server accepts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from signoff.cli.exits import CommandFailed, ExitCode
from signoff.cli.output import Output
from signoff.cli.target import json_option

if TYPE_CHECKING:
    from signoff.server.keys import WorkerKeys

KEYS_VARIABLE = "SIGNOFF_WORKER_KEYS"


@click.group()
def keys() -> None:
    """Keys of remote workers, and keys that encrypt."""


@keys.command()
@click.option("--worker", is_flag=True, required=True, help="For a worker; there are no other keys yet.")
@click.option("--namespace", default="default", show_default=True, help="The one namespace that it opens.")
@click.option(
    "--group", "groups", multiple=True, help="A group that it opens; repeat for more.  [default: all]"
)
@json_option
def create(worker: bool, namespace: str, groups: tuple[str, ...], out: Output) -> None:
    """Make a worker key.

    Give the key to the worker (SIGNOFF_WORKER_KEY) and the line to the server (--worker-key-file). The line holds
    only a hash: nothing can show the key again.
    """
    from signoff.server.keys import new_worker_key

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
    """Make a key called NAME that encrypts what is stored.

    Put it first in SIGNOFF_ENCRYPTION_KEYS of every process that opens the database, and keep those that were there.
    Nobody reads the data without it: keep a copy where the database's backup is not.
    """
    from signoff.codec.ciphers import EncryptionKey

    key = EncryptionKey.new(name)
    if out.as_json:
        out.object({"name": name, "key": key.text})
        return
    out.line(key.text)


def server_keys(file: Path | None) -> WorkerKeys:
    """Return the keys that a server accepts: those of a file, and those of the environment.

    Raises:
        CommandFailed: The file cannot be read.
        InvalidValue: A line is no key.
    """
    from signoff.server.keys import WorkerKeys

    keys = list(WorkerKeys.parse(os.environ.get(KEYS_VARIABLE, ""), KEYS_VARIABLE))
    if file is not None:
        try:
            keys += WorkerKeys.parse(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandFailed(ExitCode.USAGE, f"cannot read {file}: {error}") from error
    return WorkerKeys(keys)
