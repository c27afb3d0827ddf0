"""Hidden texts of a megabyte: all their spellings stayed in the server's memory, 22 MB for each."""

from __future__ import annotations

import subprocess
import sys

MOST_KIB = 64 * 1024

HIDE = """
import re
from pathlib import Path
from signoff.redaction.hidden import Hidden

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def hide(number, length):
    hidden = Hidden()
    hidden.note(f"\\u00e9 x{number} " * (length // 5))
    assert hidden.masked("a word") == "a word"
    return hidden.masked(f"a \\u00e9 x{number} " + f"\\u00e9 x{number} " * (length // 5))

hide(0, 300_000)
before = resident()
for number in range(1, 16):
    assert "[redacted]" in hide(number, 300_000)
print(resident() - before)
"""


def test_spellings_of_long_hidden_texts_are_not_kept() -> None:
    taken = subprocess.run([sys.executable, "-c", HIDE], check=True, capture_output=True, text=True).stdout
    assert int(taken) < MOST_KIB
