"""A short soak of each store, one beside the other; ``make soak`` plays it for ten minutes. A failure names the seed.

Continuous integration also runs five minutes of each.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.grouping import ROOT

SECONDS = 20


@pytest.mark.long
@pytest.mark.timeout(600)
def test_innocent_tenants_are_unaffected_by_hostile_ones_and_by_kills() -> None:
    command = [sys.executable, "-m", "tests.soak", "both", "--seconds", str(SECONDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("attacks") == 2
