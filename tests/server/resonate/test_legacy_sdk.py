"""The remote tests of resonate-sdk 0.6.7, as its source distribution has them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests import resonate_sdks
from tests.server.resonate.legacy_servers import legacy_server, variables

FILES = (
    "tests/test_store_promise.py",
    "tests/test_store_schedules.py",
    "tests/test_store_task.py",
    "tests/test_bridge.py",
)

HELD_SECONDS = 11.0
"""A server that has just started frees no leases: their holders could not extend them. The tests expect it at once."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_remote_tests_of_the_sdk_pass(store: str, tmp_path: Path) -> None:
    python, sources = resonate_sdks.python_of_2024(), resonate_sdks.sources_of_2024()
    with legacy_server(tmp_path, store) as server:
        time.sleep(HELD_SECONDS)
        done = subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES, "-k", "RemoteStore"],
            cwd=sources,
            env=variables(server),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-5000:]
    assert "401 passed" in done.stdout
