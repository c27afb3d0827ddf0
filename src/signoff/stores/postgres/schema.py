"""Opening a Postgres database: its address, its schema, and what its errors mean."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import resources
from typing import Any, NamedTuple

import psycopg
from psycopg import conninfo

from signoff.errors import (
    InvalidValue,
    SchemaTooNew,
    SchemaTooOld,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from signoff.stores.postgres import functions
from signoff.stores.shared.failure_texts import text_of_postgres

MIGRATION_LOCK = 0x5167_6E6F  # an advisory lock ("Qgno")

# Not to_regclass: what it said before the lock was waited for, it says again.
HAS_MIGRATIONS = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'signoff' AND tablename = 'migrations'"

# A server that is gone without a word is noticed within half a minute.
CONNECTION_DEFAULTS = {
    "application_name": "signoff",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}

# The words of SQLSTATE classes and codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
CONFLICTS = frozenset({"40001", "40P01", "55P03"})  # of transactions: the same again succeeds
GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "53300", "25006", "08000", "08003", "08006", "08P01"})
UNPREPARED = frozenset({"26000", "42P05"})
TOO_LARGE = "54000"  # for an index, or for what a value may be at all
BAD_TEXT = frozenset({"22P05", "22021"})

# What a server says that lets nobody in as asked. libpq does not pass its SQLSTATE on.
REFUSALS = (
    ("authentication failed", "check the user and the password, also in PGPASSWORD and ~/.pgpass"),
    ("no password supplied", "give a password in the address, in PGPASSWORD or in ~/.pgpass"),
    ("no pg_hba.conf entry", "let this machine and user in, in the server's pg_hba.conf"),
    ('" does not exist', "create it, or check its name in the address"),
)


def connection_options(address: str) -> str:
    """Return how to connect to what ``address`` names.

    Args:
        address: ``postgresql://user:password@host:port/database?option=value``; every option of libpq may be given.

    Raises:
        InvalidValue: It is no address of a Postgres database.
    """
    try:
        asked = conninfo.conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InvalidValue("store", f"this is no address of a Postgres database: {error}".strip()) from error
    return conninfo.make_conninfo("", **{**CONNECTION_DEFAULTS, **asked})


def location_of(address: str) -> str:
    """Return an address without its secrets, for messages."""
    asked = conninfo.conninfo_to_dict(address)
    host, port = asked.get("host") or "localhost", asked.get("port") or "5432"
    return f"postgresql://{host}:{port}/{asked.get('dbname') or asked.get('user') or ''}"


@contextmanager
def connected(conninfo: str, location: str) -> Generator[psycopg.Connection[tuple[Any, ...]]]:
    """Connect in autocommit mode, and raise what errors of Postgres mean for a user of the store."""
    try:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            yield connection
    except psycopg.Error as error:
        raise translate(error, location) from error


def migrate(connection: psycopg.Connection[Any], location: str) -> int:
    """Bring the schema up to date, one process at a time, all or nothing. What is up to date is only read.

    Returns:
        By how many versions the schema went on.

    Raises:
        SchemaTooNew: A newer Signoff has migrated it.
        SchemaTooOld: It is an older one, and this role may not change it.
    """
    found, known = version(connection), known_version()
    if found.is_older_than(known):
        try:
            found = _apply(connection)
        except psycopg.errors.InsufficientPrivilege as error:
            raise SchemaTooOld(location, found.number, known.number) from error
    if known.is_older_than(found):
        raise SchemaTooNew(location, found.number, known.number)
    return known.number - found.number


def _apply(connection: psycopg.Connection[Any]) -> Version:
    """Apply the migrations of tables that are missing, and replace the functions. Returns which version there was."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        found, known = version(connection), known_version()
        if known.is_older_than(found) or not found.is_older_than(known):
            return found  # another process was first
        if found.tables == 0:
            connection.execute("CREATE SCHEMA IF NOT EXISTS signoff")
            connection.execute(
                "CREATE TABLE signoff.migrations (version integer PRIMARY KEY, functions integer NOT NULL DEFAULT 0)"
            )
        functions.create_triggers(connection)
        for number, script in enumerate(migrations()[found.tables :], found.tables + 1):
            connection.execute(script.encode())
            connection.execute("INSERT INTO signoff.migrations (version) VALUES (%s)", (number,))
        functions.replace_all(connection)
        connection.execute(
            "UPDATE signoff.migrations SET functions = %s WHERE version = %s", (known.functions, known.tables)
        )
    return found


