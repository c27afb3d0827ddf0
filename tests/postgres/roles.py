"""Database roles with few rights, for tests."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Identifier

DOCS = Path(__file__).parents[2] / "docs" / "postgres.md"


@contextmanager
def fresh_role(url: str) -> Iterator[tuple[str, str]]:
    """A role that may only connect, with its name and its URL for the same database.

    Args:
        url: The database, as a superuser connects to it.
    """
    name, secret = f"signoff_test_role_{secrets.token_hex(4)}", secrets.token_hex(8)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(name), secret))
    try:
        yield name, re.sub(r"://[^@/]*@", f"://{quote(name)}:{secret}@", url)
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SQL("DROP OWNED BY {} CASCADE").format(Identifier(name)))
            connection.execute(SQL("DROP ROLE {}").format(Identifier(name)))


def grant(database: str, role: str) -> None:
    """Give a role the rights that docs/postgres.md gives to ``signoff_app``."""
    found = re.search(r"```sql\n(-- Once, after the first.*?)```", DOCS.read_text(), re.DOTALL)
    assert found is not None
    with psycopg.connect(database, autocommit=True) as connection:
        owner = connection.info.user
        connection.execute(found[1].replace("signoff_app", role).replace("signoff_owner", owner).encode())
