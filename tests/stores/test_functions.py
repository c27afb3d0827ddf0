"""The functions in Postgres: each defined once, and replaced as a whole."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

import signoff
from signoff.errors import SchemaTooNew, SchemaTooOld, StoreUnavailable
from signoff.records import NewRun
from signoff.records.tasks import queue_of
from signoff.stores.contract.timers import GRACE_SECONDS
from signoff.stores.migrations import migrate, schema_of
from signoff.stores.postgres import functions, schema
from signoff.stores.postgres.schema import connected
from signoff.stores.postgres.store import PostgresStore
from tests.postgres.databases import fresh_database, migrated_database
from tests.postgres.roles import fresh_role, grant
from tests.support import in_asyncio

SOURCE = resources.files("signoff.stores") / "schema" / "postgres"

DIGEST = (7, "bdd264760e2f5b1eb4eb0eae82293a5c86a26c62da28e82e8108eaf70c3d6cf0")
"""The version of the functions, and the digest of its source."""

ADDED = """
CREATE OR REPLACE FUNCTION signoff.added(p_text text) RETURNS text
LANGUAGE sql AS $$ SELECT 'first ' || p_text $$;
"""
OTHER_RESULT = ADDED.replace("RETURNS text", "RETURNS varchar")
OTHER_NAME = ADDED.replace("p_text", "p_other")
OTHER_TYPE = ADDED.replace("p_text text", "p_text varchar") + "CALL signoff.plan_by_index('signoff.added');\n"
PROCEDURE = """
CREATE OR REPLACE PROCEDURE signoff.added(p_text text)
LANGUAGE plpgsql AS $$
BEGIN
END $$;
"""


@pytest.fixture
def database() -> Iterator[str]:
    with fresh_database() as url:
        yield url


class Build:
    """A later build of Signoff, whose functions differ."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def has(self, version: int, added: str = "", changed: tuple[str, str] = ("", "")) -> None:
        """Have the functions of this Signoff be of a version, with more of them, or with one text for another."""

        def source(file: str) -> str:
            return original(file).replace(*changed) + (added if file == functions.FILES[-1] else "")

        original = ORIGINAL
        self._monkeypatch.setattr(functions, "VERSION", version)
        self._monkeypatch.setattr(functions, "source", source)


ORIGINAL = functions.source


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    return Build(monkeypatch)


def one(url: str, query: str, *values: Any) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode(), values).fetchone()
        return row and row[0]


def signatures(url: str, name: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT prokind::text || ' ' || oid::regprocedure::text FROM pg_proc "
            "WHERE pronamespace = 'signoff'::regnamespace AND proname = %s ORDER BY 1",
            (name,),
        ).fetchall()
    return [text for (text,) in rows]


