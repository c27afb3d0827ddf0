"""The functions of the Postgres schema: their source, and replacing all of them.

``schema/postgres/functions/`` defines each function once. A migration replaces all functions, and drops those that the
source no longer defines, within its own transaction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg.sql import SQL

VERSION: Final = 7
"""The version of the functions. Raise it by one with each change of the source, so that databases are migrated."""

BEFORE_TABLES: Final = "triggers"
"""Loaded before the tables: table migrations attach triggers to the functions of this file."""

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
    "tasks",
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
"""The source files, in load order."""

_STATEMENT: Final = re.compile(
    r"^CREATE OR REPLACE (?:FUNCTION|PROCEDURE) signoff\.(?P<name>\w+)\(.*?\$\$;$|^CALL .*?;$",
    re.MULTILINE | re.DOTALL,
)
"""A function definition, which ends with its body, or a call that changes a function's planner settings."""

_DEFINED: Final = """
SELECT oid::regprocedure::text, proname, xmin::text, ctid::text FROM pg_proc AS routine
WHERE pronamespace = 'signoff'::regnamespace AND pg_has_role(proowner, 'USAGE') AND NOT EXISTS (
    SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = routine.oid AND deptype = 'e'
)
"""
"""The schema's functions, except those of extensions and other roles. Replacing one changes its xmin and ctid."""

Written = dict[str, tuple[str, str]]


def source(file: str) -> str:
    """Return the text of a source file."""
    path = resources.files("signoff.stores") / "schema" / "postgres" / "functions" / f"{file}.sql"
    return path.read_text(encoding="utf-8")


def statements(file: str) -> list[re.Match[str]]:
    """Return the statements of a source file, in order. Their group ``name`` is the function that one defines."""
    return list(_STATEMENT.finditer(source(file)))


def create_triggers(connection: psycopg.Connection[Any]) -> None:
    """Create or replace the functions that triggers call, before table migrations attach them."""
    _create(connection, [BEFORE_TABLES], _written(connection))


def replace_all(connection: psycopg.Connection[Any]) -> None:
    """Create or replace all functions in the open transaction, and drop those that the source does not define.

    A function keeps the privileges granted on it, unless its parameters or its result type change.
    """
    before = _written(connection)
    calls = _create(connection, FILES, before)
    for signature, found in _written(connection).items():
        if before.get(signature) == found:  # it was not replaced
            connection.execute(_drop(signature))
    for call in calls:  # now all functions of that name are from the source
        connection.execute(call)


def _create(connection: psycopg.Connection[Any], files: Sequence[str], before: Written) -> list[bytes]:
    """Create or replace the functions of these files. Returns the calls to execute afterwards."""
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
            # Postgres cannot replace a function whose result type or parameter names changed.
            for signature, found in _written(connection, name).items():
                if before.get(signature) == found:
                    connection.execute(_drop(signature))
            connection.execute(text)
    return calls


def _written(connection: psycopg.Connection[Any], name: str | None = None) -> Written:
    """Return the xmin and ctid of each function, by signature."""
    rows = connection.execute(_DEFINED).fetchall()
    return {signature: (xmin, ctid) for signature, found, xmin, ctid in rows if name in (None, found)}


def _drop(signature: str) -> SQL:
    return SQL(cast(LiteralString, f"DROP ROUTINE {signature}"))  # quoted by regprocedure
