"""``signoff migrate``: versions, repetition, and refusals."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from signoff.stores.postgres import schema as postgres_schema
from signoff.stores.postgres.functions import VERSION
from signoff.stores.sqlite import schema as sqlite_schema
from tests.cli.commands import environment
from tests.cli.conftest import Here
from tests.postgres.databases import fresh_database

KNOWN = {"sqlite": len(sqlite_schema.migrations()), "postgres": postgres_schema.known_version().number}


def a_migration_is_added(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have this Signoff know one migration of SQLite more."""
    added = folder / "9999.sql"
    added.write_text("CREATE TABLE added (id INTEGER PRIMARY KEY) STRICT;")
    files = [*sqlite_schema.migration_files(), added]
    monkeypatch.setattr(sqlite_schema, "migration_files", lambda: files)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    """The kind of an empty database, and its address."""
    if request.param == "sqlite":
        yield "sqlite", f"sqlite:///{tmp_path}/new.db"
        return
    with fresh_database() as url:
        yield "postgres", url


def test_a_database_is_migrated_once_and_says_from_what_to_what(
    here: Here, tmp_path: Path, store: tuple[str, str]
) -> None:
    kind, address = store
    first = here("migrate", "--store", address, "--json", cwd=tmp_path)
    assert (first.code, first.json["from"], first.json["to"]) == (0, 0, KNOWN[kind])
    again = here("migrate", "--store", address, "--json", cwd=tmp_path)
    assert (again.code, again.json["from"], again.json["to"]) == (0, KNOWN[kind], KNOWN[kind])
    assert (
        f"is up to date: schema {KNOWN[kind]}\n" in here("migrate", cwd=tmp_path, SIGNOFF_STORE=address).out
    )
    assert here("runs", "--store", address, cwd=tmp_path).code == 0


def test_a_check_changes_nothing_and_fails_while_migrations_are_pending(
    here: Here, tmp_path: Path, store: tuple[str, str]
) -> None:
    kind, address = store
    for _ in range(2):
        pending = here("migrate", "--check", "--store", address, "--json", cwd=tmp_path)
        assert pending.code == 1
        assert (pending.json["state"], pending.json["schema"]) == ("pending", 0)
    assert not (tmp_path / "new.db").exists()
    told = here("migrate", "--check", "--store", address, cwd=tmp_path)
    assert told.out == ""
    assert told.err.endswith(
        f"has no schema yet, this Signoff needs schema {KNOWN[kind]}: run signoff migrate\n"
    )
    here("migrate", "--store", address, cwd=tmp_path)
    assert here("migrate", "--check", "--store", address, "--json", cwd=tmp_path).json["state"] == "current"


@pytest.mark.parametrize(
    "command", [("runs",), ("inbox",), ("start", "refund"), ("groups", "list")], ids=" ".join
)
def test_other_commands_leave_a_schema_as_it_is(
    here: Here, tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old.db"
    here("migrate", "--store", f"sqlite:///{old}", cwd=tmp_path)
    a_migration_is_added(monkeypatch, tmp_path)
    with fresh_database() as empty:
        for address in (f"sqlite:///{old}", empty):
            before = here("migrate", "--check", "--store", address, "--json", cwd=tmp_path).json
            refused = here(*command, "--store", address, cwd=tmp_path)
            assert (refused.code, refused.err.count("\n")) == (5, 1)
            assert "run `signoff migrate`" in refused.err
            after = here("migrate", "--check", "--store", address, "--json", cwd=tmp_path).json
            assert before == after
            assert before["state"] == "pending"


def test_a_newer_schema_is_refused_and_left_alone(here: Here, tmp_path: Path, store: tuple[str, str]) -> None:
    kind, address = store
    here("migrate", "--store", address, cwd=tmp_path)
    functions = 0 if kind == "sqlite" else VERSION
    if kind == "sqlite":
        with closing(sqlite3.connect(tmp_path / "new.db")) as connection:
            connection.execute("PRAGMA user_version = 999")
    else:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("INSERT INTO signoff.migrations VALUES (999)")
    refused = here("migrate", "--store", address, cwd=tmp_path)
    assert refused.code == 5
    assert f"has schema {999 + functions}" in refused.err
    assert "upgrade signoff" in refused.err
    assert refused.err.count("\n") == 1
    checked = here("migrate", "--check", "--store", address, "--json", cwd=tmp_path)
    assert (checked.code, checked.json["state"]) == (1, "newer")


def test_a_file_of_an_older_version_is_brought_up_to_date(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here("migrate", cwd=tmp_path)
    assert here("start", "refund", cwd=tmp_path).code == 0
    runs = here("runs", "--json", cwd=tmp_path).json["items"]
    a_migration_is_added(monkeypatch, tmp_path)
    assert here("migrate", "--check", "--json", cwd=tmp_path).json["schema"] == KNOWN["sqlite"]
    moved = here("migrate", "--json", cwd=tmp_path).json
    assert (moved["from"], moved["to"]) == (KNOWN["sqlite"], KNOWN["sqlite"] + 1)
    assert here("runs", "--json", cwd=tmp_path).json["items"] == runs != []


@pytest.mark.long
def test_of_many_at_once_one_migrates_and_all_succeed(tmp_path: Path) -> None:
    with fresh_database() as url:
        command = [sys.executable, "-m", "signoff", "migrate", "--store", url]
        racing = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment({}), cwd=tmp_path)
            for _ in range(4)
        ]
        told = [process.communicate(timeout=60)[0] for process in racing]
    assert [process.returncode for process in racing] == [0] * 4
    assert sum(f"from schema 0 to {KNOWN['postgres']}" in text for text in told) == 1
    assert sum("is up to date" in text for text in told) == 3


def test_the_database_of_an_app_is_migrated(here: Here, shop: Path) -> None:
    assert here("migrate", "orders:app", cwd=shop).code == 0
    assert (shop / "signoff.db").exists()


def test_a_database_of_another_program_is_left_alone(here: Here, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "signoff.db")) as connection:
        connection.execute("CREATE TABLE theirs (id)")
    for options in ((), ("--check",)):
        refused = here("migrate", *options, cwd=tmp_path)
        assert refused.code == 5
        assert "it is another program's database" in refused.err


REMOTE_APP = "from signoff import Signoff\napp = Signoff.remote('http://127.0.0.1:1')\n"


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (("--store", "http://127.0.0.1:8000"), {}),
        (("--url", "http://127.0.0.1:8000"), {}),
        ((), {"SIGNOFF_URL": "http://127.0.0.1:8000"}),
        (("far:app",), {}),
    ],
    ids=["store", "url", "environment", "app"],
)
def test_a_server_is_not_migrated_from_afar(
    here: Here, tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    (tmp_path / "far.py").write_text(REMOTE_APP)
    refused = here("migrate", *arguments, cwd=tmp_path, **variables)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "database" in refused.err
    assert os.listdir(tmp_path) == ["far.py"]
