"""Opens an SQLite file: parses its address, applies settings, migrates the schema, translates errors."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, TypeVar

from signoff.errors import (
    InvalidValue,
    SchemaTooNew,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from signoff.stores.shared.failure_isolation import ROW_UNCHANGED, ItemFailed

T = TypeVar("T")

OWN_CODES: Final = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
)
"""Error codes of a single operation, such as invalid JSON in its row, or a trigger that refuses it."""

NOT_UNICODE: Final = "Could not decode to UTF-8"
"""Python's error message for undecodable text in a row, which it quotes. The error has no code."""

NO_TEXT: Final = "a text in a row is not Unicode"

APPLICATION_ID = 0x5167_6E6F  # marks a file as ours ("Qgno")
CACHED_STATEMENTS = 512
RESERVE_SECONDS: Final = 0.05  # to wait for the write lock; the writer's thread does nothing else meanwhile

MODE_OF_NEW = 0o600
"""Mode of a new file, its log and its shared memory: owner only, because they hold payloads and hashes of keys."""

_creating = threading.Lock()
"""Closing a file drops all locks of this process on it, so no other thread may open a file that is being created."""

SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8000",  # KiB
    "PRAGMA journal_size_limit = 67108864",
)


def path_of(address: str | os.PathLike[str]) -> Path:
    """Return the absolute path of the file at an address, with a symbolic link resolved.

    Args:
        address: A path, ``sqlite:///relative.db`` or ``sqlite:////absolute.db``.

    Raises:
        InvalidValue: It does not name a file, or is an address of another kind of database.
    """
    text = os.fspath(address)
    scheme, separator, rest = text.partition("://")
    if separator:
        if scheme != "sqlite":
            raise InvalidValue("store", f"{scheme}:// is not SQLite; use sqlite:///file.db or a path")
        if not rest.startswith("/"):
            raise InvalidValue(
                "store", f"{text!r} has no path; use sqlite:///file.db or sqlite:////abs/file.db"
            )
        if "?" in rest:
            raise InvalidValue("store", f"{text!r} has options; pass them to SqliteStore instead")
        text = rest[1:]
    if text == ":memory:" or text.startswith("file:") or not text:
        raise InvalidValue("store", f"{os.fspath(address)!r} is not a file, which a durable store needs")
    path = Path(text).absolute()
    # SQLite keeps the log beside a link's target, not beside the link.
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def connect(path: Path, *, busy_seconds: float, creates: bool = False) -> sqlite3.Connection:
    """Open the file in autocommit mode, in which transactions are started and ended explicitly.

    Args:
        path: The file.
        busy_seconds: How long to wait for a lock.
        creates: Whether to create a missing file, accessible only to its owner, regardless of the umask.
    """
    if creates:
        _create_for_owner(path)
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={'rwc' if creates else 'rw'}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )
    try:
        for setting in SETTINGS:
            connection.execute(setting)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _create_for_owner(path: Path) -> None:
    """Create a missing file with its mode from the start.

    SQLite gives its log and shared memory the same mode. If creation fails, SQLite reports why when it opens the file.
    """
    with _creating:
        try:
            # At the link's target, because O_EXCL does not follow links.
            os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, MODE_OF_NEW))
        except OSError:
            return


def connect_to_read(path: Path, *, busy_seconds: float) -> sqlite3.Connection:
    """Open the file for reading beside the writer."""
    connection = connect(path, busy_seconds=busy_seconds)
    connection.execute("PRAGMA query_only = ON")
    return connection


def prepare(path: Path, location: str, *, busy_seconds: float) -> int:
    """Create a missing file, and migrate its schema, one process at a time.

    Returns:
        Number of applied migrations.

    Raises:
        SchemaTooNew: A newer Signoff has migrated it.
        StoreUnavailable: It cannot be opened or written, or is another program's database.
    """
    try:
        connection = connect(path, busy_seconds=busy_seconds, creates=True)
    except sqlite3.Error as error:
        raise translate(error, location) from error
    try:
        _let_shrink(connection, busy_seconds)
        _with_retries(busy_seconds, lambda: connection.execute("PRAGMA journal_mode = WAL"))
        applied = _with_retries(busy_seconds, lambda: _migrate(connection, location))
        _with_retries(busy_seconds, lambda: _try_to_write(connection))
    except sqlite3.Error as error:
        raise translate(error, location) from error
    finally:
        connection.close()
    return applied


