from __future__ import annotations

import psycopg
import pytest

from tests.postgres.databases import fresh_database, versions


@pytest.mark.parametrize("major", versions())
def test_a_database_is_empty_whatever_was_in_it_before(major: int) -> None:
    for _ in range(3):
        with fresh_database(major) as url, psycopg.connect(url, autocommit=True) as connection:
            assert connection.info.server_version // 10_000 == major
            connection.execute("CREATE TABLE lost (n int)")
            connection.execute("CREATE SCHEMA signoff CREATE TABLE runs (n int)")


def test_two_at_a_time_are_two_databases() -> None:
    with fresh_database() as one, fresh_database() as other:
        assert one != other
        with psycopg.connect(one, autocommit=True) as connection:
            connection.execute("CREATE TABLE mine (n int)")
        with psycopg.connect(other) as connection:
            assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)


def test_a_database_that_somebody_still_uses_is_not_given_to_another_test() -> None:
    with fresh_database() as used:
        leaked = psycopg.connect(used)
    with fresh_database() as url:
        assert url != used
    with pytest.raises(psycopg.OperationalError):
        leaked.execute("SELECT 1")
    leaked.close()
