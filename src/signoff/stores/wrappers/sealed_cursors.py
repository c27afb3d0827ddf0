"""Seals the cursors of lists for clients of a server.

Stores page by row number, and rows of all namespaces share one sequence. A number, and even the difference of two,
would show how active other tenants are.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from typing import Any, Final, cast

from signoff.errors import InvalidValue
from signoff.records.paging import Page
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.store_wrapper import StoreWrapper

NUMBERED: Final = frozenset(
    {
        "list_runs",
        "list_promises",
        "list_audit",
        "list_rules",
        "list_tokens",
        "list_deliveries",
        "list_sessions",
        "list_invocations",
    }
)
"""Lists that are paged by row number. The others are paged by ids and names, which their rows contain anyway."""

_HALVES: Final = ("signoff:cursors:0", "signoff:cursors:1")
"""Channels that send nothing. Their cursors are random numbers, which are the key of a namespace."""

_BITS: Final = 62
_NUMBER_BYTES: Final = 8
_TAG_BYTES: Final = 12
_CURSOR: Final = re.compile("[A-Za-z0-9_-]{27}")


class CursorKeys:
    """The keys of namespaces. Each is stored in its namespace, so that all servers of a database share it."""

    def __init__(self) -> None:
        self._keys: dict[str, bytes] = {}

    async def of(self, store: Store) -> bytes:
        """Return the key of a store's namespace. It is created on first use."""
        if store.namespace not in self._keys:
            halves = [await _number(store, name) for name in _HALVES]
            self._keys[store.namespace] = b"".join(half.to_bytes(8, "big") for half in halves)
        return self._keys[store.namespace]


async def _number(store: Store, name: str) -> int:
    while (number := await store.read_cursor(name)) is None:
        await store.expand(name, None, secrets.randbits(_BITS), [])
    return number


def with_sealed_cursors(store: Store, keys: CursorKeys) -> Store:
    """Return a wrapper whose cursors are opaque, and valid for the same list and namespace only."""
    return cast("Store", CursorSealingStore(store, keys))


class CursorSealingStore(StoreWrapper):
    """Seals the cursors of lists.

    Args:
        inner: A store.
        keys: Seal cursors.
    """

    def __init__(self, inner: Store, keys: CursorKeys) -> None:
        super().__init__(inner)
        self._keys = keys

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        if operation.name not in NUMBERED:
            return await operation.call(self.inner, arguments)
        if isinstance(after := arguments["after"], str):
            key = await self._keys.of(self.inner)
            arguments = {**arguments, "after": _opened(after, operation.name, key)}
        page: Page[Any] = await operation.call(self.inner, arguments)
        if page.next is None:
            return page
        return Page(page.items, _sealed(page.next, operation.name, await self._keys.of(self.inner)))


# The tag is computed from the list and the number, and also masks the number. So one number has one cursor.


def _sealed(number: str, name: str, key: bytes) -> str:
    plain = int(number).to_bytes(_NUMBER_BYTES, "big")
    tag = hmac.digest(key, b"tag" + name.encode() + b"\0" + plain, "sha256")[:_TAG_BYTES]
    return base64.urlsafe_b64encode(tag + _hidden(plain, tag, key)).rstrip(b"=").decode()


def _opened(cursor: str, name: str, key: bytes) -> str:
    """Raises InvalidValue."""
    if _CURSOR.fullmatch(cursor) is not None:
        written = base64.urlsafe_b64decode(f"{cursor}=")
        plain = _hidden(written[_TAG_BYTES:], written[:_TAG_BYTES], key)
        number = str(int.from_bytes(plain, "big"))
        if hmac.compare_digest(_sealed(number, name, key), cursor):
            return number
    raise InvalidValue("after", f"{cursor!r} is not a cursor of this list; pass a page's `next`")


def _hidden(text: bytes, tag: bytes, key: bytes) -> bytes:
    mask = hmac.digest(key, b"mask" + tag, "sha256")
    return bytes(a ^ b for a, b in zip(text, mask, strict=False))
