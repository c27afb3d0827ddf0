"""A graph as indented text, and the differences between two graphs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from signoff.flows.graph import (
    BatchOp,
    ChunkOp,
    CollectOp,
    FlowOp,
    ForEachOp,
    Graph,
    IfOp,
    Line,
    MatchOp,
    Op,
    Root,
    lines_within,
)


def outline(graph: Graph) -> Sequence[str]:
    """Return a graph as indented lines, one for each element."""
    return list(_outline(graph, ""))


def differences(old: Graph, new: Graph) -> Sequence[str]:
    """Return the differences as lines, each with its enclosing elements; empty without any."""
    lines = difflib.unified_diff(outline(old), outline(new), lineterm="", n=1)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _outline(graph: Graph, indent: str) -> Iterator[str]:
    for root in graph.roots:
        yield f"{indent}{_begins(root)}"
        yield from _line(root.then, indent + "  ")


def _line(line: Line, indent: str) -> Iterator[str]:
    for op in line:
        yield f"{indent}{_called(op)}"
        if isinstance(op, FlowOp) and op.graph is not None:
            yield from _outline(op.graph, indent + "  ")
        for what, inner in lines_within(op):
            yield f"{indent}  {what}:"
            yield from _line(inner, indent + "    ")


def _begins(root: Root) -> str:
    labels = [f"{source.kind} {source.name}".strip() for source in root.begins]
    return f"when {f' {root.mode} '.join(labels)}:"


def _called(op: Op) -> str:
    match op:
        case ChunkOp():
            return f"chunk {op.chunk}"
        case IfOp():
            return "if"
        case MatchOp():
            return f"match {op.hits} {op.subject or ''}".rstrip()
        case BatchOp():
            return "batch" if op.concurrency is None else f"batch, {op.concurrency} at once"
        case ForEachOp():
            return "for each" if op.concurrency is None else f"for each, {op.concurrency} at once"
        case CollectOp():
            return f"collect {op.name} {op.branch}"
        case FlowOp():
            moves = [f"{target} <- {source}" for target, source in {**op.capture, **op.write_back}.items()]
            return " ".join([f"flow {op.flow}", *moves])
