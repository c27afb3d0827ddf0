"""The whole API, tried by its own description: whatever is sent, what comes back is what was described.

``SIGNOFF_API_EXAMPLES`` is how many requests are made up for each operation, besides those that its description alone
brings about; ``SIGNOFF_API_SEED`` is what they grow from.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from signoff.server import Server, TrustedProxy, runs
from signoff.server.examples import PROMISE_ID, QUESTION_ID, RUN_ID, SCHEDULE_ID
from tests.server.conftest import app_in, asked, serving, start
from tests.server.proxied import PROXY, through
from tests.support import OnThread

EXAMPLES = int(os.environ.get("SIGNOFF_API_EXAMPLES", "8"))
SEED = os.environ.get("SIGNOFF_API_SEED", "1")
ENDLESS = ["follow_journal", "follow_inbox"]
"""Operations whose replies have no end."""

HERE = Path(__file__).parent


@contextmanager
def impatient() -> Iterator[None]:
    """Nobody waits long for a result."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "LONGEST_WAIT_SECONDS", 0.001)
        yield


def seed(http: httpx.Client) -> None:
    """Have a server know something of everything, under the ids of the examples."""
    start(http, "approve", RUN_ID, kwargs={"assignees": ["group:finance"]})
    assert asked(http, RUN_ID) == QUESTION_ID
    for workflow in ("ask", "choose", "refund", "skip"):
        start(http, workflow, f"{workflow}-1")
        asked(http, f"{workflow}-1")
    start(http, "echo", "echoed", "hello")
    start(http, "forget", "retryable")
    assert http.post("/v1/promises", json={"id": PROMISE_ID}).status_code == 201
    schedule = {"id": SCHEDULE_ID, "workflow": "echo", "cron": "0 3 * * *"}
    assert http.post("/v1/schedules", json=schedule).status_code == 200


def fuzz(server: Server, description: bytes, folder: Path, **environment: str) -> None:
    """Have schemathesis try a server, and fail if it finds anything."""
    schema = folder / "openapi.json"
    schema.write_bytes(description)
    command = ["--config-file", str(HERE / "schemathesis.toml"), "--no-color", "run", str(schema)]
    options = ["--url", server.url, "--seed", SEED, "--max-examples", str(EXAMPLES), "--warnings", "off"]
    options += ["--phases", "examples,coverage,fuzzing", "--continue-on-failure"]
    options += [option for name in ENDLESS for option in ("--exclude-operation-id", name)]
    found = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *command, *options],
        env={**os.environ, "NO_PROXY": "127.0.0.1", "PYTHONPATH": str(HERE.parents[1]), **environment},
        cwd=folder,  # it leaves files there
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, f"SIGNOFF_API_SEED={SEED}\n{found.stdout}\n{found.stderr}"


@pytest.mark.timeout(300 + 60 * EXAMPLES)
def test_on_a_laptop_nothing_comes_back_that_is_not_described(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    with impatient(), OnThread(lambda: serving(app)) as server:
        with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
            seed(http)
            description = http.get("/openapi.json").content
        fuzz(server, description, tmp_path)


@pytest.mark.timeout(300 + 60 * EXAMPLES)
def test_behind_a_proxy_nothing_comes_back_that_is_not_described_whoever_asks(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    proxy = TrustedProxy(PROXY.user_header, PROXY.groups_header, PROXY.roles_header, default_role=None)
    with impatient(), OnThread(lambda: serving(app, proxy=proxy)) as server:
        with through(server, "root", roles="admin") as http:
            seed(http)
            description = http.get("/openapi.json").content
        fuzz(server, description, tmp_path, SCHEMATHESIS_HOOKS="tests.server.fuzzing_people")
