from __future__ import annotations

import secrets
import time
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from tests.postgres.databases import Databases, fresh_database, migrated_database, versions
from tests.postgres.programs import program
from tests.postgres.server import FAST, PostgresServer

pytestmark = pytest.mark.long  # of the tests' own servers, which all other tests of Postgres use


@pytest.mark.parametrize("major", versions())
def test_a_database_is_empty_whatever_was_in_it_before(major: int) -> None:
    for _ in range(3):
        with fresh_database(major) as url, psycopg.connect(url, autocommit=True) as connection:
            assert connection.info.server_version // 10_000 == major
            assert connection.execute("SHOW work_mem").fetchone() == ("4MB",)
            connection.execute("CREATE TABLE lost (n int)")
            connection.execute("CREATE SCHEMA signoff CREATE TABLE runs (n int)")
            connection.execute(
                SQL("ALTER DATABASE {} SET work_mem = '8MB'").format(Identifier(connection.info.dbname))
            )


def test_the_tables_of_a_migrated_database_are_always_empty() -> None:
    event = "INSERT INTO signoff.audit (shard, namespace, id, at, kind, question_id) VALUES ('', '', '', 1, '', '')"
    for _ in range(2):
        with migrated_database() as url, psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute(f"{event} RETURNING number").fetchone() == (1,)
    with fresh_database() as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regnamespace('signoff')").fetchone() == (None,)


def test_two_at_a_time_are_two_databases() -> None:
    with fresh_database() as one, fresh_database() as other:
        assert one != other
        with psycopg.connect(one, autocommit=True) as connection:
            connection.execute("CREATE TABLE mine (n int)")
        with psycopg.connect(other) as connection:
            assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)


def test_a_database_in_use_is_not_given_to_another_test() -> None:
    with fresh_database() as used:
        leaked = psycopg.connect(used)
    with fresh_database() as url:
        assert url != used
    with pytest.raises(psycopg.OperationalError):
        leaked.execute("SELECT 1")
    leaked.close()


def test_a_run_that_needs_no_database_starts_no_server() -> None:
    with program("use_nothing") as run:
        assert run.said == []
        run.finish()


def test_all_processes_of_a_run_share_one_server_until_the_last_has_ended() -> None:
    run = {"PYTEST_XDIST_TESTRUNUID": secrets.token_hex(8)}
    with program("use_database", **run) as one, program("use_database", **run) as other:
        assert one.said != other.said
        assert conninfo_to_dict(one.said)["port"] == conninfo_to_dict(other.said)["port"]
        one.process.kill()  # it has started the server
        one.process.wait()
        psycopg.connect(other.said).close()
        other.finish()
    with program("use_database", **run) as late:
        assert conninfo_to_dict(late.said)["password"] != conninfo_to_dict(other.said)["password"]
        psycopg.connect(late.said).close()


def is_used(admin: psycopg.Connection[Any], database: str) -> bool:
    """Whether the process that has made a database is still connected."""
    name = database.rstrip("0123456789").rstrip("_")
    found = admin.execute("SELECT FROM pg_stat_activity WHERE application_name = %s", [name])
    return found.fetchone() is not None


def test_a_server_named_in_the_environment_is_used_and_left_clean() -> None:
    with PostgresServer(settings=FAST) as server, psycopg.connect(server.url(), autocommit=True) as admin:

        def databases() -> set[str]:
            rows = admin.execute("SELECT datname FROM pg_database WHERE datname LIKE 'signoff%'")
            return {name for (name,) in rows}

        variables = {"SIGNOFF_TEST_POSTGRES": server.url() + "?connect_timeout=10"}
        with program("use_database", **variables) as run:
            assert databases() == {conninfo_to_dict(run.said)["dbname"]}
            assert conninfo_to_dict(run.said)["connect_timeout"] == "10"
            with program("use_database", **variables) as beside:
                assert len(databases()) == 2
                beside.finish()
            assert databases() == {conninfo_to_dict(run.said)["dbname"]}
            run.process.kill()
        [abandoned] = databases()
        while is_used(admin, abandoned):  # the server has not noticed that the process is gone
            time.sleep(0.01)
        Databases(server.url()).close()
        assert abandoned not in databases()