def require_current(connection: psycopg.Connection[Any], location: str) -> None:
    """Look at the schema and change nothing.

    Raises:
        SchemaTooOld: It is not migrated yet.
        SchemaTooNew: A newer Signoff has migrated it.
    """
    found, known = version(connection), known_version()
    if known.is_older_than(found):
        raise SchemaTooNew(location, found.number, known.number)
    if found.is_older_than(known):
        raise SchemaTooOld(location, found.number, known.number, may_migrate=True)


class Version(NamedTuple):
    """The version of a schema. Each change of its tables or its functions makes another one.

    Attributes:
        tables: How many migrations of tables it has; 0 if there is nothing of ours.
        functions: The version of its functions.
    """

    tables: int
    functions: int

    @property
    def number(self) -> int:
        """The version as one number, which each change of tables or functions raises."""
        return self.tables + self.functions

    def is_older_than(self, other: Version) -> bool:
        """Whether the other one has tables or functions that this one does not have."""
        return self.tables < other.tables or self.functions < other.functions


def known_version() -> Version:
    """Return the version that this Signoff needs."""
    return Version(len(migrations()), functions.VERSION)


def version(connection: psycopg.Connection[Any]) -> Version:
    """Return the version of the database's schema."""
    if connection.execute(HAS_MIGRATIONS).fetchone() is None:
        return Version(0, 0)
    row = connection.execute(
        "SELECT coalesce(max(version), 0), coalesce(max(functions), 0) FROM signoff.migrations"
    ).fetchone()
    return Version(*row) if row else Version(0, 0)


def migrations() -> list[str]:
    """Return the migrations of tables, schema/postgres/0001_*.sql, 0002_*.sql, ... in order."""
    folder = resources.files("signoff.stores") / "schema" / "postgres"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
    )
    return [file.read_text(encoding="utf-8") for file in files]


def code_of(error: psycopg.Error) -> str:
    """Return the SQLSTATE, or the empty string where the server has not said one."""
    return error.sqlstate or ""


def is_conflict(error: psycopg.Error) -> bool:
    """Whether the transaction lost against another one, and succeeds when it is done again."""
    return code_of(error) in CONFLICTS


def is_shared(error: psycopg.Error) -> bool:
    """Whether a pooler gave the transaction a connection that does not know what this one has prepared."""
    return code_of(error) in UNPREPARED


def is_gone(error: psycopg.Error) -> bool:
    """Whether the server, or the connection to it, is gone, and may come back."""
    code = code_of(error)
    if refusal_hint(error):
        return False
    said_nothing = not code and not isinstance(error, psycopg.ProgrammingError | psycopg.DataError)
    return code in GONE or said_nothing


def refusal_hint(error: psycopg.Error) -> str | None:
    """Return what to do if the server has answered and lets nobody in as asked; else None."""
    if not isinstance(error, psycopg.OperationalError) or code_of(error):
        return None
    said = str(error)
    return next((hint for words, hint in REFUSALS if "FATAL" in said and words in said), None)


def _said(error: psycopg.Error) -> str:
    """Return an error's text in one line. Its detail and context are left out: they quote rows."""
    primary = error.diag.message_primary
    text = str(error) if primary is None else text_of_postgres(error.sqlstate, primary)
    return " ".join(text.split())


def translate(error: psycopg.Error, location: str) -> StoreError | InvalidValue:
    """Return what an error of Postgres means for a user of the store."""
    code = code_of(error)
    said = _said(error)
    if code == TOO_LARGE:
        return InvalidValue("text", f"Postgres cannot keep one so long: {said}")
    if code in BAD_TEXT:
        return InvalidValue("text", f"Postgres cannot keep it: {said}")
    if code == "53100":
        return StoreFull(location)
    if code == "25006":
        return StoreReadOnly(location)
    if code in ("XX001", "XX002"):
        return StoreDamaged(location, said)
    if code == "42501":
        return StoreUnavailable(location, f"{said}; grant this role the rights that docs/postgres.md lists")
    if hint := refusal_hint(error):
        return StoreUnavailable(location, f"{said}; {hint}")
    if code in ("3F000", "42P01", "42883"):
        return StoreUnavailable(location, f"its schema is not this version's ({said}); run `signoff migrate`")
    return StoreUnavailable(location, said)
