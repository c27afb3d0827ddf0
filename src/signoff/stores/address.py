"""Which store an address names."""

from __future__ import annotations

from signoff.errors import InvalidValue
from signoff.stores.base import Store
from signoff.stores.sqlite import SqliteStore


def store_at(address: str, *, namespace: str = "default") -> Store:
    """Return the store at an address, not yet open.

    Args:
        address: A path, ``sqlite:///file.db``, or ``postgresql://user:password@host:port/database``.
        namespace: The tenant.

    Raises:
        InvalidValue: It is no address of a store, or what the store needs is not installed.
    """
    scheme = address.partition("://")[0]
    if scheme in ("postgresql", "postgres"):
        try:
            from signoff.stores.postgres import PostgresStore
        except ImportError as error:
            hint = "Postgres needs the extra `postgres`: pip install 'signoff[postgres]'"
            raise InvalidValue("store", f"{hint} ({error})") from error
        return PostgresStore(address, namespace=namespace)
    return SqliteStore(address, namespace=namespace)
