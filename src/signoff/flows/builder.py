"""Builds a graph: ``flow.to(a).if_(b).to(c).else_().to(d).end_if()``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from signoff.errors import InvalidValue, RegistrationError
from signoff.flows.conditions import Condition
from signoff.flows.graph import (
    BatchOp,
    ChunkOp,
    CollectOp,
    FlowOp,
    ForEachOp,
    IfCase,
    IfOp,
    Line,
    MatchCase,
    MatchOp,
    Op,
)
from signoff.flows.pauses import checked
from signoff.flows.resolution import check_moves

if TYPE_CHECKING:
    from signoff.flows.flow import Flow

Step: TypeAlias = "Callable[..., Any] | str | Flow"
"""The target of a line: a chunk's function, a chunk's name, or another flow."""


@dataclass(frozen=True)
class Opened:
    """An open construct with lines of its own, and where to continue after its end."""

    op: IfOp | MatchOp | ForEachOp
    after: Point


class Point:
    """A place in a graph where the line can continue. Two continuations of one place both run."""

    def __init__(self, flow: Flow, line: Line, index: int, opened: Opened | None = None) -> None:
        self._flow = flow
        self._line = line
        self._index = index
        self._opened = opened

    def _put(self, op: Op) -> Point:
        if self._index == len(self._line) - 1:
            self._line.append(op)
            return Point(self._flow, self._line, self._index + 1, self._opened)
        if self._index < 0:
            raise RegistrationError(
                "two operations begin this line; begin it with a chunk, and put both after it"
            )
        side: Line = [op]
        self._line[self._index].sides.append(side)
        return Point(self._flow, side, 0, self._opened)

    # Continuing

    def to(
        self,
        step: Step,
        *,
        capture: Mapping[str, str] | None = None,
        write_back: Mapping[str, str] | None = None,
    ) -> Point:
        """Continue with a chunk, or with another flow.

        Args:
            step: A chunk's function or name (which may be registered later), or a flow.
            capture: For a flow, its inputs, such as ``{"input": "state.order", "state.tenant": "state.tenant"}``; by
                default its input is the value here.
            write_back: For a flow, the writes to the state at its end: ``{"state.total": "state.sum"}`` or
                ``{"state.total": "output"}``.

        Raises:
            RegistrationError: It is neither a chunk nor a flow.
        """
        return self._put(self._flow.operation(step, capture, write_back))

    def side(self, step: Step) -> Point:
        """Begin a parallel line with a chunk. This place does not change."""
        if self._index < 0:
            raise RegistrationError("a side branch needs a place to branch from; begin the line with a chunk")
        side: Line = [self._flow.operation(step)]
        self._line[self._index].sides.append(side)
        return Point(self._flow, side, 0)

    def emit(self, event: str) -> Point:
        """Emit an event with the value here, and continue with the value."""
        return self.to(self._flow.emitter(event))

    # Choosing

    def if_(self, condition: Condition | str) -> Point:
        """Take the following line, up to ``elif_``, ``else_`` or ``end_if``, if a condition holds.

        Args:
            condition: A plain or async function that reads the data and returns true or false, or the name of a
                registered one.
        """
        op = IfOp([IfCase(self._flow.named_condition(condition))])
        return self._open(op, op.cases[0].then)

    def elif_(self, condition: Condition | str) -> Point:
        """Take the following line if no condition above holds and this one does."""
        op = self._within(IfOp, "elif_")
        if op.otherwise is not None:
            raise RegistrationError("elif_ comes before else_")
        op.cases.append(IfCase(self._flow.named_condition(condition)))
        return self._branch(op.cases[-1].then)

    def else_(self) -> Point:
        """Take the following line if no condition above holds."""
        op = self._within(IfOp, "else_")
        if op.otherwise is not None:
            raise RegistrationError("else_ is already defined")
        line: Line = []
        op.otherwise = line
        return self._branch(line)

    def end_if(self) -> Point:
        """Continue with the value of the line taken, or with the previous value if none was."""
        return self._end(IfOp, "end_if")

    def match(
        self, subject: Condition | str | None = None, *, hits: Literal["first", "all"] = "first"
    ) -> Point:
        """Take the line of the first matching case, or of all matching cases: their values are then a list.

        Args:
            subject: A function of the data that returns the value to compare, or its name; by default the value here.
            hits: ``first`` or ``all``.
        """
        if hits not in ("first", "all"):
            raise RegistrationError(f"match: hits is 'first' or 'all', not {hits!r}")
        op = MatchOp(hits, None if subject is None else self._flow.named_condition(subject))
        return self._open(op, [])

    def case(self, value: Any) -> Point:
        """Take the following line for this value, or if this function of the data returns true."""
        op = self._within(MatchOp, "case")
        if op.default is not None:
            raise RegistrationError("case comes before default")
        if callable(value):
            op.cases.append(MatchCase(when=self._flow.named_condition(cast("Condition", value))))
        else:
            op.cases.append(MatchCase(value=self._flow.plain(value)))
        return self._branch(op.cases[-1].then)

    def default(self) -> Point:
        """Take the following line if no case matches."""
        op = self._within(MatchOp, "default")
        if op.default is not None:
            raise RegistrationError("default is already defined")
        line: Line = []
        op.default = line
        return self._branch(line)

    def end_match(self) -> Point:
        """Continue with the value of the line taken, or with the list of values."""
        op = self._within(MatchOp, "end_match")
        if not op.cases:
            raise RegistrationError("match has no case")
        return self._end(MatchOp, "end_match")

    # Parallel lines

    def batch(
        self, *steps: Step | tuple[str, Step | Point], concurrency: int | None = None, **named: Step | Point
    ) -> Point:
        """Run lines in parallel, and continue with a dict of their values.

        Args:
            steps: Chunks, with their own names as keys, or ``(name, chunk)``.
            concurrency: How many run at once; None: all.
            named: Chunks, flows, or lines made with ``flow.branch()``.

        Raises:
            RegistrationError: There are none, or two have the same name.
        """
        branches: dict[str, Line] = {}
        pairs: list[tuple[str, Step | Point]] = [
            each if isinstance(each, tuple) else (self._flow.name_of(each), each) for each in steps
        ]
        for name, step in [*pairs, *named.items()]:
            if checked(name, "branch") in branches:
                raise RegistrationError(
                    f"batch has two branches called {name!r}; give them names: ('name', chunk)"
                )
            branches[name] = step.whole_line if isinstance(step, Point) else [self._flow.operation(step)]
        if not branches:
            raise RegistrationError("batch has no branches")
        return self._put(BatchOp(branches, _checked(concurrency)))

    def for_each(self, *, concurrency: int | None = None) -> Point:
        """Run the following line, up to ``end_for_each``, for each item of the value, which must be a list.

        Args:
            concurrency: How many run at once; None: all.
        """
        op = ForEachOp(concurrency=_checked(concurrency))
        return self._open(op, op.each)

    def end_for_each(self) -> Point:
        """Continue with the list of the lines' values, in the order of the items."""
        return self._end(ForEachOp, "end_for_each")

    def collect(self, name: str, branch: str) -> Point:
        """End this line in a collection. The continuation runs once each branch of the collection has arrived.

        The continuation receives a dict of the branches' values. Attach it to one of the branches only.
        """
        op = CollectOp(checked(name, "collection"), checked(branch, "branch"))
        self._put(op)
        return Point(self._flow, op.then, -1)

    # Internal

    @property
    def whole_line(self) -> Line:
        """The line of this place.

        Raises:
            RegistrationError: It is empty.
        """
        if not self._line:
            raise RegistrationError("a branch has no chunk: flow.branch().to(chunk)")
        return self._line

    def _open(self, op: IfOp | MatchOp | ForEachOp, line: Line) -> Point:
        opened = Opened(op, self._put(op))
        self._flow.open_ops.append(op)
        return Point(self._flow, line, -1, opened)

    def _branch(self, line: Line) -> Point:
        return Point(self._flow, line, -1, self._opened)

    def _within(self, kind: type[Any], what: str) -> Any:
        if self._opened is None or not isinstance(self._opened.op, kind):
            raise RegistrationError(f"{what} has no open counterpart here")
        return self._opened.op

    def _end(self, kind: type[Any], what: str) -> Point:
        self._within(kind, what)
        assert self._opened is not None
        if not any(each is self._opened.op for each in self._flow.open_ops):
            raise RegistrationError(f"{what} was already called")
        self._flow.open_ops[:] = [each for each in self._flow.open_ops if each is not self._opened.op]
        return self._opened.after


def chunk_op(name: str) -> ChunkOp:
    """Return the operation that runs a chunk."""
    return ChunkOp(name)


def flow_op(name: str, capture: Mapping[str, str] | None, write_back: Mapping[str, str] | None) -> FlowOp:
    """Return the operation that runs another flow.

    Raises:
        RegistrationError: A path is not valid.
    """
    op = FlowOp(name, dict(capture or {}), dict(write_back or {}))
    check_moves(op)
    return op


def _checked(concurrency: int | None) -> int | None:
    if concurrency is not None and concurrency < 1:
        raise InvalidValue("concurrency", f"it is at least 1, not {concurrency}")
    return concurrency
