"""Flows: event-driven graphs with durable pauses."""

from signoff.flows.chunks import Chunk
from signoff.flows.data import Data, Resume
from signoff.flows.errors import (
    AmbiguousEvent,
    ChunkFailed,
    ChunkHeld,
    DuplicateInterrupt,
    ExecutionClosed,
    FlowChanged,
    MissingResource,
    NotACondition,
    NotAwaited,
    PauseIgnored,
    PendingInterrupts,
    ResumedTooOften,
    UnknownInterrupt,
)
from signoff.flows.executions import Execution, Executions, Interrupt
from signoff.flows.flow import Flow

__all__ = [
    "AmbiguousEvent",
    "Chunk",
    "ChunkFailed",
    "ChunkHeld",
    "Data",
    "DuplicateInterrupt",
    "Execution",
    "ExecutionClosed",
    "Executions",
    "Flow",
    "FlowChanged",
    "Interrupt",
    "MissingResource",
    "NotACondition",
    "NotAwaited",
    "PauseIgnored",
    "PendingInterrupts",
    "Resume",
    "ResumedTooOften",
    "UnknownInterrupt",
]