def test_the_source_defines_each_function_once() -> None:
    defined = sum(
        statement["name"] is not None for file in functions.FILES for statement in functions.statements(file)
    )
    with migrated_database() as url:
        found = one(url, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'signoff'::regnamespace")
    assert defined == found > 100


def test_nothing_but_the_files_of_functions_defines_functions() -> None:
    files = {Path(file.name).stem for file in (SOURCE / "functions").iterdir()}
    assert sorted(functions.FILES) == sorted(files)
    for file in functions.FILES:
        text = functions.source(file)
        for statement in functions.statements(file):
            text = text.replace(statement.group(), "", 1)
        assert [line for line in text.splitlines() if line and not line.startswith("--")] == [], file
    defines = re.compile(r"\bCREATE\s+(OR\s+REPLACE\s+)?(FUNCTION|PROCEDURE)\b", re.IGNORECASE)
    for script in schema.migrations():
        assert not defines.search(script)
    package = Path(signoff.__file__).parent
    elsewhere = [path for path in package.rglob("*.py") if defines.search(path.read_text())]
    assert elsewhere == [package / "stores" / "postgres" / "functions.py"] or elsewhere == []


def test_a_change_of_the_functions_raises_their_version() -> None:
    texts = [statement.group() for file in functions.FILES for statement in functions.statements(file)]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    assert (functions.VERSION, digest) == DIGEST, "raise functions.VERSION by one, and note both in DIGEST"


def test_both_languages_have_one_grace_after_a_deadline() -> None:
    with migrated_database() as url:
        assert one(url, "SELECT signoff.grace_seconds()") == GRACE_SECONDS


def test_both_languages_have_the_same_queues_of_addresses() -> None:
    addresses = (
        "poll://any@group/a/b",
        "poll://any@group",
        "poll://any@",
        "poll://uni@group/a",
        "http://host/any",
        "https://host",
        "ftp://any@host/path",
        "any@group/a",
        "",
    )
    with migrated_database() as url:
        for address in addresses:
            assert one(url, "SELECT signoff.queue_of(%s)", address) == queue_of(address)


def test_only_transitions_write_the_state_of_a_run() -> None:
    writers = {
        (file, statement["name"])
        for file in functions.FILES
        for statement in functions.statements(file)
        for changes in re.findall(
            r"UPDATE signoff\.runs\b[^;]*?\bSET\b(.*?)(?:WHERE|FROM|;)", statement.group(), re.DOTALL
        )
        if re.search(r"\bstate = ", changes)
    }
    assert {name for file, name in writers if file != "transitions"} == {"do_item"}
    assert len(writers) > 10


@in_asyncio
async def test_changed_functions_are_applied_without_a_migration_of_tables(
    database: str, build: Build
) -> None:
    store = PostgresStore(database)
    await store.open()
    before = schema_of(store)
    await store.create_run(NewRun("one", "w", "g", "{}"))
    build.has(functions.VERSION + 1, changed=("(p_run).workflow,", "upper((p_run).workflow),"))
    assert schema_of(store).state == "pending"
    assert (schema_of(store).found, schema_of(store).known) == (before.known, before.known + 1)
    with pytest.raises(SchemaTooOld):
        await PostgresStore(database, migrates=False).open()
    assert migrate(store).state == "pending"
    assert migrate(store).state == "current"
    text = "SELECT signoff.run_values(runs) ->> 2 FROM signoff.runs"
    assert one(database, text) == "W"
    await store.create_run(NewRun("two", "w", "g", "{}"))  # what was open goes on
    await store.close()
    build.has(functions.VERSION + 1)
    await (store := PostgresStore(database)).open()  # which migrates by itself
    assert one(database, text) == "w"
    await store.close()


@in_asyncio
async def test_functions_of_a_newer_build_are_left_alone(database: str, build: Build) -> None:
    build.has(functions.VERSION + 1, ADDED)
    migrate(PostgresStore(database))
    build.has(functions.VERSION - 1)
    store = PostgresStore(database)
    assert schema_of(store).state == "newer"
    with pytest.raises(SchemaTooNew):
        migrate(store)
    with pytest.raises(SchemaTooNew):
        await store.open()
    assert one(database, "SELECT signoff.added('x')") == "first x"


def test_older_tables_with_newer_functions_are_not_migrated(
    database: str, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.has(functions.VERSION + 1, ADDED)
    migrate(PostgresStore(database))
    build.has(functions.VERSION - 1)
    scripts = schema.migrations()
    monkeypatch.setattr(schema, "migrations", lambda: [*scripts, "CREATE TABLE signoff.more ()"])
    with pytest.raises(SchemaTooNew):
        migrate(PostgresStore(database))
    assert one(database, "SELECT to_regclass('signoff.more')::text") is None


def test_functions_that_the_source_dropped_are_gone(database: str, build: Build) -> None:
    build.has(functions.VERSION + 1, ADDED + ADDED.replace("p_text text", "p_text text, p_more text"))
    migrate(PostgresStore(database))
    assert len(signatures(database, "added")) == 2
    build.has(functions.VERSION + 1, ADDED)
    migrate(PostgresStore(database))
    assert signatures(database, "added") == ["f signoff.added(text)"]
    build.has(functions.VERSION + 1)
    migrate(PostgresStore(database))
    assert signatures(database, "added") == []


@pytest.mark.parametrize(
    ("changed", "signature"),
    [
        (OTHER_RESULT, "f signoff.added(text)"),
        (OTHER_NAME, "f signoff.added(text)"),
        (OTHER_TYPE, "f signoff.added(character varying)"),
        (PROCEDURE, "p signoff.added(text)"),
    ],
    ids=["result", "name", "type", "kind"],
)
def test_a_function_may_change_all_that_it_is(
    database: str, build: Build, changed: str, signature: str
) -> None:
    build.has(functions.VERSION + 1, ADDED)
    migrate(PostgresStore(database))
    build.has(functions.VERSION + 1, changed)
    migrate(PostgresStore(database))
    assert signatures(database, "added") == [signature]


def test_functions_that_cannot_be_created_leave_all_as_it_was(database: str, build: Build) -> None:
    migrate(PostgresStore(database))
    build.has(functions.VERSION + 1, ADDED + ADDED.replace("sql AS", "sql AS 1"))
    with pytest.raises(StoreUnavailable, match="syntax error"):
        migrate(PostgresStore(database))
    assert signatures(database, "added") == []
    build.has(functions.VERSION - 1)
    assert schema_of(PostgresStore(database)).state == "current"


def test_of_many_processes_one_replaces_the_functions(database: str, build: Build) -> None:
    migrate(PostgresStore(database))
    build.has(functions.VERSION + 1, ADDED)
    states: list[str] = []
    threads = [
        threading.Thread(target=lambda: states.append(migrate(PostgresStore(database)).state))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(states) == ["current"] * 5 + ["pending"]


@in_asyncio
async def test_a_role_that_may_not_change_functions_is_refused_until_they_are(
    database: str, build: Build
) -> None:
    migrate(PostgresStore(database))
    with fresh_role(database) as (role, url):
        grant(database, role)
        with psycopg.connect(database, autocommit=True) as connection:  # the rights are the role's alone
            connection.execute("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA signoff FROM public")
        build.has(functions.VERSION + 1, ADDED, ("(p_run).workflow,", "upper((p_run).workflow),"))
        with pytest.raises(SchemaTooOld, match="run `signoff migrate` as a role that may"):
            await PostgresStore(url).open()
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE signoff.migrations SET functions = 1000")
        migrate(PostgresStore(database))
        store = PostgresStore(url)
        await store.open()
        await store.create_run(NewRun("r", "w", "g", "{}"))
        await store.close()
        assert one(url, "SELECT signoff.run_values(runs) ->> 2 FROM signoff.runs") == "W"
        assert one(url, "SELECT signoff.added('x')") == "first x"
        assert not one(
            database, "SELECT has_function_privilege('public', 'signoff.run_values(signoff.runs)', 'execute')"
        )


def test_functions_of_another_role_stay(database: str, build: Build) -> None:
    with fresh_role(database) as (owner, url):
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                SQL("GRANT CREATE ON DATABASE {} TO {}").format(
                    Identifier(connection.info.dbname), Identifier(owner)
                )
            )
        migrate(PostgresStore(url))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(ADDED.replace("added", "report").encode())
        build.has(functions.VERSION + 1, ADDED)
        migrate(PostgresStore(url))
        assert len(signatures(database, "report")) == len(signatures(database, "added")) == 1


def test_what_is_up_to_date_is_only_read(database: str) -> None:
    migrate(PostgresStore(database))
    with connected(database, database) as connection:
        before = connection.execute("SELECT oid, xmin::text FROM pg_proc ORDER BY oid").fetchall()
        assert schema.migrate(connection, database) == 0
        assert connection.execute("SELECT oid, xmin::text FROM pg_proc ORDER BY oid").fetchall() == before
