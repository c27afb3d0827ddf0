"""A flow's graph as data. Its identity is its names and its shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypeAliasType

Line = TypeAliasType("Line", "list[Op]")
"""A sequence of operations."""


Concurrency = Annotated[int | None, Field(ge=1)]
"""How many lines run at once; None: all."""

_STRICT: Final = ConfigDict(extra="forbid")
"""Rejects unknown keys, such as typos."""


@dataclass
class ChunkOp:
    """Runs a chunk. ``id`` is its place: the chunk's name, numbered if the graph uses it several times."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    chunk: str
    id: str = ""
    sides: list[Line] = field(default_factory=list[Line])
    op: Literal["chunk"] = "chunk"


@dataclass
class IfCase:
    """A line, and its condition."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    when: str
    then: Line = field(default_factory=list["Op"])


@dataclass
class IfOp:
    """Takes the line of the first condition that holds."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    cases: Annotated[list[IfCase], Field(min_length=1)]
    otherwise: Line | None = None
    sides: list[Line] = field(default_factory=list[Line])
    op: Literal["if"] = "if"


@dataclass
class MatchCase:
    """A line, and its value or condition (``when``)."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    value: Any = None
    when: str | None = None
    then: Line = field(default_factory=list["Op"])


@dataclass
class MatchOp:
    """Takes the line of the first matching case, or of all (``hits``): their results are then a list."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    hits: Literal["first", "all"]
    subject: str | None = None
    cases: Annotated[list[MatchCase], Field(min_length=1)] = field(default_factory=list[MatchCase])
    default: Line | None = None
    sides: list[Line] = field(default_factory=list[Line])
    op: Literal["match"] = "match"


@dataclass
class BatchOp:
    """Runs named lines in parallel and joins their results in a dict."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    branches: Annotated[dict[str, Line], Field(min_length=1)]
    concurrency: Concurrency = None
    sides: list[Line] = field(default_factory=list[Line])
    op: Literal["batch"] = "batch"


@dataclass
class ForEachOp:
    """Runs a line for each item and joins the results in order."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    each: Line = field(default_factory=list["Op"])
    concurrency: Concurrency = None
    sides: list[Line] = field(default_factory=list[Line])
    op: Literal["for_each"] = "for_each"


@dataclass
class CollectOp:
    """Ends its line. Once each branch of the collection has arrived, the continuation receives all values."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    branch: str
    then: Line = field(default_factory=list["Op"])
    sides: list[Line] = field(default_factory=list[Line])
    op: Literal["collect"] = "collect"


@dataclass
class FlowOp:
    """Runs another flow within the execution, with its own state. ``id`` is its place, like a chunk's."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    flow: str
    capture: dict[str, str]
    write_back: dict[str, str]
    id: str = ""
    graph: Graph | None = None
    sides: list[Line] = field(default_factory=list[Line])
    op: Literal["flow"] = "flow"


Op = Annotated[ChunkOp | IfOp | MatchOp | BatchOp | ForEachOp | CollectOp | FlowOp, Field(discriminator="op")]

SourceKind = Literal["start", "event", "state", "chunk"]


@dataclass(frozen=True)
class Source:
    """A source that starts a line: the start, an event, a write to a key of the state, or the end of a chunk."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: SourceKind
    name: str = ""

    @property
    def label(self) -> str:
        """Its key in the dict of several sources."""
        return f"state.{self.name}" if self.kind == "state" else self.name or "start"


@dataclass
class Root:
    """A line, and its sources: all of ``begins`` (``mode="and"``) or any of them."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    begins: Annotated[list[Source], Field(min_length=1)]
    mode: Literal["and", "or"] = "or"
    then: Line = field(default_factory=list["Op"])


@dataclass
class Graph:
    """A flow as data.

    Attributes:
        name: The flow's name.
        roots: Its lines.
        format: The version of this format.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    roots: list[Root] = field(default_factory=list[Root])
    format: Literal[1] = 1

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return GRAPH.dump_python(self, mode="json")


GRAPH: TypeAdapter[Graph] = TypeAdapter(Graph)


def lines_within(op: Op) -> Iterator[tuple[str, Line]]:
    """Yield the lines inside an operation, each with its role."""
    match op:
        case IfOp():
            for case in op.cases:
                yield f"if {case.when}", case.then
            if op.otherwise is not None:
                yield "else", op.otherwise
        case MatchOp():
            for case in op.cases:
                yield f"case {case.when or repr(case.value)}", case.then
            if op.default is not None:
                yield "default", op.default
        case BatchOp():
            for name, line in op.branches.items():
                yield f"branch {name}", line
        case ForEachOp():
            yield "each", op.each
        case CollectOp():
            yield "then", op.then
        case _:
            pass
    for side in op.sides:
        yield "beside", side


def operations(line: Line) -> Iterator[Op]:
    """Yield the operations of a line and of all nested lines, in order, but not of other flows."""
    for op in line:
        yield op
        for _, inner in lines_within(op):
            yield from operations(inner)


def all_operations(graph: Graph) -> Iterator[Op]:
    """Yield all operations of a graph, but not of other flows."""
    for root in graph.roots:
        yield from operations(root.then)


def source_names(graph: Graph, kind: SourceKind) -> set[str]:
    """Return the names of a graph's sources of one kind."""
    return {source.name for root in graph.roots for source in root.begins if source.kind == kind}
