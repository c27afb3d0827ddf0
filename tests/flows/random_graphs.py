"""Random flows: their construction, and their results in a plain interpreter."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

from hypothesis import strategies as st

from signoff.flows import Data, Flow
from signoff.flows.builder import Point

Spec: TypeAlias = "list[tuple[Any, ...]]"
"""A line: chunks, choices and what runs side by side. Values are whole numbers below 1,000."""

EVENTS = ("red", "green")


def specs() -> st.SearchStrategy[Spec]:
    """Lines with whatever may be in them."""
    plain = st.sampled_from(["plain", "next", "self", "next", "emits", "adds"]).map(
        lambda kind: ("chunk", kind)
    )
    hears = st.sampled_from(EVENTS).map(lambda event: ("chunk", "event", event))
    leaves = st.one_of(plain, plain, plain, hears)

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        line = st.lists(inner, min_size=1, max_size=3)
        return st.one_of(
            st.tuples(st.just("if"), line, line),
            st.tuples(st.just("match"), st.sampled_from(["first", "all"]), line, line, line),
            st.tuples(st.just("batch"), line, line, st.sampled_from([None, 1, 2])),
            st.tuples(st.just("for_each"), line, st.sampled_from([None, 1, 2])),
            st.tuples(st.just("flow"), line),
            st.tuples(st.just("side"), line),
        )

    return st.lists(st.recursive(leaves, larger, max_leaves=8), min_size=1, max_size=4)


def answer_to(question: str) -> int:
    """What is answered to a question, always the same."""
    return zlib.crc32(question.encode()) % 1000


@dataclass
class Built:
    """A flow made of a line, and what it must end with."""

    flow: Flow
    expected: dict[str, Any]
    asked: list[str]


class Ended(Exception):
    """A line has ended, as its chunk resumes to an event."""


@dataclass
class Interpreter:
    """Computes what a line leaves, without any engine."""

    state: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    total: int = 0
    asked: list[str] = field(default_factory=list[str])
    heard: dict[str, int] = field(default_factory=dict[str, int])

    def rooted(self, line: Spec, value: int) -> int:
        """Run a line, with or without a waiter."""
        try:
            return self.line(line, value)
        except Ended as end:
            return end.args[0]

    def line(self, line: Spec, value: int) -> int:
        """Run a line to its end, or to the chunk that ends it."""
        for op in line:
            value = self.op(op, value)
        return value

    def op(self, op: tuple[Any, ...], value: int) -> int:
        """Run one operation."""
        match op:
            case ("chunk", name, kind, *more):
                return self.chunk(name, kind, value, *more)
            case ("if", then, otherwise):
                return self.line(then if value % 2 else otherwise, value)
            case ("match", "first", zero, one, default):
                return self.line((zero, one, default)[value % 3], value)
            case ("match", "all", zero, one, default):
                hits = [line for line, hit in ((zero, value % 2 == 0), (one, value % 3 == 0)) if hit]
                if not hits:
                    return self.line(default, value)
                return sum(self.rooted(line, value) for line in hits) % 1000
            case ("batch", left, right, _):
                return (self.rooted(left, value) + 2 * self.rooted(right, value)) % 1000
            case ("for_each", line, _):
                results = [self.rooted(line, item) for item in items_of(value)]
                return sum((index + 1) * each for index, each in enumerate(results)) % 1000
            case ("flow", line):
                inner = Interpreter(asked=self.asked)
                result = inner.rooted(line, value)
                self.total += inner.total
                return result
            case ("side", line):
                self.rooted(line, value)
                return value
            case _:
                raise AssertionError(op)

    def chunk(self, name: str, kind: str, value: int, event: str = "") -> int:
        """Run a chunk, with whatever it asks."""
        if kind == "adds":
            self.total += value
        if kind == "emits":
            self.hear(EVENTS[value % 2], value)
        if kind in ("next", "self", "event"):
            question = f"{name} {value}"
            self.asked.append(question)
            answer = answer_to(question)
            if kind == "event":
                self.hear(event, answer)
                raise Ended(answer)
            value = answer if kind == "next" else (answer + value) % 1000
        self.state.setdefault("ran", []).append(value)
        return (value * 3 + 1) % 1000 if kind in ("plain", "emits", "adds") else value

    def hear(self, event: str, value: int) -> None:
        """What the flow does with an event: it notes it, and joins one of each."""
        self.state.setdefault(event, []).append(value)
        self.heard[event] = self.heard.get(event, 0) + 1

    @property
    def joined(self) -> int:
        """How often there was one of each event."""
        return min(self.heard.get(event, 0) for event in EVENTS)


def items_of(value: int) -> list[int]:
    """What for_each goes through."""
    return [(value + step) % 1000 for step in range(value % 3 + 1)]


def build(spec: Spec) -> Built:
    """Make a flow of a line, and compute what it must end with for the input 7."""
    numbers = count(1)
    named = _named(spec, numbers)
    flow = Flow("random", auto_close_timeout=0.0)
    _listens(flow)
    _Builder(flow, numbers).line(flow.to(_chunk(flow, "begin", "begin")), named)
    reference = Interpreter()
    reference.rooted(named, 7)
    expected = {key: sorted(values) for key, values in reference.state.items()}
    expected |= {"total": reference.total, "joined": reference.joined}
    return Built(flow, expected, reference.asked)


def _named(line: Spec, numbers: Any) -> Spec:
    """Give each chunk of a line a name of its own."""

    def name(op: Any) -> Any:
        if isinstance(op, list):
            return [name(each) for each in op]
        if isinstance(op, tuple) and op[0] == "chunk":
            return ("chunk", f"c{next(numbers)}", *op[1:])
        return tuple(name(each) for each in op) if isinstance(op, tuple) else op

    return name(line)


def _listens(flow: Flow) -> None:
    for event in EVENTS:

        def note(data: Data[int]) -> None:
            data.append_state(data.event, data.input)

        flow.when(event).to(flow.chunk(name=f"note {event}")(note))

    def join(data: Data[dict[str, int]]) -> None:
        assert set(data.input) == set(EVENTS)
        data.add_state("joined")

    flow.when(*EVENTS).to(flow.chunk(join))


def _chunk(flow: Flow, name: str, kind: str, event: str = "") -> str:
    async def run(data: Data[Any]) -> Any:
        value: Any = data.input
        if kind == "begin":
            return value
        if kind == "adds":
            await data.add_state("total", value)
        if kind == "emits":
            await data.emit(EVENTS[value % 2], value)
        if kind in ("next", "self", "event"):
            if data.resume is None:
                target = {"event": event} if kind == "event" else kind
                asked = {"question": f"{name} {value}"}
                return await data.pause_for("number", asked, resume_to=target, schema=int)
            value = (data.resume.value + value) % 1000
        await data.append_state("ran", value)
        return (value * 3 + 1) % 1000 if kind in ("plain", "emits", "adds") else value

    flow.chunk(name=name)(run)
    return name


class _Builder:
    def __init__(self, flow: Flow, numbers: Any) -> None:
        self._flow = flow
        self._numbers = numbers

    def line(self, at: Point, line: Spec) -> Point:
        for op in line:
            at = self._op(at, op)
        return at

    def _reduce(self, function: Callable[[Any], int]) -> str:
        name = f"reduce {next(self._numbers)}"

        def reduce(data: Data[Any]) -> int:
            return function(data.input) % 1000

        self._flow.chunk(name=name)(reduce)
        return name

    def _op(self, at: Point, op: tuple[Any, ...]) -> Point:
        match op:
            case ("chunk", name, kind, *more):
                at = at.to(_chunk(self._flow, name, kind, *more))
                if kind != "next":
                    return at
                return at.to(self._noted(name))
            case ("if", then, otherwise):
                taken = self.line(at.if_(lambda data: data.input % 2), then)
                return self.line(taken.else_(), otherwise).end_if()
            case ("match", "first", zero, one, default):
                chosen = at.match(lambda data: data.input % 3)
                chosen = self.line(chosen.case(0), zero)
                chosen = self.line(chosen.case(1), one)
                return self.line(chosen.default(), default).end_match()
            case ("match", "all", zero, one, default):
                chosen = self.line(at.match(hits="all").case(lambda data: data.input % 2 == 0), zero)
                chosen = self.line(chosen.case(lambda data: data.input % 3 == 0), one)
                chosen = self.line(chosen.default(), default).end_match()
                return chosen.to(self._reduce(lambda value: sum(value) if isinstance(value, list) else value))
            case ("batch", left, right, concurrency):
                sides = [self.line(self._flow.branch(), line) for line in (left, right)]
                at = at.batch(("left", sides[0]), ("right", sides[1]), concurrency=concurrency)
                return at.to(self._reduce(lambda value: value["left"] + 2 * value["right"]))
            case ("for_each", line, concurrency):
                name = f"items {next(self._numbers)}"

                def items(data: Data[int]) -> list[int]:
                    return items_of(data.input)

                self._flow.chunk(name=name)(items)
                each = at.to(name).for_each(concurrency=concurrency)
                return (
                    self.line(each, line)
                    .end_for_each()
                    .to(self._reduce(lambda value: sum((i + 1) * v for i, v in enumerate(value))))
                )
            case ("flow", line):
                inner = Flow(f"inner {next(self._numbers)}")
                _listens(inner)
                _Builder(inner, self._numbers).line(inner.to(_chunk(inner, "begin", "begin")), line)
                before = f"inner total {next(self._numbers)}"
                at = at.to(inner, write_back={f"state.{before}": "state.total"})
                return at.to(self._adds(before))
            case ("side", line):
                at = at.to(self._reduce(lambda value: value))
                self.line(self._beside(at), line)
                return at
            case _:
                raise AssertionError(op)

    def _beside(self, at: Point) -> Point:
        return at.side(_chunk(self._flow, f"begin {next(self._numbers)}", "begin"))

    def _noted(self, name: str) -> str:
        """After an answer that is the chunk's result: note it, as the other chunks do themselves."""

        def note(data: Data[int]) -> int:
            data.append_state("ran", data.input)
            return data.input

        self._flow.chunk(name=f"note {name}")(note)
        return f"note {name}"

    def _adds(self, key: str) -> str:
        def add(data: Data[int]) -> int:
            data.add_state("total", data.get_state(key) or 0)
            data.del_state(key)
            return data.input

        name = f"add {key}"
        self._flow.chunk(name=name)(add)
        return name
