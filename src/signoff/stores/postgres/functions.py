"""The functions in a Postgres database: their source, and their replacement as a whole.

``schema/postgres/functions/`` defines each function once. A migration replaces all functions in its own transaction,
and drops those that the source does not define.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg.sql import SQL

VERSION: Final = 2
"""The version of the functions. Each change of their source raises it by one, so that databases get it."""

BEFORE_TABLES: Final = "triggers"
"""The file that is loaded before the tables, whose migrations attach triggers to its functions."""

FILES: Final = (
    "plans",
    BEFORE_TABLES,
    "transitions",
    "runs",
    "children",
    "sessions",
    "slots",
    "claims",
    "journal",
    "live",
    "messages",
    "promises",
    "questions",
    "audit",
    "rules",
    "batches",
    "timers",
    "deferred",
    "schedules",
    "retention",
    "tokens",
    "outbox",
)
"""The files of the source, in the order in which they are loaded."""

_STATEMENT: Final = re.compile(
    r"^CREATE OR REPLACE (?:FUNCTION|PROCEDURE) signoff\.(?P<name>\w+)\(.*?\$\$;$|^CALL .*?;$",
    re.MULTILINE | re.DOTALL,
)
"""A definition, which ends with its body, or a call that sets how a function plans."""

_DEFINED: Final = """
SELECT oid::regprocedure::text, proname, xmin::text, ctid::text FROM pg_proc AS routine
WHERE pronamespace = 'signoff'::regnamespace AND pg_has_role(proowner, 'USAGE') AND NOT EXISTS (
    SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = routine.oid AND deptype = 'e'
)
"""
"""The functions of the schema, except those of extensions and other roles. Writing one changes its xmin and ctid."""

Written = dict[str, tuple[str, str]]


def source(file: str) -> str:
    """Return the text of a file of the source."""
    path = resources.files("signoff.stores") / "schema" / "postgres" / "functions" / f"{file}.sql"
    return path.read_text(encoding="utf-8")


def statements(file: str) -> list[re.Match[str]]:
    """Return the statements of a source file, in order. ``name`` is the name of the defined function."""
    return list(_STATEMENT.finditer(source(file)))


def create_triggers(connection: psycopg.Connection[Any]) -> None:
    """Create or replace the functions that triggers call, for migrations of tables that attach them."""
    _create(connection, [BEFORE_TABLES], _written(connection))


def replace_all(connection: psycopg.Connection[Any]) -> None:
    """Create or replace all functions in the open transaction, and drop those that the source does not define.

    A function keeps its privileges, unless its parameters or its result change.
    """
    before = _written(connection)
    calls = _create(connection, FILES, before)
    for signature, found in _written(connection).items():
        if before.get(signature) == found:  # it was not replaced
            connection.execute(_drop(signature))
    for call in calls:  # now each name has only the functions of the source
        connection.execute(call)


def _create(connection: psycopg.Connection[Any], files: Sequence[str], before: Written) -> list[bytes]:
    """Create or replace the functions in these files. Returns the calls to execute afterwards."""
    calls: list[bytes] = []
    for statement in (statement for file in files for statement in statements(file)):
        text = statement.group().encode()
        if (name := statement["name"]) is None:
            calls.append(text)
            continue
        try:
            with connection.transaction():
                connection.execute(text)
        except (psycopg.errors.InvalidFunctionDefinition, psycopg.errors.WrongObjectType):
            # A function with another result type or other parameter names cannot be replaced.
            for signature, found in _written(connection, name).items():
                if before.get(signature) == found:
                    connection.execute(_drop(signature))
            connection.execute(text)
    return calls


def _written(connection: psycopg.Connection[Any], name: str | None = None) -> Written:
    """Return each function's transaction and place in the catalog, by its signature. Replacing it changes both."""
    rows = connection.execute(_DEFINED).fetchall()
    return {signature: (xmin, ctid) for signature, found, xmin, ctid in rows if name in (None, found)}


def _drop(signature: str) -> SQL:
    return SQL(cast(LiteralString, f"DROP ROUTINE {signature}"))  # quoted by regprocedure
