"""Schemas of external tools, of any length: 256 of them used to stay in memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

MOST_KIB: Final = 24 * 1024

READ: Final = """
import re
from pathlib import Path
from signoff.people.schemas.foreign_schemas import checkable

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def read(number, length):
    return checkable({"type": "string", "description": f"{number} " + "x" * length})

def read_all(first):
    for number in range(first, first + 40):
        assert read(number, 1_000_000)[0] == {}
    for number in range(first, first + 300):
        assert read(number, 90_000) == ({"type": "string", "description": f"{number} " + "x" * 90_000}, None)

read(0, 1_000_000), read(0, 90_000)
before = resident()
read_all(1_000)
print(resident() - before)
"""


def test_long_schemas_of_tools_are_not_kept() -> None:
    taken = subprocess.run([sys.executable, "-c", READ], check=True, capture_output=True, text=True).stdout
    assert int(taken) < MOST_KIB
