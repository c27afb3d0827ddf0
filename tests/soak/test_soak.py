"""A short soak on each store, as ``make soak`` plays it for ten minutes. A failure names the seed.

Continuous integration also runs five minutes of each, at the same time.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.grouping import ROOT

SECONDS = 30


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_innocent_tenants_are_unaffected_by_hostile_ones_and_by_kills(store: str) -> None:
    command = [sys.executable, "-m", "tests.soak", store, "--seconds", str(SECONDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "attacks" in done.stdout
