"""``signoff doctor``: checks specific to Postgres and servers."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from examples.website_summary.processes import free_port
from tests.cli.commands import ORDERS, Running, signoff
from tests.cli.conftest import Here
from tests.cli.diagnoses import examine, findings, levels, sql
from tests.postgres.databases import fresh_database
from tests.postgres.pgbouncer import PgBouncer, needs_pgbouncer
from tests.postgres.processes import frozen
from tests.postgres.roles import fresh_role, grant
from tests.postgres.server import FAST, PostgresServer


@pytest.fixture
def database(here: Here, tmp_path: Path) -> Iterator[str]:
    with fresh_database() as url:
        here("migrate", "--store", url, cwd=tmp_path)
        yield url


def test_a_role_that_only_works_with_it_may_examine_it(here: Here, tmp_path: Path, database: str) -> None:
    with fresh_role(database) as (role, url):
        grant(database, role)
        found = examine(here, "--store", url, cwd=tmp_path)
    found.pop("durability")  # the tests' server writes nothing to the disk
    assert levels(found, "audit trail") == ["skipped"]
    found.pop("audit trail")  # nothing anchors it
    assert {level for verdicts in found.values() for level, _ in verdicts if level != "warning"} == {"ok"}
    assert found["notifications"] == [("ok", "NOTIFY arrives")]
    assert "of 7" in found["commits"][0][1]


def test_settings_that_lose_what_was_acknowledged(here: Here, tmp_path: Path, database: str) -> None:
    name = sql(database, "SELECT current_database()")[0][0]
    sql(database, f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    messages = [message for _, message in examine(here, "--store", database, cwd=tmp_path)["durability"]]
    assert any(message.startswith("synchronous_commit is off") for message in messages)
    assert any(message.startswith("fsync is off") for message in messages)


def test_a_database_that_takes_no_writes(here: Here, tmp_path: Path, database: str) -> None:
    name = sql(database, "SELECT current_database()")[0][0]
    sql(database, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    found = examine(here, "--store", database, cwd=tmp_path)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f'ALTER DATABASE "{name}" RESET ALL')
    assert levels(found, "writes") == ["failure"]


def test_indexes_that_are_missing_or_not_valid(here: Here, tmp_path: Path, database: str) -> None:
    sql(database, "DROP INDEX signoff.runs_timers")
    sql(
        database,
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'signoff.promises_due'::regclass",
    )
    assert examine(here, "--store", database, cwd=tmp_path)["indexes"] == [
        ("failure", "index signoff.runs_timers is missing: create it as in schema/postgres/*.sql"),
        (
            "failure",
            "index signoff.promises_due is not valid: REINDEX INDEX CONCURRENTLY signoff.promises_due",
        ),
    ]


def test_connections_that_are_nearly_used_up(here: Here, tmp_path: Path) -> None:
    settings = {**FAST, "max_connections": "13", "autovacuum": "off"}
    with PostgresServer(settings=settings) as server, ExitStack() as stack:
        here("migrate", "--store", server.url(), cwd=tmp_path)
        assert levels(examine(here, "--store", server.url(), cwd=tmp_path), "connections") == ["ok"]
        for _ in range(7):
            stack.enter_context(psycopg.connect(server.url()))
        found = examine(here, "--store", server.url(), cwd=tmp_path)
        assert found["connections"][0][0] == "warning"
        assert found["connections"][0][1].startswith("8 of 10 connections are in use")
        assert levels(found, "dead rows") == ["warning", "ok"]


def test_a_server_that_is_not_there_or_refuses(here: Here, tmp_path: Path, database: str) -> None:
    for address, words in (
        (f"postgresql://ana@127.0.0.1:{free_port()}/x", "refused"),
        (database.replace("@", "x@"), "check the user and the password"),
        (f"{database}_nowhere", "does not exist; create it"),
    ):
        ended = here("doctor", "--store", address, "--json", cwd=tmp_path)
        [(level, message)] = findings(ended)["database"]
        assert (ended.code, level, words in message) == (1, "failure", True)


@needs_pgbouncer
def test_a_pooler_that_swallows_notifications_is_detected_and_unchanged(here: Here, tmp_path: Path) -> None:
    with PostgresServer(settings=FAST) as server, PgBouncer(server.url(), pool_size=3) as bouncer:
        here("migrate", "--store", bouncer.url(), cwd=tmp_path)
        found = examine(here, "--store", bouncer.url(), cwd=tmp_path)
        [(level, message)] = found["notifications"]
        assert (level, "listen_address" in message) == ("warning", True)
        assert levels(found, "schedules") == ["ok"]
        with psycopg.connect(bouncer.url(), autocommit=True, prepare_threshold=None) as connection:
            assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
            assert connection.execute("SELECT count(*) FROM pg_listening_channels()").fetchone() == (0,)


@pytest.mark.long
@needs_pgbouncer
def test_a_database_that_stands_still_is_given_up_and_the_command_ends(tmp_path: Path) -> None:
    with PostgresServer(settings=FAST) as server, PgBouncer(server.url()) as bouncer:
        assert signoff("migrate", "--store", bouncer.url(), cwd=tmp_path).code == 0
        with frozen(server.pid):
            for address in (bouncer.url(), server.url()):
                began_at = time.monotonic()
                ended = signoff("doctor", "--store", address, "--json", cwd=tmp_path)
                assert time.monotonic() - began_at < 40
                assert ended.code == 1
                assert any("failure" in levels(findings(ended), check) for check in findings(ended))


# Servers


def test_a_server_is_examined_with_what_is_seen_through_it(here: Here, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)
    keys = {
        groups: signoff("keys", "create", "--worker", *options, "--json", cwd=tmp_path).json
        for groups, options in (("all", ()), ("gpu", ("--group", "gpu")))
    }
    lines = ";".join(key["line"] for key in keys.values())
    here("start", "add", "--store", "sqlite:///signoff.db", cwd=tmp_path)
    with Running("server", "--port", "0", cwd=tmp_path, SIGNOFF_WORKER_KEYS=lines) as server:
        url = server.wait_for("listening")["url"]
        found = examine(here, "--url", url, "--key", keys["all"]["key"], cwd=tmp_path)
        for check in ("server", "ready", "answers", "clock", "worker key", "schedules"):
            assert levels(found, check) == ["ok"], found[check]
        assert levels(found, "ready runs") == ["failure"]
        narrow = examine(here, "--url", url, cwd=tmp_path, SIGNOFF_WORKER_KEY=keys["gpu"]["key"])
        assert narrow["schedules"] == [("skipped", "this worker key gives no access to it")]
        wrong = examine(here, "--url", url, "--key", "sgw_wrong", cwd=tmp_path)
        assert levels(wrong, "worker key") == ["failure"]
        assert "this worker key is unknown" in wrong["worker key"][0][1]
        without = examine(here, "orders:app", "--url", url, cwd=tmp_path)
        assert levels(without, "worker key") == ["skipped"]
        assert levels(without, "ready runs") == ["failure"]


@pytest.mark.long
def test_a_server_without_its_database_is_reported(here: Here, tmp_path: Path) -> None:
    with (
        PostgresServer(settings=FAST) as database,
        Running("server", "--port", "0", "--store", database.url(), cwd=tmp_path) as server,
    ):
        url = server.wait_for("listening")["url"]
        database.stop()
        found = examine(here, "--url", url, "--key", "sgw_any", cwd=tmp_path)
        [(level, message)] = found["ready"]
        assert (level, "it cannot work" in message) == ("failure", True)
        database.start()  # it stops in order only with its database


def test_something_else_that_answers_is_no_server(here: Here, tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        found = examine(here, "--url", f"http://127.0.0.1:{other.server_port}", cwd=tmp_path)
        other.shutdown()
        thread.join()
    assert found.keys() == {"server"}
    assert "is not a signoff server" in found["server"][0][1]