def _let_shrink(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Configure an empty file so that it can shrink while in use. Later that would take a ``VACUUM``."""
    if _number(connection, "page_count"):
        return
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise  # otherwise another process is creating it, and does the same
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")


def version_of(path: Path, location: str) -> int:
    """Return the number of migrations of a file; 0 if it does not exist. The file is neither created nor changed.

    Raises:
        StoreUnavailable: It cannot be read, or is another program's database.
    """
    if not path.exists():
        return 0
    try:
        with closing(connect_to_look(path)) as connection:
            if _number(connection, "application_id") != APPLICATION_ID and not _is_empty(connection):
                raise _of_another_program(location)
            return _version(connection)
    except sqlite3.Error as error:
        raise translate(error, location) from error


def connect_to_look(path: Path) -> sqlite3.Connection:
    """Open an existing file read-only."""
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)


def _of_another_program(location: str) -> StoreUnavailable:
    return StoreUnavailable(location, "it is another program's database; choose another file")


def _with_retries(busy_seconds: float, attempt: Callable[[], T]) -> T:
    """Retry while the file is busy, for operations in which SQLite itself does not wait."""
    give_up_at = time.monotonic() + busy_seconds
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, location: str) -> int:
    if _version(connection) == len(migration_files()):
        return 0
    scripts = migrations()
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _version(connection)
        if found > len(scripts):
            raise SchemaTooNew(location, found, len(scripts))
        if found == 0 and not _is_empty(connection):
            raise _of_another_program(location)
        for script in scripts[found:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(scripts)}")
        connection.execute("COMMIT")
        return len(scripts) - found
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _try_to_write(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")  # succeeds even on a read-only file
    connection.execute("DELETE FROM workers WHERE false")
    connection.execute("ROLLBACK")


def reserve_log(path: Path) -> bool:
    """Give the write-ahead log its final size, at which SQLite starts to reuse it.

    Until then each commit would grow the file and wait for its new size to become durable, which costs about as much
    as the commit itself. The filler is rolled back; the file keeps its size.

    It uses a connection of its own. The store's connection can read meanwhile, and keeps its cache and its statements.

    Returns:
        Whether the log was smaller than that.

    Raises:
        sqlite3.Error: The file cannot be written, or another connection has been writing for ``RESERVE_SECONDS``.
        OSError: There is no log.
    """
    with closing(connect(path, busy_seconds=RESERVE_SECONDS)) as connection:
        size = _number(connection, "wal_autocheckpoint") * _number(connection, "page_size")
        if os.path.getsize(f"{path}-wal") >= size:
            return False
        connection.execute(
            "PRAGMA cache_size = 10"
        )  # pages; further ones are written to the log before the commit
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE filler (bytes BLOB)")
            connection.execute("INSERT INTO filler VALUES (zeroblob(?))", (size,))
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    log = os.open(f"{path}-wal", os.O_RDWR)  # SQLite does not lock this file, so closing it drops no lock
    try:
        os.fsync(log)  # the next commit would wait for all of it
    finally:
        os.close(log)
    return True


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _version(connection: sqlite3.Connection) -> int:
    return _number(connection, "user_version")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None


def migrations() -> list[str]:
    """Return the scripts schema/sqlite/0001.sql, 0002.sql, ... in order."""
    files = sorted(migration_files(), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in files]


def migration_files() -> list[Traversable]:
    """Return the migration files. Opening a store needs only their number, not their content."""
    folder = resources.files("signoff.stores") / "schema" / "sqlite"
    return [file for file in folder.iterdir() if file.name.endswith(".sql")]


def _statements(script: str) -> list[str]:
    statements: list[str] = []
    statement = ""
    for part in re.sub(r"--.*", "", script).split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):  # a trigger contains statements
            statements.append(statement)
            statement = ""
    return statements


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock, or has won the race for it too often."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def is_busy_or_interrupted(error: sqlite3.Error) -> bool:
    """Whether a check of the file was interrupted, so that its result says nothing."""
    return is_busy(error) or _primary_code(error) == sqlite3.SQLITE_INTERRUPT


def is_fault_of_one(error: sqlite3.Error) -> bool:
    """Whether a single operation or row is at fault, not the database or its file."""
    return (
        isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.DataError)
        or _primary_code(error) in OWN_CODES
        or NOT_UNICODE in str(error)
    )


def row_unchanged() -> sqlite3.IntegrityError:
    """Return the error for a row that a trigger has left unchanged without an error of its own."""
    return sqlite3.IntegrityError(ROW_UNCHANGED)


def own_error(error: Exception) -> Exception:
    """Return the error of an operation on one row, without the undecodable text that Python quotes."""
    if isinstance(error, sqlite3.Error) and NOT_UNICODE in str(error):
        return ItemFailed(NO_TEXT)
    return error


def translate(error: sqlite3.Error, location: str) -> StoreError:
    """Return the store error for an SQLite error."""
    code = _primary_code(error)
    if NOT_UNICODE in str(error):
        return StoreUnavailable(location, NO_TEXT)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(location)
    if code == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(location)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreDamaged(location, str(error))
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(location, f"{error} (check that its directory exists and is writable)")
    return StoreUnavailable(location, str(error))


def _primary_code(error: sqlite3.Error) -> int:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else code & 0xFF
