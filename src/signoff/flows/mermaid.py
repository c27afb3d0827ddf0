"""A graph as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Sequence

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
)

Ends = list[tuple[str, str]]
"""Nodes that precede the next one, each with its arrow's label."""


def to_mermaid(graph: Graph) -> str:
    """Return a graph as the text of a Mermaid flowchart, from top to bottom."""
    drawing = _Drawing()
    drawing.graph(graph)
    return "\n".join(["flowchart TD", *drawing.lines, ""])


class _Drawing:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0
        self._sources: dict[tuple[str, str, str], str] = {}
        self._collections: dict[str, str] = {}

    def graph(self, graph: Graph) -> None:
        for root in graph.roots:
            begins: Ends = []
            for source in root.begins:
                key = (graph.name, source.kind, source.name)
                if key not in self._sources:
                    shape = '(["{}"])' if source.kind == "start" else '{{{{"{}"}}}}'
                    self._sources[key] = self._node(shape, f"{source.kind} {source.name}".strip())
                begins.append((self._sources[key], ""))
            if root.mode == "and" and len(begins) > 1:
                begins = [(self._joined(begins, "all"), "")]
            self._line(root.then, begins)

    def _line(self, line: Line, begins: Ends) -> Ends:
        ends = begins
        for op in line:
            ends = self._op(op, ends)
            for side in op.sides:
                self._line(side, ends)
        return ends

    def _op(self, op: Op, begins: Ends) -> Ends:
        match op:
            case ChunkOp():
                return [(self._after(begins, '["{}"]', op.id or op.chunk), "")]
            case IfOp():
                lines = [(case.when, case.then) for case in op.cases]
                return self._choice(begins, "if", [*lines, ("else", op.otherwise or [])])
            case MatchOp():
                lines = [(case.when or str(case.value), case.then) for case in op.cases]
                default = [("default", op.default)] if op.default is not None else []
                return self._choice(begins, f"match {op.subject or ''}".rstrip(), [*lines, *default])
            case BatchOp():
                fork = self._after(begins, '[/"{}"\\]', "batch")
                ends: Ends = []
                for name, line in op.branches.items():
                    ends += self._line(line, [(fork, name)])
                return [(self._joined(ends, "joined"), "")]
            case ForEachOp():
                fork = self._after(begins, '[/"{}"\\]', "for each")
                return [(self._joined(self._line(op.each, [(fork, "item")]), "in order"), "")]
            case CollectOp():
                node = self._collections.get(op.name)
                if node is None:
                    node = self._collections[op.name] = self._node('[\\"{}"/]', f"collect {op.name}")
                self._link([(each, op.branch) for each, _ in begins], node)
                return self._line(op.then, [(node, "")])
            case FlowOp():
                return [(self._after(begins, '[["{}"]]', op.flow), "")]

    def _choice(self, begins: Ends, label: str, lines: Sequence[tuple[str, Line]]) -> Ends:
        node = self._after(begins, '{{"{}"}}', label)
        ends: Ends = []
        for name, line in lines:
            ends += self._line(line, [(node, name)])
        return ends

    def _joined(self, begins: Ends, label: str) -> str:
        return self._after(begins, '[\\"{}"/]', label)

    def _after(self, begins: Ends, shape: str, label: str) -> str:
        node = self._node(shape, label)
        self._link(begins, node)
        return node

    def _node(self, shape: str, label: str) -> str:
        self._count += 1
        node = f"n{self._count}"
        self.lines.append(f"    {node}{shape.format(_escaped(label))}")
        return node

    def _link(self, begins: Ends, node: str) -> None:
        for before, label in begins:
            arrow = f'-- "{_escaped(label)}" -->' if label else "-->"
            self.lines.append(f"    {before} {arrow} {node}")


def _escaped(label: str) -> str:
    return label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
