"""The graph that an execution began with, and the chunks of today that it is walked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from signoff.flows.chunks import Chunk, Condition
from signoff.flows.errors import FlowChanged
from signoff.flows.graph import GRAPH, ChunkOp, FlowOp, Graph, IfOp, MatchOp, all_operations
from signoff.flows.outline import differences

if TYPE_CHECKING:
    from signoff.flows.flow import Flow


@dataclass(frozen=True)
class Recorded:
    """A flow as an execution walks it.

    Attributes:
        name: The flow's.
        graph: The graph that the execution began with.
        chunks: What its chunks run now, by the names of then.
        conditions: Its conditions.
        flows: The flows within.
    """

    name: str
    graph: Graph
    chunks: Mapping[str, Chunk]
    conditions: Mapping[str, Condition]
    flows: Mapping[str, Recorded]


def recorded(flow: Flow, graph: Mapping[str, Any]) -> Recorded:
    """Return how an execution that began with a graph is walked now.

    Raises:
        FlowChanged: The flow has another graph now, and no migration says which chunk is which, or it makes no sense.
    """
    try:
        began = GRAPH.validate_python(graph)
    except ValidationError as error:
        raise FlowChanged(flow.name, [f"the recorded graph cannot be read: {error}"]) from None
    return _recorded(flow, began, flow.graph)


def _recorded(flow: Flow, began: Graph, current: Graph) -> Recorded:
    if began == current:
        within = {op.flow: op.graph for op in all_operations(current) if isinstance(op, FlowOp)}
        inner = {name: _recorded(flow.flows[name], graph, graph) for name, graph in within.items() if graph}
        return Recorded(flow.name, began, flow.chunks, flow.conditions, inner)
    changes = differences(began, current)
    if flow.migration is None and _is_changed_itself(began, current):
        raise FlowChanged(flow.name, changes)
    renamed = _migrated(flow, began, changes)
    return Recorded(
        flow.name,
        began,
        _renamed(flow, began, renamed, changes),
        _conditions(flow, began, changes),
        _flows(flow, began, changes),
    )


def _is_changed_itself(began: Graph, current: Graph) -> bool:
    """Whether more differs than flows within, which have their own migrations."""
    return differences(_without_inner(began), _without_inner(current)) != []


def _without_inner(graph: Graph) -> Graph:
    plain = GRAPH.validate_python(graph.to_json())
    for op in all_operations(plain):
        if isinstance(op, FlowOp):
            op.graph = None
    return plain


def _migrated(flow: Flow, began: Graph, changes: Sequence[str]) -> Mapping[str, str]:
    if flow.migration is None:
        return {}
    try:
        renamed = dict(flow.migration(began.to_json(), changes))
    except Exception as error:
        raise FlowChanged(flow.name, [*changes, f"  (its migration failed: {error!r})"]) from error
    for old, new in renamed.items():
        if new not in flow.chunks:
            raise FlowChanged(
                flow.name, [*changes, f"  (its migration has {old!r} be {new!r}, which is no chunk)"]
            )
    return renamed


def _renamed(
    flow: Flow, began: Graph, renamed: Mapping[str, str], changes: Sequence[str]
) -> Mapping[str, Chunk]:
    found: dict[str, Chunk] = {}
    for op in all_operations(began):
        if isinstance(op, ChunkOp):
            now = renamed.get(op.chunk, op.chunk)
            if now not in flow.chunks:
                unsaid = f"  (its migration does not say what chunk {op.chunk!r} is now)"
                raise FlowChanged(flow.name, [*changes, unsaid])
            found[op.chunk] = flow.chunks[now]
    return found


def _conditions(flow: Flow, began: Graph, changes: Sequence[str]) -> Mapping[str, Condition]:
    names: set[str] = set()
    for op in all_operations(began):
        if isinstance(op, IfOp):
            names.update(case.when for case in op.cases)
        if isinstance(op, MatchOp):
            names.update(name for name in (op.subject, *(case.when for case in op.cases)) if name)
    for name in sorted(names):
        if name not in flow.conditions:
            raise FlowChanged(flow.name, [*changes, f"  (condition {name!r} is not there any more)"])
    return flow.conditions


def _flows(flow: Flow, began: Graph, changes: Sequence[str]) -> Mapping[str, Recorded]:
    inner: dict[str, Recorded] = {}
    for op in all_operations(began):
        if not isinstance(op, FlowOp) or op.graph is None:
            continue
        if op.flow not in flow.flows:
            raise FlowChanged(flow.name, [*changes, f"  (flow {op.flow!r} is not there any more)"])
        inner[op.flow] = _recorded(flow.flows[op.flow], op.graph, flow.flows[op.flow].graph)
    return inner
