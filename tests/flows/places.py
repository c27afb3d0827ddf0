"""Flows that ask at every kind of place, each with every way to resume, and their expected results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from signoff import Signoff
from signoff.flows import Data, Flow

KINDS = ("next", "self", "event")
PLACES = ("plain", "branch of an if", "batch", "for_each", "join", "sub-flow", "loop")


@dataclass(frozen=True)
class Case:
    """A flow, what is asked in it, and what it ends with once each question ``q`` was answered with ``re: q``."""

    flow: Flow
    input: Any
    questions: frozenset[str]
    state: dict[str, Any]

    @property
    def name(self) -> str:
        """The flow's name."""
        return self.flow.name


def answer_to(question: str) -> str:
    """The answer to every question."""
    return f"re: {question}"


def cases() -> list[Case]:
    """Make all of them anew, as another process would."""
    return [make(place, kind) for place in PLACES for kind in KINDS]


def register_all(app: Signoff) -> dict[str, Case]:
    """Register them; returns them by name."""
    made = {case.name: case for case in cases()}
    for case in made.values():
        app.register(case.flow)
    return made


def make(place: str, kind: str) -> Case:
    """Make the flow of one cell of the table."""
    return MAKERS[place](Flow(f"{place}, {kind}", auto_close_timeout=0.0), kind)


def _asks(flow: Flow, name: str, kind: str) -> str:
    """Have a chunk ask about its input; its result is ``_value``, and an event is noted in the state."""

    async def ask(data: Data[Any]) -> Any:
        if data.resume is not None:
            return {"of": data.input, "got": data.resume.value}
        target = {"event": f"{name} answered"} if kind == "event" else kind
        return await data.pause_for("text", {"question": f"{name} {data.input}"}, resume_to=target)

    flow.chunk(name=name)(ask)
    if kind == "event":
        flow.when(f"{name} answered").to(_keeps(flow, f"heard {name}"))
    return name


def _keeps(flow: Flow, key: str) -> str:
    """Have a plain chunk append what it is given to a key of the state, and hand it on."""

    def keep(data: Data[Any]) -> Any:
        data.append_state(key, data.input)
        return data.input

    flow.chunk(name=f"keep {key}")(keep)
    return f"keep {key}"


def _value(kind: str, question: str, given: Any) -> Any:
    return {"of": given, "got": answer_to(question)} if kind == "self" else answer_to(question)


def _chain(state: dict[str, Any], kind: str, name: str, question: str, given: Any) -> dict[str, Any]:
    """What a chain that ends with ``keep out`` leaves: after an event nothing, except for its listeners."""
    if kind == "event":
        return {**state, f"heard {name}": [answer_to(question)]}
    return {**state, "out": [_value(kind, question, given)]}


def _plain(flow: Flow, kind: str) -> Case:
    flow.to(_asks(flow, "ask", kind)).to(_keeps(flow, "out"))
    return Case(flow, "x", frozenset({"ask x"}), _chain({}, kind, "ask", "ask x", "x"))


def _if(flow: Flow, kind: str) -> Case:
    taken = flow.to(_keeps(flow, "first")).if_(lambda data: data.input == "x").to(_asks(flow, "ask", kind))
    taken.else_().to(_keeps(flow, "never")).end_if().to(_keeps(flow, "out"))
    return Case(flow, "x", frozenset({"ask x"}), _chain({"first": ["x"]}, kind, "ask", "ask x", "x"))


def _batch(flow: Flow, kind: str) -> Case:
    left = flow.branch().to(_asks(flow, "left", kind)).to(_keeps(flow, "left"))
    right = flow.branch().to(_asks(flow, "right", kind))
    flow.to(_keeps(flow, "first")).batch(left=left, right=right).to(_keeps(flow, "out"))
    values = {side: _value(kind, f"{side} x", "x") for side in ("left", "right")}
    state: dict[str, Any] = {"first": ["x"], "out": [values]}
    if kind == "event":
        state |= {f"heard {side}": [values[side]] for side in values}
    else:
        state["left"] = [values["left"]]
    return Case(flow, "x", frozenset({"left x", "right x"}), state)


def _for_each(flow: Flow, kind: str) -> Case:
    flow.for_each().to(_asks(flow, "ask", kind)).end_for_each().to(_keeps(flow, "out"))
    items = ["c", "a", "b"]
    values = [_value(kind, f"ask {item}", item) for item in items]
    state: dict[str, Any] = {"out": [values]}
    if kind == "event":
        state["heard ask"] = values
    return Case(flow, items, frozenset(f"ask {item}" for item in items), state)


def _join(flow: Flow, kind: str) -> Case:
    if kind == "event":
        flow.to(_asks(flow, "a", kind))
        flow.to(_asks(flow, "b", kind))
        flow.when("a answered", "b answered").to(_keeps(flow, "out"))
    else:
        flow.to(_asks(flow, "a", kind)).emit("a is there")
        flow.to(_asks(flow, "b", kind)).emit("b is there")
        flow.when("a is there", "b is there").to(_keeps(flow, "out"))
    values = {name: _value(kind, f"{name} x", "x") for name in "ab"}
    ending = "answered" if kind == "event" else "is there"
    state: dict[str, Any] = {"out": [{f"{name} {ending}": value for name, value in values.items()}]}
    if kind == "event":
        state |= {f"heard {name}": [value] for name, value in values.items()}
    return Case(flow, "x", frozenset({"a x", "b x"}), state)


def _sub_flow(flow: Flow, kind: str) -> Case:
    inner = Flow("inner")
    inner.to(_asks(inner, "ask", kind)).to(_keeps(inner, "in"))
    flow.to(_keeps(flow, "first")).to(
        inner,
        capture={"input": "input"},
        write_back={"state.inner": "state.in", "state.heard": "state.heard ask"},
    ).to(_keeps(flow, "out"))
    value = _value(kind, "ask x", "x")
    heard = [value] if kind == "event" else None
    kept = None if kind == "event" else [value]
    return Case(
        flow, "x", frozenset({"ask x"}), {"first": ["x"], "inner": kept, "heard": heard, "out": [value]}
    )


def _loop(flow: Flow, kind: str) -> Case:
    asks = _asks(flow, "ask", kind)

    async def around(data: Data[Any]) -> int:
        done = int(data.get_state("rounds", 0)) + 1
        await data.set_state("rounds", done)
        if done < 3:
            await data.emit("again", done)
        return done

    flow.chunk(around)
    flow.to(asks).to(around)
    flow.when("again").to(asks).to(around)
    if kind == "event":
        flow.when("ask answered").to(around)
    state: dict[str, Any] = {"rounds": 3}
    if kind == "event":
        state["heard ask"] = [answer_to(f"ask {given}") for given in ("x", 1, 2)]
    return Case(flow, "x", frozenset({"ask x", "ask 1", "ask 2"}), state)


MAKERS: dict[str, Callable[[Flow, str], Case]] = {
    "plain": _plain,
    "branch of an if": _if,
    "batch": _batch,
    "for_each": _for_each,
    "join": _join,
    "sub-flow": _sub_flow,
    "loop": _loop,
}
