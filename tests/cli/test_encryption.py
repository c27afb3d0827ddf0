"""Encryption at rest from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from signoff.cli.exit_codes import ExitCode
from tests.cli.conftest import Here


def test_a_key_is_made_and_what_is_started_with_it_is_read_with_it_alone(tmp_path: Path, here: Here) -> None:
    made = [here("keys", "encryption", name, cwd=tmp_path).out.strip() for name in ("k1", "k2")]
    assert [key.partition(":")[0] for key in made] == ["k1", "k2"]
    first, second = made
    store = "sqlite:///signoff.db"
    start = ("start", "charge", "--id", "r", "--arg", '"tell-nobody"', "--store", store)
    assert here(*start, cwd=tmp_path, SIGNOFF_ENCRYPTION_KEYS=first).code == ExitCode.OK
    assert all(b"tell-nobody" not in file.read_bytes() for file in tmp_path.iterdir())

    show = ("show", "r", "--store", store, "--json")
    for keys in (first, f"{second} {first}"):
        shown = here(*show, cwd=tmp_path, SIGNOFF_ENCRYPTION_KEYS=keys)
        assert "tell-nobody" in shown.out
    refused = here(*show, cwd=tmp_path, SIGNOFF_ENCRYPTION_KEYS=second)
    assert refused.code == ExitCode.UNAVAILABLE
    assert "needs key 'k1'" in refused.out + refused.err
    for key in made:
        assert key.partition(":")[2] not in refused.out + refused.err


def test_the_schema_is_migrated_and_examined_with_keys(tmp_path: Path, here: Here) -> None:
    key = json.loads(here("keys", "encryption", "k1", "--json", cwd=tmp_path).out)["key"]
    store = ("--store", "sqlite:///signoff.db")
    for command in (("migrate",), ("migrate", "--check"), ("doctor",), ("runs",)):
        assert here(*command, *store, cwd=tmp_path, SIGNOFF_ENCRYPTION_KEYS=key).code == ExitCode.OK, command


def test_a_name_that_is_none_is_refused(tmp_path: Path, here: Here) -> None:
    assert here("keys", "encryption", "a b", cwd=tmp_path).code == ExitCode.USAGE
