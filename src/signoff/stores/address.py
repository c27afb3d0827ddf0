"""Opens the store that an address names."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from signoff.codec.ciphers import Ciphers
from signoff.errors import InvalidValue
from signoff.runtime.clock import Clock
from signoff.stores.contract.store import Store
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.encrypted import encrypted

KEYS_VARIABLE: Final = "SIGNOFF_ENCRYPTION_KEYS"
PLAINTEXT_VARIABLE: Final = "SIGNOFF_ENCRYPTION_PLAINTEXT"
"""``refuse``, or ``read`` (the default)."""


def is_postgres(address: str) -> bool:
    """Whether an address names a Postgres database."""
    return address.startswith(("postgresql://", "postgres://"))


def store_at(
    address: str,
    *,
    namespace: str = "default",
    patience_seconds: float | None = None,
    migrates: bool = True,
    clock: Clock | None = None,
) -> Store:
    """Return the store at an address, not yet open; encrypted, if ``SIGNOFF_ENCRYPTION_KEYS`` is set.

    Args:
        address: A path, ``sqlite:///file.db``, or ``postgresql://user:password@host:port/database``.
        namespace: The tenant.
        patience_seconds: How long operations wait for an unavailable database server; None: the default.
        migrates: Whether opening a Postgres database migrates its schema.
        clock: The clock of everything, leases included, for tests; None: the store's own clocks.

    Raises:
        InvalidValue: The address or the keys are invalid, or a package that the store needs is missing.
    """
    store = _database_at(address, namespace, patience_seconds, migrates, clock)
    keys = os.environ.get(KEYS_VARIABLE, "").strip()
    plaintext = os.environ.get(PLAINTEXT_VARIABLE, "read").strip()
    if plaintext not in ("read", "refuse") or (plaintext == "refuse" and not keys):
        raise InvalidValue(
            PLAINTEXT_VARIABLE, f"it is {plaintext!r}; it must be 'read', or with keys also 'refuse'"
        )
    return encrypted(store, Ciphers.parse(keys), refuses_plaintext=plaintext == "refuse") if keys else store


def _database_at(
    address: str, namespace: str, patience_seconds: float | None, migrates: bool, clock: Clock | None
) -> Store:
    if is_postgres(address):
        try:
            from signoff.stores.postgres.store import PostgresStore
        except ImportError as error:
            hint = "Postgres needs the extra `postgres`: pip install 'signoff[postgres]'"
            raise InvalidValue("store", f"{hint} ({error})") from error
        make = partial(
            PostgresStore, address, namespace=namespace, migrates=migrates, clock=clock, lease_clock=clock
        )
        return make() if patience_seconds is None else make(patience_seconds=patience_seconds)
    scheme, separator, _ = address.partition("://")
    if separator and scheme in ("http", "https"):
        raise InvalidValue("store", f"{address!r} is a server, not a database; use --url or Signoff.remote")
    if separator and scheme != "sqlite":
        raise InvalidValue(
            "store",
            f"{scheme}:// is not a supported database; use sqlite:///file.db or postgresql://user@host/database",
        )
    return SqliteStore(address, namespace=namespace, clock=clock, lease_clock=clock)
