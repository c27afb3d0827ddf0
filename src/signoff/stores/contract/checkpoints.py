"""The operations on checkpoints, the saved states of graphs of other libraries (``signoff.integrations.langgraph``)."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from signoff.errors import InvalidValue, PayloadTooLarge
from signoff.records.checkpoints import (
    Checkpoint,
    CheckpointFilter,
    CheckpointRef,
    CheckpointSummary,
    CheckpointWrite,
    NewCheckpoint,
)
from signoff.records.names import (
    LONGEST_CHOSEN_BYTES,
    LONGEST_ID_BYTES,
    LONGEST_NAME_BYTES,
    check_size,
    check_text,
)
from signoff.records.paging import Page
from signoff.stores.contract.operations import reads, writes

MOST_LISTED: Final = 100
"""Maximum length of a page, whatever its ``limit``."""

MOST_DELETED: Final = 1000
"""The most checkpoints that one operation deletes."""

MOST_CHANNELS: Final = 1000
"""The most channels of a checkpoint, and the most writes in one operation."""

LARGEST_WRITE: Final = 5 * 1024 * 1024
"""The most bytes that one operation saves."""

LARGEST_STATE: Final = 5 * 1024 * 1024
"""The most bytes of a checkpoint's channels, and of its writes. It is read as a whole: a server holds it five times."""

BYTES_OF_WRITE: Final = 100
"""What a write counts besides its value and its texts, so that writes without a value are bounded, too."""

LARGEST_METADATA: Final = 64 * 1024
"""The most bytes of a checkpoint's metadata, which lists return."""

LONGEST_PART: Final = 256
"""The longest id of a checkpoint and of a task, and the longest version, in bytes."""

LONGEST_TASK_PATH: Final = 2000
"""The longest path of a task, in bytes."""


class CheckpointStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps checkpoints.

    A checkpoint holds only the channels that changed. The values of the others are those of the versions it names.
    """

    @writes(lane="thread")
    async def put_checkpoint(self, thread_id: str, new: NewCheckpoint) -> None:
        """Save a checkpoint, or replace the one with this id. A version of a channel that is known keeps its value.

        Raises:
            InvalidValue: An id, a name or a version is too long for an index.
            PayloadTooLarge: It has more than ``LARGEST_WRITE`` bytes, or its channels more than ``LARGEST_STATE``.
        """

    @writes(lane="thread")
    async def put_checkpoint_writes(
        self, thread_id: str, checkpoint: CheckpointRef, writes: Sequence[CheckpointWrite]
    ) -> None:
        """Save the writes of tasks. The checkpoint need not exist yet.

        A write whose task and index are known changes nothing, unless its index is negative: then it replaces the
        known one.

        Raises:
            InvalidValue: An id or a name is too long for an index.
            PayloadTooLarge: They have more than ``LARGEST_WRITE`` bytes, or the checkpoint's writes more than
                ``LARGEST_STATE``.
        """

    @reads
    async def get_checkpoint(self, thread_id: str, path: str, id: str | None = None) -> Checkpoint:
        """Return a checkpoint; without ``id``, the one with the largest id.

        Raises:
            NotFound: There is none.
        """

    @reads
    async def list_checkpoints(
        self, which: CheckpointFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[CheckpointSummary]:
        """List checkpoints, the largest ids first. ``after`` is the ``next`` of the previous page."""

    @writes(lane="thread")
    async def delete_checkpoints(self, thread_id: str, which: Sequence[CheckpointRef]) -> int:
        """Delete checkpoints with their writes, and the values that no other checkpoint needs.

        Checkpoints that followed a deleted one have no parent then.

        Returns:
            How many existed.

        Raises:
            InvalidValue: They are more than ``MOST_DELETED``.
        """

    @writes(lane="thread")
    async def delete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread, with all that belongs to them; also writes without a checkpoint."""


def check_thread(thread_id: str) -> None:
    """Raise InvalidValue for the id of a thread that not every store can keep."""
    check_size("thread_id", check_text("thread_id", thread_id), LONGEST_ID_BYTES)


def check_ref(ref: CheckpointRef | NewCheckpoint) -> None:
    """Raise InvalidValue for a checkpoint's id or path that not every store can keep."""
    check_size("path", check_text("path", ref.path), LONGEST_CHOSEN_BYTES)
    check_size("id", check_text("id", ref.id), LONGEST_PART)


def check_refs(refs: Sequence[CheckpointRef]) -> None:
    """Raise InvalidValue for too many checkpoints, or for one that no store can keep."""
    if len(refs) > MOST_DELETED:
        raise InvalidValue("which", f"{len(refs):,} checkpoints are more than {MOST_DELETED:,}")
    for ref in refs:
        check_ref(ref)


def check_checkpoint(new: NewCheckpoint) -> None:
    """Raise InvalidValue or PayloadTooLarge for a checkpoint that not every store can keep."""
    check_ref(new)
    for name, text in (("parent_id", new.parent_id), ("graph_run", new.graph_run)):
        if text is not None:
            check_size(name, check_text(name, text), LONGEST_PART)
    if len(new.versions) > MOST_CHANNELS:
        raise InvalidValue("versions", f"{len(new.versions):,} channels are more than {MOST_CHANNELS:,}")
    pairs = [*new.versions.items(), *((each.channel, each.version) for each in new.values)]
    for channel, version in pairs:
        _check_channel(channel)
        check_size("version", check_text("version", version), LONGEST_PART)
    _check_types(each.value.type for each in new.values)
    _check_types((new.state.type, new.metadata.type))
    if (size := len(new.metadata.data)) > LARGEST_METADATA:
        raise PayloadTooLarge("metadata", size, LARGEST_METADATA)
    size = len(new.state.data) + sum(len(each.value.data) for each in new.values)
    if size > LARGEST_WRITE:
        largest = max(new.values, key=lambda each: len(each.value.data), default=None)
        path = "checkpoint" if largest is None else f"checkpoint, mostly channel {largest.channel!r}"
        raise PayloadTooLarge(path, size, LARGEST_WRITE)


def check_writes(writes: Sequence[CheckpointWrite]) -> None:
    """Raise InvalidValue or PayloadTooLarge for writes that not every store can keep."""
    if len(writes) > MOST_CHANNELS:
        raise InvalidValue("writes", f"{len(writes):,} writes are more than {MOST_CHANNELS:,}")
    for each in writes:
        check_size("task_id", check_text("task_id", each.task_id), LONGEST_PART)
        check_size("task_path", check_text("task_path", each.task_path), LONGEST_TASK_PATH)
        _check_channel(each.channel)
    _check_types(each.value.type for each in writes)
    if (size := sum(len(each.value.data) for each in writes)) > LARGEST_WRITE:
        largest = max(writes, key=lambda each: len(each.value.data))
        raise PayloadTooLarge(f"writes, mostly to channel {largest.channel!r}", size, LARGEST_WRITE)


def check_room(what: str, size: int) -> None:
    """Raise PayloadTooLarge if all channels or writes of a checkpoint are too large to be read together."""
    if size > LARGEST_STATE:
        raise PayloadTooLarge(what, size, LARGEST_STATE)


def _check_channel(channel: str) -> None:
    check_size("channel", check_text("channel", channel), LONGEST_NAME_BYTES)


def _check_types(types: Iterable[str]) -> None:
    for type in types:
        check_size("type", check_text("type", type), LONGEST_PART)
