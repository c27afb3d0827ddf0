"""Completes and checks a flow's graph: each place gets its id, and every name must be registered."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from signoff.errors import RegistrationError
from signoff.flows.graph import (
    ChunkOp,
    CollectOp,
    FlowOp,
    Graph,
    IfOp,
    MatchOp,
    Root,
    all_operations,
    source_names,
)

if TYPE_CHECKING:
    from signoff.flows.flow import Flow


def resolved(flow: Flow, outer: tuple[str, ...] = ()) -> Graph:
    """Return a flow's graph, including the graphs of nested flows.

    Args:
        flow: The flow.
        outer: The names of the enclosing flows.

    Raises:
        RegistrationError: It is not complete, or names something that is not registered.
    """
    if flow.name in outer:
        raise RegistrationError(f"flow {flow.name!r} contains itself: {' > '.join([*outer, flow.name])}")
    if flow.open_ops:
        left = flow.open_ops[-1].op
        raise RegistrationError(f"flow {flow.name!r}: {left} is not closed; call end_{left}()")
    graph = Graph(flow.name, copy.deepcopy(flow.roots))
    if not graph.roots:
        raise RegistrationError(f"flow {flow.name!r} has no lines: flow.to(chunk)")
    seen: Counter[str] = Counter()
    flows: Counter[str] = Counter()
    for op in all_operations(graph):
        match op:
            case ChunkOp():
                _check_known(flow, op.chunk, flow.chunks, "chunk")
                op.id = _numbered(op.chunk, seen)
            case IfOp():
                for case in op.cases:
                    _check_known(flow, case.when, flow.conditions, "condition")
            case MatchOp():
                for when in (op.subject, *(case.when for case in op.cases)):
                    if when is not None:
                        _check_known(flow, when, flow.conditions, "condition")
            case FlowOp():
                _check_known(flow, op.flow, flow.flows, "flow")
                check_moves(op)
                op.id = _numbered(op.flow, flows)
                op.graph = resolved(flow.flows[op.flow], (*outer, flow.name))
            case _:
                pass
    _check_heard(flow, graph)
    _check_collections(flow, graph)
    places = {op.id for op in all_operations(graph) if isinstance(op, ChunkOp)}
    for root in graph.roots:
        _check_begins(flow, root, places)
    return graph


def _numbered(name: str, seen: Counter[str]) -> str:
    """Return the id of a place: its name, numbered from its second use on."""
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"


def check_moves(op: FlowOp) -> None:
    """Check the paths of values moved into and out of a nested flow.

    Raises:
        RegistrationError: A path is not valid.
    """
    for target, source in op.capture.items():
        _check_path(target, "input")
        _check_path(source, "input")
    for target, source in op.write_back.items():
        _check_path(target)
        _check_path(source, "output")


def _check_path(path: str, *words: str) -> None:
    if path not in words and not (path.startswith("state.") and len(path) > len("state.")):
        raise RegistrationError(f"{path!r} is not one of {', '.join([*words, 'state.KEY'])}")


def _check_known(flow: Flow, name: str, there: Mapping[str, Any], what: str) -> None:
    if name not in there:
        known = ", ".join(sorted(there)) or "none"
        raise RegistrationError(f"flow {flow.name!r} has no {what} {name!r}; there are: {known}")


def _check_begins(flow: Flow, root: Root, places: set[str]) -> None:
    if len(set(root.begins)) < len(root.begins):
        raise RegistrationError(f"flow {flow.name!r}: a line begins with one event twice")
    for source in root.begins:
        if source.kind == "chunk" and source.name not in places:
            raise RegistrationError(
                f"flow {flow.name!r}: when names chunk {source.name!r}, which is on no line"
            )


def _check_heard(flow: Flow, graph: Graph) -> None:
    """Check that every emitted event starts a line.

    Raises:
        RegistrationError: An event starts no line.
    """
    listened = source_names(graph, "event")
    for op in all_operations(graph):
        event = flow.emitted.get(op.chunk) if isinstance(op, ChunkOp) else None
        if event is not None and event not in listened:
            there = ", ".join(sorted(listened)) or "none"
            raise RegistrationError(
                f"flow {flow.name!r} emits {event!r}, which no line begins with: flow.when({event!r}); "
                f"lines begin with: {there}"
            )


def _check_collections(flow: Flow, graph: Graph) -> None:
    collections: dict[str, list[CollectOp]] = {}
    for op in all_operations(graph):
        if isinstance(op, CollectOp):
            collections.setdefault(op.name, []).append(op)
    for name, ops in collections.items():
        branches = [op.branch for op in ops]
        if len(set(branches)) < len(branches):
            raise RegistrationError(f"flow {flow.name!r}: collection {name!r} has two branches of one name")
        if sum(bool(op.then) for op in ops) > 1:
            raise RegistrationError(
                f"flow {flow.name!r}: several lines follow collection {name!r}; put them behind one branch"
            )
