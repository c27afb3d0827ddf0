"""compose.yaml, replayed with local processes: its commands and its environment, on a real Postgres."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from examples.website_summary.processes import free_port
from tests.cli.commands import PATIENCE_SECONDS, Running, environment, signoff, until
from tests.deploy.files import ROOT, compose, healthcheck, seconds
from tests.postgres.server import FAST, PostgresServer

pytestmark = pytest.mark.long  # the same programs as elsewhere, as compose.yaml starts them

SERVICES: dict[str, Any] = compose()["services"]


class Stack:
    """Where the containers' names and places are on this machine."""

    def __init__(self, database: PostgresServer, folder: Path) -> None:
        self.port = free_port()
        self._database = database
        self._folder = folder

    def command(self, name: str) -> list[str]:
        return [argument.replace("8000", str(self.port)) for argument in SERVICES[name]["command"]]

    def variables(self, name: str) -> dict[str, str]:
        here = {"@postgres:5432/": f"@127.0.0.1:{self._database.port}/", "/data/": f"{self._folder}/"}
        variables: dict[str, str] = dict(SERVICES[name]["environment"])
        for there, place in here.items():
            variables = {key: value.replace(there, place) for key, value in variables.items()}
        return variables | {"PYTHONPATH": str(ROOT)}

    def run(self, name: str) -> Running:
        return Running(*self.command(name), cwd=self._folder, **self.variables(name))

    def is_healthy(self) -> bool:
        """What the server's HEALTHCHECK says."""
        command = healthcheck(SERVICES["server"]["build"]["target"])
        assert command is not None
        command = [argument.replace("8000", str(self.port)) for argument in command]
        asked = subprocess.run(
            command, env=environment({}), capture_output=True, timeout=PATIENCE_SECONDS, check=False
        )
        return asked.returncode == 0


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = SERVICES["postgres"]["environment"]
    with PostgresServer(settings=FAST) as database:
        with psycopg.connect(database.url(), autocommit=True) as connection:
            role = Identifier(made["POSTGRES_USER"])
            connection.execute(
                SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, made["POSTGRES_PASSWORD"])
            )
            name = Identifier(made["POSTGRES_DB"])
            connection.execute(SQL("CREATE DATABASE {} OWNER {}").format(name, role))
        yield Stack(database, tmp_path)


def test_a_refund_succeeds_despite_a_killed_worker_and_a_full_stop(stack: Stack, tmp_path: Path) -> None:
    assert not stack.is_healthy()
    migrated = signoff(*stack.command("migrate"), cwd=tmp_path, **stack.variables("migrate"))
    assert migrated.code == 0, migrated.err
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    with stack.run("server") as server, stack.run("worker") as first, stack.run("worker") as second:
        assert server.wait_for("listening")["port"] == stack.port
        assert stack.is_healthy()
        for worker in (first, second):
            assert worker.wait_for("working")["workflows"] == ["refund_flow"]
        with httpx.Client(
            base_url=f"http://127.0.0.1:{stack.port}", trust_env=False, verify=False, timeout=60
        ) as http:
            body = {"workflow": "refund_flow", "args": ["o-1", 7000], "id": "refund-o-1"}
            assert http.post("/v1/runs", json=body).status_code == 201
            [question] = until(lambda: http.get("/v1/questions").json()["items"])
            os.kill(first.process.pid, signal.SIGKILL)
            answered = http.post(
                f"/v1/questions/{question['id']}/answer", json={"value": True, "user_id": "ana"}
            )
            assert answered.status_code == 200, answered.text
            ended = http.get("/v1/runs/refund-o-1/result", params={"wait": PATIENCE_SECONDS}).json()
        assert ended["result"] == {"status": "approved_by_human", "approver": "ana"}
        assert (tmp_path / "refunds.jsonl").read_text().count("refund-o-1.3") == 1
        for name, running in (("worker", second), ("server", server)):
            began_at = time.monotonic()
            running.signal(signal.SIGTERM)
            assert running.ends() == 0
            assert time.monotonic() - began_at < seconds(SERVICES[name]["stop_grace_period"])
            assert "Traceback" not in running.err
        assert first.ends() == -signal.SIGKILL
    again = signoff(*stack.command("migrate"), "--check", cwd=tmp_path, **stack.variables("migrate"))
    assert again.code == 0, "a second `docker compose up` has nothing to migrate"
