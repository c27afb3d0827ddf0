"""Checkpoints: the saved states of a graph of another library, by thread.

A *thread* is a graph's conversation or execution. Its subgraphs have checkpoints of their own, by *path*; the empty
path is the graph itself. States are bytes with a type, as their serializer made them: Signoff does not read them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from signoff.records.names import check_filter


def _from_text(value: object) -> object:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else value


def _to_text(value: bytes) -> str:
    return base64.b64encode(value).decode()


Bytes = Annotated[
    bytes, BeforeValidator(_from_text), PlainSerializer(_to_text, return_type=str, when_used="json")
]
"""Bytes that are base64 in JSON."""


@dataclass(frozen=True, slots=True)
class Serialized:
    """A serialized value: bytes, and the serializer's name for their format."""

    type: str
    data: Bytes


@dataclass(frozen=True, slots=True)
class ChannelValue:
    """The value of a channel, one of the variables of a state, in one version."""

    channel: str
    version: str
    value: Serialized


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """Which checkpoint of a thread."""

    path: str  # of the subgraph
    id: str


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A checkpoint to be saved.

    Attributes:
        path: The subgraph; empty for the graph itself.
        id: Its id. Ids of a thread sort by age.
        state: The checkpoint without the values of its channels.
        metadata: Its metadata.
        versions: The version of each channel.
        values: The values of the channels that have changed since its parent.
        parent_id: The checkpoint that it follows.
        graph_run: The library's id of the execution that made it.
    """

    path: str
    id: str
    state: Serialized
    metadata: Serialized
    versions: Mapping[str, str]
    values: tuple[ChannelValue, ...] = ()
    parent_id: str | None = None
    graph_run: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointWrite:
    """What a task of the graph has written after a checkpoint.

    Attributes:
        task_id: The task.
        index: Its place among the task's writes. A negative one is of a special channel: its last write counts.
        channel: The channel.
        value: The value.
        task_path: The task's place in the graph. Writes are in the order of task path, task and index.
    """

    task_id: str
    index: int
    channel: str
    value: Serialized
    task_path: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved state, with the values of its channels and the writes since."""

    path: str
    id: str
    state: Serialized
    metadata: Serialized
    parent_id: str | None = None
    values: tuple[ChannelValue, ...] = ()
    writes: tuple[CheckpointWrite, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """A checkpoint in a list."""

    thread_id: str
    path: str
    id: str
    metadata: Serialized
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointFilter:
    """Which checkpoints to list; None means any.

    Attributes:
        thread_id: Their thread.
        path: Their subgraph; empty: only those of the graph itself.
        id: Their id.
        before: Only those with smaller ids.
        graph_run: The execution that made them.
    """

    thread_id: str | None = None
    path: str | None = None
    id: str | None = None
    before: str | None = None
    graph_run: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        for name in ("thread_id", "id", "before", "graph_run"):
            check_filter(name, getattr(self, name))
