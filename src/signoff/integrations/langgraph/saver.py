"""``SignoffSaver``: LangGraph's checkpoints in Signoff's store."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Self, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from signoff import NotFound, Signoff
from signoff.errors import InvalidValue
from signoff.integrations.langgraph.pruning import outdated
from signoff.integrations.langgraph.store_thread import StoreThread
from signoff.records.checkpoints import (
    ChannelValue,
    CheckpointFilter,
    CheckpointRef,
    CheckpointSummary,
    CheckpointWrite,
    NewCheckpoint,
    Serialized,
)
from signoff.records.checkpoints import Checkpoint as Saved
from signoff.stores.contract.store import Store

DELETED_AT_ONCE = 500


class SignoffSaver(BaseCheckpointSaver[str]):
    """A LangGraph checkpointer that keeps checkpoints in the store of a Signoff app: SQLite or Postgres.

    All methods exist blocking and async, and may be called from any thread and any event loop.

    Values are serialized by LangGraph's ``JsonPlusSerializer``, without pickle. With ``SIGNOFF_ENCRYPTION_KEYS`` they
    are encrypted.

    Args:
        target: A ``Signoff`` app, whose store and namespace are used, or an address: ``sqlite:///file.db``,
            ``postgresql://user@host/db``, or ``https://server`` with a worker key in ``SIGNOFF_WORKER_KEY``.
        serde: Another serializer.

    Raises:
        InvalidValue: The address is not valid, or ``serde`` would unpickle.

    Example::

        saver = SignoffSaver("sqlite:///signoff.db")
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": []}, {"configurable": {"thread_id": "conv-42"}})
    """

    def __init__(self, target: Signoff | str, *, serde: SerializerProtocol | None = None) -> None:
        if getattr(serde, "pickle_fallback", False):
            raise InvalidValue("serde", "pickle_fallback would unpickle what the store holds; leave it out")
        super().__init__(serde=serde or JsonPlusSerializer())
        self._owns_app = isinstance(target, str)
        self._app = _app_at(target) if isinstance(target, str) else target
        self._thread = StoreThread()
        self._opened_in = 0

    @property
    def store(self) -> Store:
        """The store that keeps the checkpoints."""
        return self._app.store

    # Opening and closing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Close the store, if the saver was made with an address."""
        if self._owns_app and self._opened_in == os.getpid():
            self._thread.call(self.store.close())
        self._opened_in = 0
        self._thread.stop()

    async def aclose(self) -> None:
        """Close the store, if the saver was made with an address."""
        if self._owns_app and self._opened_in == os.getpid():
            await self.store.close()
        self._opened_in = 0
        self._thread.stop()

    async def _opened(self) -> Store:
        if self._opened_in != os.getpid():  # opening is repeatable
            await self.store.open()
            self._opened_in = os.getpid()
        return self.store

    # Reading

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that ``config`` names, or the latest of its thread and subgraph."""
        thread_id, path = _place(config)
        return await self._read(thread_id, path, get_checkpoint_id(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the latest first. ``filter`` compares values of their metadata as Python does."""
        which = _which(config, before)
        async for summary in self._summaries(which):
            if limit is not None and limit <= 0:
                return
            if filter:
                metadata = self._load(summary.metadata)
                if any(metadata.get(name) != value for name, value in filter.items()):
                    continue
            found = await self._read(summary.thread_id, summary.path, summary.id)
            if found is None:
                continue  # deleted meanwhile
            limit = None if limit is None else limit - 1
            yield found

    # Writing

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint. Only the channels in ``new_versions`` are written.

        Raises:
            PayloadTooLarge: It is larger than a store keeps; the error names the largest channel.
        """
        thread_id, path = _place(config)
        state: dict[str, Any] = {**checkpoint}
        values: dict[str, Any] = state.pop("channel_values")
        kept = get_checkpoint_metadata(config, metadata)
        new = NewCheckpoint(
            path,
            checkpoint["id"],
            self._dump(state),
            self._dump(kept),
            {channel: str(version) for channel, version in checkpoint["channel_versions"].items()},
            tuple(
                ChannelValue(channel, str(version), self._dump(values[channel]))
                for channel, version in new_versions.items()
                if channel in values
            ),
            get_checkpoint_id(config),
            _text(kept.get("run_id")),
        )
        await (await self._opened()).put_checkpoint(thread_id, new)
        return _config(config.get("configurable", {})["thread_id"], path, checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task has written. Repeated, it changes nothing, except in special channels such as errors.

        Raises:
            PayloadTooLarge: They are larger than a store keeps.
        """
        thread_id, path = _place(config)
        kept = [
            CheckpointWrite(
                task_id, WRITES_IDX_MAP.get(channel, index), channel, self._dump(value), task_path
            )
            for index, (channel, value) in enumerate(writes)
        ]
        ref = CheckpointRef(path, config.get("configurable", {})["checkpoint_id"])
        await (await self._opened()).put_checkpoint_writes(thread_id, ref, kept)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread: its checkpoints, those of its subgraphs, values and writes."""
        await (await self._opened()).delete_thread(str(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of LangGraph's runs: those whose metadata has one of these as ``run_id``."""
        for run_id in run_ids:
            by_thread: dict[str, list[CheckpointRef]] = {}
            async for each in self._summaries(CheckpointFilter(graph_run=str(run_id))):
                by_thread.setdefault(each.thread_id, []).append(CheckpointRef(each.path, each.id))
            for thread_id, refs in by_thread.items():
                await self._delete(thread_id, refs)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread to another one, the oldest first. Repeated, it completes a copy."""
        store = await self._opened()
        which = CheckpointFilter(thread_id=str(source_thread_id))
        for each in reversed([each async for each in self._summaries(which)]):
            try:
                found = await store.get_checkpoint(each.thread_id, each.path, each.id)
            except NotFound:
                continue  # deleted meanwhile
            state = self._load(found.state)
            versions = {channel: str(version) for channel, version in state["channel_versions"].items()}
            run = _text(self._load(found.metadata).get("run_id"))
            copied = NewCheckpoint(
                found.path, found.id, found.state, found.metadata, versions, (), found.parent_id, run
            )
            for values in _parts(found.values):
                # A version that is known keeps its value, so that each part adds some.
                part = NewCheckpoint(
                    found.path, found.id, found.state, found.metadata, versions, values, found.parent_id, run
                )
                await store.put_checkpoint(str(target_thread_id), part)
            if not found.values:
                await store.put_checkpoint(str(target_thread_id), copied)
            for write in found.writes:
                ref = CheckpointRef(found.path, found.id)
                await store.put_checkpoint_writes(str(target_thread_id), ref, [write])

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete old checkpoints of threads.

        Args:
            thread_ids: The threads.
            strategy: ``keep_latest`` keeps the latest checkpoint of each subgraph, and those from which a
                ``DeltaChannel`` is rebuilt. ``delete`` keeps none.

        Raises:
            ValueError: The strategy is another one.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy {strategy!r} is neither 'keep_latest' nor 'delete'")
        for thread_id in map(str, thread_ids):
            if strategy == "delete":
                await self.adelete_thread(thread_id)
                continue
            listed = [each async for each in self._summaries(CheckpointFilter(thread_id=thread_id))]
            metadata = {(each.path, each.id): self._load(each.metadata) for each in listed}
            await self._delete(thread_id, await outdated(listed, metadata, self._channels_of))

    async def _channels_of(self, thread_id: str, path: str, id: str) -> set[str]:
        found = await self._read(thread_id, path, id)
        return set() if found is None else set(found.checkpoint["channel_values"])

    async def _delete(self, thread_id: str, refs: Sequence[CheckpointRef]) -> None:
        store = await self._opened()
        for begin in range(0, len(refs), DELETED_AT_ONCE):
            await store.delete_checkpoints(thread_id, refs[begin : begin + DELETED_AT_ONCE])

    # The same, blocking

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Blocking ``aget_tuple``."""
        return self._thread.call(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Blocking ``alist``."""
        found = self.alist(config, filter=filter, before=before, limit=limit)
        try:
            while (each := self._thread.call(_next(found))) is not None:
                yield each
        finally:
            self._thread.call(cast("Any", found).aclose())

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Blocking ``aput``."""
        return self._thread.call(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Blocking ``aput_writes``."""
        self._thread.call(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Blocking ``adelete_thread``."""
        self._thread.call(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Blocking ``adelete_for_runs``."""
        self._thread.call(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Blocking ``acopy_thread``."""
        self._thread.call(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Blocking ``aprune``."""
        self._thread.call(self.aprune(thread_ids, strategy=strategy))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a larger version. Two forks of a thread get different ones, since a version has one value."""
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:032}.{random.random():016}"

    # Records and LangGraph's tuples

    async def _summaries(self, which: CheckpointFilter) -> AsyncIterator[CheckpointSummary]:
        store = await self._opened()
        after = None
        while True:
            page = await store.list_checkpoints(which, after=after)
            for each in page.items:
                yield each
            if (after := page.next) is None:
                return

    async def _read(self, thread_id: str, path: str, id: str | None) -> CheckpointTuple | None:
        try:
            found = await (await self._opened()).get_checkpoint(thread_id, path, id)
        except NotFound:
            return None
        return self._tuple(thread_id, found)

    def _tuple(self, thread_id: str, found: Saved) -> CheckpointTuple:
        state = self._load(found.state)
        state["channel_values"] = {each.channel: self._load(each.value) for each in found.values}
        parent = None if found.parent_id is None else _config(thread_id, found.path, found.parent_id)
        return CheckpointTuple(
            _config(thread_id, found.path, found.id),
            state,
            self._load(found.metadata),
            parent,
            [(each.task_id, each.channel, self._load(each.value)) for each in found.writes],
        )

    def _dump(self, value: Any) -> Serialized:
        return Serialized(*self.serde.dumps_typed(value))

    def _load(self, value: Serialized) -> Any:
        return self.serde.loads_typed((value.type, value.data))


def _app_at(address: str) -> Signoff:
    if address.startswith(("https://", "http://")):
        return Signoff.remote(address, key=os.environ.get("SIGNOFF_WORKER_KEY"))
    return Signoff(address)


def _place(config: RunnableConfig) -> tuple[str, str]:
    configurable = config.get("configurable", {})
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")


def _config(thread_id: str, path: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": path, "checkpoint_id": id}}


def _which(config: RunnableConfig | None, before: RunnableConfig | None) -> CheckpointFilter:
    configurable = (config or {}).get("configurable", {})
    thread_id = configurable.get("thread_id")
    return CheckpointFilter(
        None if thread_id is None else str(thread_id),
        configurable.get("checkpoint_ns"),
        configurable.get("checkpoint_id"),
        None if before is None else get_checkpoint_id(before),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _parts(values: Sequence[ChannelValue]) -> Iterator[tuple[ChannelValue, ...]]:
    """Yield the values one by one: all channels together may be more than one operation saves."""
    for each in values:
        yield (each,)


async def _next(found: AsyncIterator[CheckpointTuple]) -> CheckpointTuple | None:
    return await anext(found, None)
