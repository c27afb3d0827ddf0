"""Hidden texts of a megabyte: all their spellings used to stay in the server's memory, 22 MB for each."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import subprocess
import sys
import threading
import unicodedata
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
import pytest

from signoff.redaction.hidden_values import PLACEHOLDER, Hidden, shared
from signoff.redaction.kept_texts import BEGIN
from signoff.server import Server
from signoff.stores.sqlite.store import SqliteStore
from tests.support import in_asyncio

MOST_KIB = 64 * 1024
LONGEST_WAIT_SECONDS: Final = 10.0

HIDE = """
import re
from pathlib import Path
from signoff.redaction.hidden_values import Hidden

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


LONG: Final = 200_000

TEXTS: Final = {
    "in another letter case": ("Ab" * LONG + "1", "aB" * 2 * LONG + "1", PLACEHOLDER),
    "in groups": ("DE12" * 50, "x " + "de12 " * 50 + "x", f"x {PLACEHOLDER} x"),
    "a letter of two small ones": ("\u0130" + "AB1" * 50, "x \u0130" + "ab1" * 50, f"x {PLACEHOLDER}"),
    "beginnings": ("a" * 32 + "b" * LONG, ("a" * 32 + "c") * 10_000, f"{PLACEHOLDER}c" * 10_000),
    "ends": ("b" * LONG + "a" * 32, ("c" + "a" * 32) * 10_000, f"c{PLACEHOLDER}" * 10_000),
}

UNIQUE: Final = " ".join(f"line {number}: 'é'\n" for number in range(20_000))

WRITTEN: Final = {
    "as it is": UNIQUE,
    "in JSON": json.dumps(UNIQUE),
    "in JSON within JSON": json.dumps(json.dumps({"x": UNIQUE})),
    "in repr": repr(UNIQUE),
    "in a URL": quote(UNIQUE),
    "in HTML": html.escape(UNIQUE),
    "in base64": base64.b64encode(b"+" + UNIQUE.encode()).decode(),
    "decomposed": unicodedata.normalize("NFD", UNIQUE),
    "in capitals": UNIQUE.upper(),
    "in other spaces": UNIQUE.replace(" ", "\t "),
    "without its end": UNIQUE[:-5_000],
    "without its beginning": UNIQUE[5_000:],
}


@pytest.mark.parametrize("how", WRITTEN)
def test_nothing_of_a_long_hidden_text_shows_however_it_is_written(how: str) -> None:
    shown = Hidden([UNIQUE]).masked(f"It is {WRITTEN[how]} or so.")
    assert PLACEHOLDER in shown
    assert len(shown) < 100


def test_what_is_beside_a_long_hidden_text_shows() -> None:
    shown = Hidden([UNIQUE]).masked(f"It is {UNIQUE}, and {UNIQUE} or so.")
    assert shown == f"It is {PLACEHOLDER}, and {PLACEHOLDER} or so."


@pytest.mark.parametrize("text", ["w", "é" * 1_000], ids=["short", "of many spellings"])
def test_too_many_hidden_texts_hide_every_text(text: str) -> None:
    hidden = Hidden()
    hidden.note([f"{text} {number}" for number in range(60_000)])
    assert hidden.masked("a word") == PLACEHOLDER
    assert sum(map(len, hidden.secrets)) < 100


@pytest.mark.parametrize("kind", TEXTS)
def test_long_hidden_texts_are_found_however_they_are_written(kind: str) -> None:
    secret, text, masked = TEXTS[kind]
    assert Hidden([secret]).masked(text) == masked


def test_what_is_compared_grows_with_what_is_shared() -> None:
    compared = 0

    def is_shared(begin: int, end: int) -> bool:
        nonlocal compared
        compared += end - begin
        return end <= 40

    assert shared(1_000_000, is_shared) == 40
    assert compared < 400


@in_asyncio
async def test_the_loop_goes_on_while_a_long_text_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that the long text is hidden waits for a turn of the loop, which would never come on the loop."""
    loop = asyncio.get_running_loop()
    went_on: list[bool] = []
    masked = Hidden.masked

    def waiting(self: Hidden, text: str) -> str:
        if any(secret.startswith(BEGIN) for secret in self.secrets) and all(went_on):
            turned = threading.Event()
            loop.call_soon_threadsafe(turned.set)
            went_on.append(turned.wait(LONGEST_WAIT_SECONDS))
        return masked(self, text)

    monkeypatch.setattr(Hidden, "masked", waiting)
    secret = "é1 " * (LONG // 3)
    served = SqliteStore(tmp_path / "signoff.db")
    try:
        async with (
            Server(served, port=0, redact=["secret"]) as server,
            httpx.AsyncClient(base_url=server.url, timeout=60) as http,
        ):
            new = {"id": "r", "workflow": "w", "kwargs": {"secret": secret, "note": f"it is {secret}"}}
            started = await http.post("/v1/runs", json=new)
            assert started.status_code == 201, started.text[:500]
            for path in ("/v1/runs/r", "/v1/runs", "/v1/runs/r/journal"):
                shown = await http.get(path)
                assert shown.status_code == 200, path
                assert "1 " * 1_000 not in shown.text
    finally:
        await served.close()
    assert went_on
    assert all(went_on)
