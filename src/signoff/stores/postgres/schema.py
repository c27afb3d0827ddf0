"""Opens a Postgres database: parses its address, migrates its schema, translates its errors."""

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

# Not to_regclass: it can return a cached result from before the wait for the lock.
HAS_MIGRATIONS = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'signoff' AND tablename = 'migrations'"

# A server that vanishes without closing the connection is noticed within half a minute.
CONNECTION_DEFAULTS = {
    "application_name": "signoff",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}

# SQLSTATE codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
CONFLICTS = frozenset({"40001", "40P01", "55P03"})  # between transactions: a retry succeeds
GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "53300", "25006", "08000", "08003", "08006", "08P01"})
UNPREPARED = frozenset({"26000", "42P05"})
TOO_LARGE = "54000"  # for an index, or for any value
BAD_TEXT = frozenset({"22P05", "22021"})

# Messages of a server that rejects the login. libpq does not pass on their SQLSTATE.
REFUSALS = (
    ("authentication failed", "check the user and the password, also in PGPASSWORD and ~/.pgpass"),
    ("no password supplied", "give a password in the address, in PGPASSWORD or in ~/.pgpass"),
    ("no pg_hba.conf entry", "allow this machine and user in the server's pg_hba.conf"),
    ('" does not exist', "create it, or check its name in the address"),
)


def connection_options(address: str) -> str:
    """Return the connection string for ``address``.

    Args:
        address: ``postgresql://user:password@host:port/database?option=value``, with any libpq options.

    Raises:
        InvalidValue: It is not a valid address of a Postgres database.
    """
    try:
        asked = conninfo.conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InvalidValue("store", f"not a valid address of a Postgres database: {error}".strip()) from error
    return conninfo.make_conninfo("", **{**CONNECTION_DEFAULTS, **asked})


def location_of(address: str) -> str:
    """Return an address without credentials, for messages."""
    asked = conninfo.conninfo_to_dict(address)
    host, port = asked.get("host") or "localhost", asked.get("port") or "5432"
    return f"postgresql://{host}:{port}/{asked.get('dbname') or asked.get('user') or ''}"


@contextmanager
def connected(conninfo: str, location: str) -> Generator[psycopg.Connection[tuple[Any, ...]]]:
    """Connect in autocommit mode. Raises store errors for errors of Postgres."""
    try:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            yield connection
    except psycopg.Error as error:
        raise translate(error, location) from error


def migrate(connection: psycopg.Connection[Any], location: str) -> int:
    """Migrate the schema in one transaction, one process at a time. A current schema is only read.

    Returns:
        By how many versions the schema advanced.

    Raises:
        SchemaTooNew: A newer version of Signoff has migrated it.
        SchemaTooOld: The schema is outdated, and this role may not change it.
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
    """Apply missing table migrations and replace the functions. Returns the version before that."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        found, known = version(connection), known_version()
        if known.is_older_than(found) or not found.is_older_than(known):
            return found  # another process has migrated it meanwhile
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
    """Check that the schema is current, without changing it.

    Raises:
        SchemaTooOld: The schema needs a migration.
        SchemaTooNew: A newer version of Signoff has migrated it.
    """
    found, known = version(connection), known_version()
    if known.is_older_than(found):
        raise SchemaTooNew(location, found.number, known.number)
    if found.is_older_than(known):
        raise SchemaTooOld(location, found.number, known.number, may_migrate=True)


class Version(NamedTuple):
    """The version of a schema. Each change of its tables or functions increases it.

    Attributes:
        tables: Number of table migrations applied; 0 if Signoff's schema does not exist.
        functions: The version of its functions.
    """

    tables: int
    functions: int

    @property
    def number(self) -> int:
        """The version as one number, which grows with each change of tables or functions."""
        return self.tables + self.functions

    def is_older_than(self, other: Version) -> bool:
        """Whether ``other`` has newer tables or functions."""
        return self.tables < other.tables or self.functions < other.functions


def known_version() -> Version:
    """Return the version that this version of Signoff needs."""
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
    """Return the table migrations, schema/postgres/0001_*.sql, 0002_*.sql, ..., in order."""
    folder = resources.files("signoff.stores") / "schema" / "postgres"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
    )
    return [file.read_text(encoding="utf-8") for file in files]


def code_of(error: psycopg.Error) -> str:
    """Return the SQLSTATE; the empty string if the server has not sent one."""
    return error.sqlstate or ""


def is_conflict(error: psycopg.Error) -> bool:
    """Whether the transaction conflicted with another one, so that a retry succeeds."""
    return code_of(error) in CONFLICTS


def is_shared(error: psycopg.Error) -> bool:
    """Whether a pooler ran the transaction on a connection without our prepared statements."""
    return code_of(error) in UNPREPARED


def is_gone(error: psycopg.Error) -> bool:
    """Whether the server or the connection is temporarily unavailable."""
    code = code_of(error)
    if refusal_hint(error):
        return False
    said_nothing = not code and not isinstance(error, psycopg.ProgrammingError | psycopg.DataError)
    return code in GONE or said_nothing


def refusal_hint(error: psycopg.Error) -> str | None:
    """Return advice for the user if the server has rejected the login; otherwise None."""
    if not isinstance(error, psycopg.OperationalError) or code_of(error):
        return None
    said = str(error)
    return next((hint for words, hint in REFUSALS if "FATAL" in said and words in said), None)


def _message_of(error: psycopg.Error) -> str:
    """Return an error's message in one line, without its detail and context: these quote rows."""
    primary = error.diag.message_primary
    text = str(error) if primary is None else text_of_postgres(error.sqlstate, primary)
    return " ".join(text.split())


def translate(error: psycopg.Error, location: str) -> StoreError | InvalidValue:
    """Return the store error for a Postgres error."""
    code = code_of(error)
    said = _message_of(error)
    if code == TOO_LARGE:
        return InvalidValue("text", f"too long for Postgres: {said}")
    if code in BAD_TEXT:
        return InvalidValue("text", f"Postgres cannot store it: {said}")
    if code == "53100":
        return StoreFull(location)
    if code == "25006":
        return StoreReadOnly(location)
    if code in ("XX001", "XX002"):
        return StoreDamaged(location, said)
    if code == "42501":
        return StoreUnavailable(
            location, f"{said}; grant this role the privileges listed in docs/postgres.md"
        )
    if hint := refusal_hint(error):
        return StoreUnavailable(location, f"{said}; {hint}")
    if code in ("3F000", "42P01", "42883"):
        return StoreUnavailable(
            location, f"its schema does not fit this version ({said}); run `signoff migrate`"
        )
    return StoreUnavailable(location, said)
