"""Programs that tests of servers run in separate processes: ``python -m tests.postgres.programs NAME``.

Each prints a line of JSON and then waits for the end of its input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from tests.postgres.databases import fresh_database, versions
from tests.postgres.folder import HELD, PROJECT, held_folders
from tests.postgres.pgbouncer import PROGRAM, PgBouncer
from tests.postgres.server import FAST, PostgresServer

VARIABLES = ("COVERAGE_", "PYTEST_XDIST_", "SIGNOFF_")


class Program:
    """One of the functions below, at work in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.said = json.loads(process.stdout.readline())

    def finish(self) -> None:
        """Let it end in order."""
        self.process.communicate()
        assert self.process.returncode == 0


@contextmanager
def program(name: str, **variables: str) -> Iterator[Program]:
    """Start a function below with environment variables; killed at the end if it still runs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.postgres.programs", name],
        cwd=PROJECT,
        env={**environment, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Program(process)
    finally:
        process.kill()
        process.communicate()


def use_nothing() -> None:
    """Do what each test run does that selects no test of Postgres; say which folders it holds."""
    versions()
    say([path.name for path in held_folders() if path.name.startswith(f"{HELD}{os.getpid()}-")])


def serve() -> None:
    """Start servers of this process' own; say which."""
    server = PostgresServer(settings=FAST)
    server.start()
    servers, folders = [server.pid], [server.folder]
    if PROGRAM:
        bouncer = PgBouncer(server.url())
        bouncer.start()
        servers.append(bouncer.pid)
        folders.append(bouncer.folder)
    keepers = [
        child.pid for child in psutil.Process().children() if "tests.postgres.keeper" in child.cmdline()
    ]
    say({"servers": servers, "keepers": keepers, "folders": [str(folder.parent) for folder in folders]})


def use_database() -> None:
    """Take a database; say which. It is given back when the input ends."""
    with fresh_database() as url:
        say(url)


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
