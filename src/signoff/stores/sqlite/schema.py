"""Opening an SQLite file: its address, its settings, its schema, and what its errors mean."""

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
from signoff.stores.shared.one_by_one import LEFT_AS_IT_WAS, ItemFailed

T = TypeVar("T")

OWN_CODES: Final = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
)
"""Error codes of a single operation, such as invalid JSON in its row, or a trigger that refuses it."""

NOT_UNICODE: Final = "Could not decode to UTF-8"
"""What Python says of a text in a row that it cannot read, which it quotes. The error has no code."""

NO_TEXT: Final = "a text in a row is not Unicode"

APPLICATION_ID = 0x5167_6E6F  # marks a file as ours ("Qgno")
CACHED_STATEMENTS = 512

MODE_OF_NEW = 0o600
"""Who may read and write a new file, its log and its shared memory: payloads and hashes of keys are in them."""

_creating = threading.Lock()
"""Closing a file drops all locks that this process has on it: no other thread opens what is being created."""

SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8000",  # KiB
    "PRAGMA journal_size_limit = 67108864",
)


def path_of(address: str | os.PathLike[str]) -> Path:
    """Return the absolute path of the file that ``address`` names, or that the link leads to which it names.

    Args:
        address: A path, ``sqlite:///relative.db`` or ``sqlite:////absolute.db``.

    Raises:
        InvalidValue: It names no file, or another kind of database.
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
        raise InvalidValue("store", f"{os.fspath(address)!r} is not a file; durable work needs one")
    path = Path(text).absolute()
    # SQLite keeps the log where a link leads, not beside the link.
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def connect(path: Path, *, busy_seconds: float, creates: bool = False) -> sqlite3.Connection:
    """Open the file in autocommit mode: transactions are begun and ended in words.

    Args:
        path: The file.
        busy_seconds: How long to wait for a lock.
        creates: Whether to create a file that is not there. It is for its owner alone, whatever the umask.
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
    """Create the file, if it is not there, with its mode from its first instant on.

    SQLite gives its log and its shared memory the same mode. It says itself what stands in the way.
    """
    with _creating:
        try:
            # Where a link leads, because O_EXCL follows none.
            os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, MODE_OF_NEW))
        except OSError:
            return


def connect_to_read(path: Path, *, busy_seconds: float) -> sqlite3.Connection:
    """Open the file for reading beside the writer."""
    connection = connect(path, busy_seconds=busy_seconds)
    connection.execute("PRAGMA query_only = ON")
    return connection


def prepare(path: Path, location: str, *, busy_seconds: float) -> int:
    """Create the file if need be, and bring its schema up to date, one process at a time.

    Returns:
        How many migrations were applied.

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
        _patiently(busy_seconds, lambda: connection.execute("PRAGMA journal_mode = WAL"))
        applied = _patiently(busy_seconds, lambda: _migrate(connection, location))
        _patiently(busy_seconds, lambda: _try_to_write(connection))
    except sqlite3.Error as error:
        raise translate(error, location) from error
    finally:
        connection.close()
    return applied


def _let_shrink(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Have a file that has nothing in it yet be one that can shrink beside work; later that takes a ``VACUUM``."""
    if _number(connection, "page_count"):
        return
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise  # else another process creates it just now, and has done so
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")


def version_of(path: Path, location: str) -> int:
    """Return how many migrations a file has; 0 if there is no such file. It is neither created nor changed.

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
    """Open a file that is there so that nothing can be changed in it."""
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)


def _of_another_program(location: str) -> StoreUnavailable:
    return StoreUnavailable(location, "it is the database of another program; choose another file")


def _patiently(busy_seconds: float, attempt: Callable[[], T]) -> T:
    """Try again while others are busy where SQLite does not wait: it switches a new file's log, or loses a race."""
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
    connection.execute("BEGIN IMMEDIATE")  # on a read-only file this alone succeeds
    connection.execute("DELETE FROM workers WHERE false")
    connection.execute("ROLLBACK")


def reserve_log(connection: sqlite3.Connection) -> bool:
    """Give the write-ahead log's file the size that it has when SQLite begins to use it from the front again.

    Until then each commit would enlarge the file and wait for its new size to become durable as well, which costs
    about as much as the commit itself. What is written here is rolled back; the file keeps its size.

    Returns:
        Whether it did not have that size.
    """
    file = connection.execute("PRAGMA database_list").fetchone()[2]
    size = _number(connection, "wal_autocheckpoint") * _number(connection, "page_size")
    if os.path.getsize(f"{file}-wal") >= size:
        return False
    cache_size = _number(connection, "cache_size")
    connection.execute("PRAGMA cache_size = 10")  # pages; others go to the log before the commit
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE filler (bytes BLOB)")
        connection.execute("INSERT INTO filler VALUES (zeroblob(?))", (size,))
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute(f"PRAGMA cache_size = {cache_size}")
    log = os.open(f"{file}-wal", os.O_RDWR)  # SQLite locks other files: closing this one drops no lock
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
    """Return the files of the scripts: to know how many there are, a store that opens need not read them."""
    folder = resources.files("signoff.stores") / "schema" / "sqlite"
    return [file for file in folder.iterdir() if file.name.endswith(".sql")]


def _statements(script: str) -> list[str]:
    statements: list[str] = []
    statement = ""
    for part in re.sub(r"--.*", "", script).split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):  # a trigger has others inside
            statements.append(statement)
            statement = ""
    return statements


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock that was needed, or was first too often when both began to read."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def is_busy_or_interrupted(error: sqlite3.Error) -> bool:
    """Whether a look at the file could not be brought to its end, and so says nothing of the file."""
    return is_busy(error) or _primary_code(error) == sqlite3.SQLITE_INTERRUPT


def is_fault_of_one(error: sqlite3.Error) -> bool:
    """Whether one operation or row is at fault, and not the database or its file: others may well succeed."""
    return (
        isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.DataError)
        or _primary_code(error) in OWN_CODES
        or NOT_UNICODE in str(error)
    )


def left_as_it_was() -> sqlite3.IntegrityError:
    """Return the error of a row that a trigger has kept from being changed, without one of its own."""
    return sqlite3.IntegrityError(LEFT_AS_IT_WAS)


def own_error(error: Exception) -> Exception:
    """Return why an operation on one row failed, without what Python quotes of a text that is not Unicode."""
    if isinstance(error, sqlite3.Error) and NOT_UNICODE in str(error):
        return ItemFailed(NO_TEXT)
    return error


def translate(error: sqlite3.Error, location: str) -> StoreError:
    """Return what an error of SQLite means for a user of the store."""
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
        return StoreUnavailable(location, f"{error} (does its folder exist, and may it be written?)")
    return StoreUnavailable(location, str(error))


def _primary_code(error: sqlite3.Error) -> int:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else code & 0xFF
