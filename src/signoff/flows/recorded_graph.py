"""The graph that an execution began with, and the current chunks that run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from signoff.flows.chunks import Chunk
from signoff.flows.conditions import Condition, is_numbered
from signoff.flows.errors import FlowChanged
from signoff.flows.graph import GRAPH, ChunkOp, FlowOp, Graph, IfOp, MatchOp, Source, all_operations
from signoff.flows.graph_diff import differences
from signoff.flows.state_types import StateTypes

if TYPE_CHECKING:
    from signoff.flows.flow import Flow


@dataclass(frozen=True)
class Recorded:
    """A flow, as an execution walks it.

    Attributes:
        name: The flow's name.
        graph: The graph that the execution began with.
        chunks: The current chunks, by their original names.
        conditions: The current conditions, by their original names.
        flows: The nested flows.
        types: The declared types of its state.
    """

    name: str
    graph: Graph
    chunks: Mapping[str, Chunk]
    conditions: Mapping[str, Condition]
    flows: Mapping[str, Recorded]
    types: StateTypes


def recorded(flow: Flow, graph: Mapping[str, Any]) -> Recorded:
    """Return the flow for an execution that began with a graph.

    Raises:
        FlowChanged: The flow's graph differs, and no valid migration maps it.
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
        return Recorded(flow.name, began, flow.chunks, flow.conditions, inner, flow.state_types)
    changes = differences(began, current)
    if flow.migration is None and _is_changed_itself(began, current):
        raise FlowChanged(flow.name, changes)
    renamed = _migrated(flow, began, changes)
    return Recorded(
        flow.name,
        began,
        _renamed(flow, began, renamed, changes),
        _conditions(flow, began, current, renamed, changes),
        _flows(flow, began, changes),
        flow.state_types,
    )


def _is_changed_itself(began: Graph, current: Graph) -> bool:
    """Whether the graphs differ outside nested flows, which have their own migrations."""
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
    conditions = _condition_names(began)
    for old, new in renamed.items():
        if new not in (flow.conditions if old in conditions else flow.chunks):
            what = "condition" if old in conditions else "chunk"
            raise FlowChanged(
                flow.name, [*changes, f"  (its migration maps {old!r} to {new!r}, which is not a {what})"]
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
                unsaid = f"  (its migration does not map chunk {op.chunk!r})"
                raise FlowChanged(flow.name, [*changes, unsaid])
            found[op.chunk] = flow.chunks[now]
    return found


def _conditions(
    flow: Flow, began: Graph, current: Graph, renamed: Mapping[str, str], changes: Sequence[str]
) -> Mapping[str, Condition]:
    """Return the current conditions by their original names. An unnamed condition is never matched by its number alone.

    Its number is its position, which is only meaningful if nothing but names differ.
    """
    is_same_shape = _shape(began, renamed) == _shape(current, {})
    found: dict[str, Condition] = {}
    for name in sorted(_condition_names(began)):
        now = renamed.get(name, name)
        if now not in flow.conditions:
            raise FlowChanged(flow.name, [*changes, f"  (condition {name!r} no longer exists)"])
        if is_numbered(name) and name not in renamed and not is_same_shape:
            unsaid = f"  (condition {name!r} is known only by its position: map it in the migration)"
            raise FlowChanged(flow.name, [*changes, unsaid])
        found[name] = flow.conditions[now]
    return found


def _condition_names(graph: Graph) -> set[str]:
    names: set[str] = set()
    for op in all_operations(graph):
        if isinstance(op, IfOp):
            names.update(case.when for case in op.cases)
        if isinstance(op, MatchOp):
            names.update(name for name in (op.subject, *(case.when for case in op.cases)) if name)
    return names


def _shape(graph: Graph, renamed: Mapping[str, str]) -> Graph:
    """Return a graph with renamed chunks and conditions, without places and nested graphs."""
    plain = _without_inner(graph)
    for op in all_operations(plain):
        match op:
            case ChunkOp():
                op.chunk, op.id = renamed.get(op.chunk, op.chunk), ""
            case IfOp():
                for case in op.cases:
                    case.when = renamed.get(case.when, case.when)
            case MatchOp():
                op.subject = None if op.subject is None else renamed.get(op.subject, op.subject)
                for case in op.cases:
                    case.when = None if case.when is None else renamed.get(case.when, case.when)
            case FlowOp():
                op.id = ""
            case _:
                pass
    for root in plain.roots:
        root.begins = [
            Source(each.kind, renamed.get(each.name, each.name)) if each.kind == "chunk" else each
            for each in root.begins
        ]
    return plain


def _flows(flow: Flow, began: Graph, changes: Sequence[str]) -> Mapping[str, Recorded]:
    inner: dict[str, Recorded] = {}
    for op in all_operations(began):
        if not isinstance(op, FlowOp) or op.graph is None:
            continue
        if op.flow not in flow.flows:
            raise FlowChanged(flow.name, [*changes, f"  (flow {op.flow!r} no longer exists)"])
        inner[op.flow] = _recorded(flow.flows[op.flow], op.graph, flow.flows[op.flow].graph)
    return inner
