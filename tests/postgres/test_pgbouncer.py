from __future__ import annotations

import psycopg
import pytest

from tests.postgres.pgbouncer import PgBouncer, needs_pgbouncer
from tests.postgres.server import FAST, PostgresServer

pytestmark = [needs_pgbouncer, pytest.mark.long]


def test_clients_share_a_connection_and_what_was_set_on_it() -> None:
    with (
        PostgresServer(settings=FAST) as server,
        PgBouncer(server.url(), pool_size=1) as bouncer,
        psycopg.connect(bouncer.url(), autocommit=True) as one,
        psycopg.connect(bouncer.url(), autocommit=True) as other,
    ):
        assert _backend(one) == _backend(other)
        one.execute("SET application_name = 'one'")
        assert other.execute("SHOW application_name").fetchone() == ("one",)


def _backend(connection: psycopg.Connection[tuple[object, ...]]) -> object:
    return connection.execute("SELECT pg_backend_pid()").fetchone()


def test_it_comes_back_on_its_port() -> None:
    with PostgresServer(settings=FAST) as server, PgBouncer(server.url()) as bouncer:
        url = bouncer.url()
        bouncer.stop()
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(url)
        bouncer.start()
        assert bouncer.url() == url
        psycopg.connect(url).close()
