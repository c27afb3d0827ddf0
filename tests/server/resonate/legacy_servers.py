"""A server that speaks the protocol of resonate-sdk 0.6.7, and programs with that SDK."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests import resonate_sdks
from tests.cli.commands import Running

PORTS = {"--port": 0, "--resonate-legacy-port": 0, "--resonate-legacy-messages-port": 0}


@contextmanager
def legacy_server(folder: Path, store: str, ports: dict[str, int] | None = None) -> Iterator[Running]:
    """A server as a process of its own."""
    options = [str(part) for pair in {**PORTS, **(ports or {})}.items() for part in pair]
    with Running("server", "--store", store, "--resonate-legacy", *options, cwd=folder) as server:
        server.wait_for("listening")
        yield server


def ports_of(server: Running) -> dict[str, int]:
    """The ports of a server, for one that takes its place."""
    said = server.wait_for("listening")
    return {
        "--resonate-legacy-port": urlsplit(said["resonate_legacy_url"]).port or 0,
        "--resonate-legacy-messages-port": urlsplit(said["resonate_messages_url"]).port or 0,
    }


def variables(server: Running) -> dict[str, str]:
    """The environment of the SDK's programs."""
    store, messages = ports_of(server).values()
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("COVERAGE_", "RESONATE_"))
        },
        "RESONATE_HOST": "http://127.0.0.1",
        "RESONATE_PORT_STORE": str(store),
        "RESONATE_PORT_MESSAGE_SOURCE": str(messages),
        "NO_PROXY": "127.0.0.1",
    }


def program(server: Running, file: Path, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a program with the SDK."""
    with (cwd / f"{arguments[0]}.err").open("a") as errors:
        return subprocess.Popen(
            [resonate_sdks.python_of_2024(), file, *arguments],
            cwd=cwd,
            env=variables(server),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
