"""New files of SQLite stores: migrated once in a process, then copied, which takes a tenth of the time."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from signoff.stores.sqlite import database_file, schema


@contextmanager
def copied_files(folder: Path) -> Iterator[None]:
    """Have the stores that are opened in this process begin with a copy of a migrated file where there is none.

    A copy is opened like a file that was there before. The command ``migrate`` and other processes make their own.

    Args:
        folder: Where the file is that is copied.
    """
    made = folder / "migrated.db"

    def prepare(path: Path, location: str, *, busy_seconds: float) -> int:
        if not made.exists():
            schema.prepare(made, location, busy_seconds=busy_seconds)
        if not path.exists():
            with suppress(OSError):  # of the folder: the store says what is wrong with it
                _copy(made, path)
        return schema.prepare(path, location, busy_seconds=busy_seconds)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database_file, "prepare", prepare)
        yield


def _copy(made: Path, path: Path) -> None:
    """Copy a file to a place where another process may make one at the same time."""
    partial = path.with_name(f"{path.name}-{secrets.token_hex(4)}")
    try:
        shutil.copy(made, partial)  # with its mode
        os.link(partial, path)  # which fails if there is one by now
    finally:
        partial.unlink(missing_ok=True)
