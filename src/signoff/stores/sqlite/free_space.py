"""Returns an SQLite file's free pages to the file system, while the file is in use."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from signoff.errors import InvalidValue
from signoff.stores.sqlite.schema import connect, translate

SLICE_SECONDS: Final = 0.02
"""Target duration of one transaction, during which other commits wait."""

REST: Final = 3
"""Pause after each transaction, as a multiple of its duration."""

FEWEST_PAGES: Final = 256
"""Minimum pages per transaction, however slow the disk is: each transaction waits for it once."""

MOST_PAGES: Final = 16_384
INCREMENTAL: Final = 2


@dataclass(frozen=True, slots=True)
class Space:
    """The use of a file's bytes.

    Attributes:
        total: Size of all pages.
        free: Size of the unused pages.
        can_be_given_back: Whether the file can shrink while it is in use.
    """

    total: int
    free: int
    can_be_given_back: bool


def space_of(db: sqlite3.Connection) -> Space:
    """Return the use of a file's bytes."""
    size, pages, free, mode = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_size", "page_count", "freelist_count", "auto_vacuum")
    )
    return Space(size * pages, size * free, mode == INCREMENTAL)


def give_back(
    path: Path, location: str, *, busy_seconds: float, sleep: Callable[[float], None] = time.sleep
) -> int:
    """Shrink a file by its free pages, in short transactions with pauses between them.

    Args:
        path: The file, which may be in use.
        location: The store's address, for messages.
        busy_seconds: How long to wait for other commits.
        sleep: Pauses.

    Returns:
        Number of freed bytes.

    Raises:
        InvalidValue: The file cannot shrink while it is in use; see ``rebuild``.
        StoreUnavailable: The file cannot be written.
    """
    with _opened(path, location, busy_seconds) as db:
        before = space_of(db)
        if not before.can_be_given_back:
            raise InvalidValue(
                "store",
                f"{location} was created by an earlier version, and cannot shrink while in use. Stop all processes "
                "that use it, then run signoff compact --rebuild once",
            )
        for took in _slices(db):
            sleep(took * REST)
        db.execute(
            "PRAGMA wal_checkpoint(PASSIVE)"
        ).fetchone()  # the file shrinks when the log is written back
        return max(0, before.total - space_of(db).total)


def _slices(db: sqlite3.Connection) -> Iterator[float]:
    """Free all unused pages. Yields after each transaction for how many seconds others had to wait."""
    pages = FEWEST_PAGES
    while db.execute("PRAGMA freelist_count").fetchone()[0]:
        began = time.monotonic()
        # As a script, because ``execute`` would stop after the first page. It is one transaction.
        db.executescript(f"PRAGMA incremental_vacuum({pages})")
        took = time.monotonic() - began
        yield took
        if took > SLICE_SECONDS:
            pages = max(pages // 2, FEWEST_PAGES)
        elif took < SLICE_SECONDS / 2:
            pages = min(pages * 2, MOST_PAGES)


def rebuild(path: Path, location: str, *, busy_seconds: float) -> int:
    """Rewrite a file without free pages, so that it can shrink while in use from then on.

    Nothing can be committed meanwhile, and it needs twice the file's size in additional space.

    Returns:
        Number of freed bytes.

    Raises:
        StoreUnavailable: The file cannot be written, or is in use.
    """
    with _opened(path, location, busy_seconds) as db:
        before = os.path.getsize(path)
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return max(0, before - os.path.getsize(path))


@contextmanager
def _opened(path: Path, location: str, busy_seconds: float) -> Generator[sqlite3.Connection]:
    try:
        with closing(connect(path, busy_seconds=busy_seconds)) as db:
            yield db
    except sqlite3.Error as error:
        raise translate(error, location) from error
