"""A Postgres without space, one that fails over to a standby, a read-only one: reported, and nothing is lost."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.attacks import unwritable_database as unwritable
from tests.postgres.server import FAST, PostgresServer
from tests.support import in_asyncio

pytestmark = pytest.mark.long


def _check(outcome: dict[str, Any]) -> None:
    assert set(outcome["ready"]) == {503}, "it says that it is ready, and work cannot go on"
    assert outcome["doubled"] == {}
    assert outcome["refused"] == 3


@pytest.mark.timeout(240)
def test_a_full_disk_of_the_database_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    mount = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small disk")
    for folder in (tmp_path, *tmp_path.parents):  # the database is not root's
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    command = [
        *("unshare", "--mount", "--propagation", "private"),
        *(sys.executable, "-m", "tests.attacks.unwritable_database", str(tmp_path)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    _check(ast.literal_eval(done.stdout))


@pytest.mark.timeout(240)
@in_asyncio
async def test_a_database_that_fails_over_is_reported_and_loses_nothing() -> None:
    with PostgresServer(settings=FAST) as database:
        _check(await unwritable.attack(database, unwritable.fail_over, unwritable.promote))


@pytest.mark.timeout(240)
@in_asyncio
async def test_a_database_that_only_reads_is_reported_and_loses_nothing() -> None:
    with PostgresServer(settings=FAST) as database:
        _check(await unwritable.attack(database, unwritable.only_read, unwritable.write_again))
