"""Checkpoints encrypted at rest: states, metadata, values and writes. Ids, channels and versions are not encrypted.

Each value is bound to its namespace, thread, subgraph and place. ``EncryptedStore`` passes the operations on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

from signoff.codec.ciphers import MARK, CannotDecrypt, Ciphers
from signoff.errors import MissingKey
from signoff.records.checkpoints import (
    Checkpoint,
    CheckpointRef,
    CheckpointSummary,
    CheckpointWrite,
    NewCheckpoint,
    Serialized,
)
from signoff.records.paging import Page
from signoff.stores.contract.checkpoints import CheckpointStore
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Store

CHECKPOINTS: Final = CheckpointStore.__name__
"""The noun of the operations."""

Change = Callable[[Serialized, str], Serialized]


class EncryptedCheckpoints:
    """Performs the operations on checkpoints on a store of encrypted ones.

    A checkpoint that cannot be decrypted raises MissingKey, also in a list: no graph goes on without its state.

    Args:
        inner: The store.
        ciphers: The keys.
        refuses_plaintext: Whether reading an unencrypted value raises MissingKey.
    """

    def __init__(self, inner: Store, ciphers: Ciphers, refuses_plaintext: bool) -> None:
        self._inner = inner
        self._ciphers = ciphers
        self._refuses_plaintext = refuses_plaintext

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """Encrypt the arguments of an operation, and decrypt its result."""
        thread_id: str = arguments.get("thread_id", "")
        if isinstance(new := arguments.get("new"), NewCheckpoint):
            arguments = {**arguments, "new": _changed(thread_id, new, self._seal)}
        if "writes" in arguments:
            writes = _changed_writes(thread_id, arguments["checkpoint"], arguments["writes"], self._seal)
            arguments = {**arguments, "writes": writes}
        found = await operation.call(self._inner, arguments)
        if isinstance(found, Checkpoint):
            ref = CheckpointRef(found.path, found.id)
            writes = _changed_writes(thread_id, ref, found.writes, self._open)
            return replace(_changed(thread_id, found, self._open), writes=writes)
        if isinstance(found, Page):
            page = cast("Page[CheckpointSummary]", found)
            return replace(page, items=tuple(map(self._summary, page.items)))
        return found

    def _summary(self, found: CheckpointSummary) -> CheckpointSummary:
        place = _place(found.thread_id, found.path, "metadata", found.id)
        return replace(found, metadata=self._open(found.metadata, place))

    def _seal(self, value: Serialized, place: str) -> Serialized:
        data = self._ciphers.encrypt_bytes(value.data, bound_to=self._bound_to(value, place))
        return replace(value, data=data)

    def _open(self, value: Serialized, place: str) -> Serialized:
        location = self._inner.location
        if self._refuses_plaintext and not value.data.startswith(MARK.encode()):
            raise MissingKey(location, "it is not encrypted, so its writer had no keys")
        try:
            data = self._ciphers.decrypt_bytes(value.data, bound_to=self._bound_to(value, place))
        except CannotDecrypt as error:
            raise MissingKey(location, str(error)) from None
        return replace(value, data=data)

    def _bound_to(self, value: Serialized, place: str) -> str:
        return json.dumps([self._inner.namespace, "checkpoint", place, value.type])


def _changed(thread_id: str, checkpoint: Any, change: Change) -> Any:
    """Return a checkpoint, new or found, with its state, metadata and values changed."""
    path, id = checkpoint.path, checkpoint.id
    return replace(
        checkpoint,
        state=change(checkpoint.state, _place(thread_id, path, "state", id)),
        metadata=change(checkpoint.metadata, _place(thread_id, path, "metadata", id)),
        values=tuple(
            replace(
                each, value=change(each.value, _place(thread_id, path, "value", each.channel, each.version))
            )
            for each in checkpoint.values
        ),
    )


def _changed_writes(
    thread_id: str, checkpoint: CheckpointRef, writes: Any, change: Change
) -> tuple[CheckpointWrite, ...]:
    place = (thread_id, checkpoint.path, "write", checkpoint.id)
    return tuple(
        replace(each, value=change(each.value, _place(*place, each.task_id, str(each.index))))
        for each in writes
    )


def _place(*parts: str) -> str:
    return json.dumps(parts)
