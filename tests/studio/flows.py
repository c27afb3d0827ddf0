"""Flows whose graphs Studio draws."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any, Final

from signoff import RetryPolicy, Signoff, current_step
from signoff.flows import Data, Flow

HELD: Final[defaultdict[str, threading.Event]] = defaultdict(threading.Event)
"""By execution, what a chunk waits for that runs until it is let go."""


def register(app: Signoff) -> None:
    """Register all of them."""
    app.register(order_flow())
    app.register(gate_flow())
    app.register(twice_flow())
    app.register(choices_flow())
    app.register(again_flow())
    app.register(joins_flow())
    app.register(ticking_flow())


def order_flow() -> Flow:
    """A branch, a question, a list, a flow within, and an event."""
    flow = Flow("order", auto_close_timeout=0.05)

    @flow.chunk
    def read(data: Data[dict[str, Any]]) -> Any:
        data.set_state("order", data.input)
        return data.input

    def is_large(data: Data[dict[str, Any]]) -> bool:
        return data.input["cents"] > 5000

    @flow.chunk
    def approve(data: Data[dict[str, Any]]) -> Any:
        return data.pause_for("approval", {"question": f"Ship for {data.input['cents']} cents?"})

    @flow.chunk
    def book(data: Data[Any]) -> None: ...

    @flow.chunk
    def goods(data: Data[Any]) -> Any:
        return data.get_state("order")["items"]

    @flow.chunk(retry=RetryPolicy(initial_seconds=0.01, max_attempts=2))
    def pack(data: Data[str]) -> Any:
        if data.input == "nothing":
            HELD[data.execution_id].wait(60)
            raise LookupError("there is nothing to pack")
        if data.input == "glass":
            return data.pause_for("approval", {"question": "Is the glass wrapped?"})
        return data.input

    @flow.chunk
    def notify(data: Data[Any]) -> None:
        data.emit("shipped", data.input)

    @flow.chunk
    def archive(data: Data[Any]) -> None: ...

    line = flow.to(read).if_(is_large).to(approve).else_().to(book).end_if().to(goods)
    line.for_each().to(pack).end_for_each().to(shipping_flow()).to(notify)
    flow.when("shipped").to(archive)
    return flow


def shipping_flow() -> Flow:
    """What the others have within them."""
    flow = Flow("shipping")

    @flow.chunk
    def weigh(data: Data[Any]) -> Any:
        return data.input

    @flow.chunk
    def label(data: Data[Any]) -> Any:
        return data.input

    flow.to(weigh).to(label)
    return flow


def gate_flow() -> Flow:
    """A chunk that runs until it is let go, after it has failed so many times."""
    flow = Flow("gate", auto_close_timeout=0.05)

    @flow.chunk(retry=RetryPolicy(initial_seconds=0.01))
    def hold(data: Data[int]) -> None:
        if current_step().attempt <= data.input:
            raise ConnectionError("nobody is there")
        HELD[data.execution_id].wait(60)

    @flow.chunk
    def after(data: Data[Any]) -> None: ...

    flow.to(hold).to(after)
    return flow


def twice_flow() -> Flow:
    """One flow at two places, the second behind a question."""
    flow, inner = Flow("twice", auto_close_timeout=0.05), shipping_flow()

    @flow.chunk
    def ask(data: Data[Any]) -> Any:
        return data.pause_for("approval", {"question": "Once more?"})

    flow.to(inner).to(ask).to(inner)
    return flow


def choices_flow() -> Flow:
    """Branches without chunks, branches side by side, and what is collected of them."""
    flow = Flow("choices", auto_close_timeout=0.05)

    def is_odd(data: Data[int]) -> bool:
        return data.input % 2 == 1

    @flow.chunk
    def odd(data: Data[int]) -> int:
        return data.input

    @flow.chunk
    def left(data: Data[Any]) -> Any:
        return data.input

    @flow.chunk
    def right(data: Data[Any]) -> Any:
        return data.input

    @flow.chunk
    def last(data: Data[Any]) -> None: ...

    line = flow.for_each().if_(is_odd).to(odd).end_if().end_for_each()
    line.batch(left=flow.branch().to(left), right=flow.branch().to(right)).to(last)
    return flow


def again_flow() -> Flow:
    """A chunk that runs again with its answer, for each item."""
    flow = Flow("again", auto_close_timeout=0.05)

    @flow.chunk
    def decide(data: Data[str]) -> Any:
        if data.resume is None:
            return data.pause_for("approval", {"question": f"Keep {data.input}?"}, resume_to="self")
        return data.resume.value

    flow.for_each(concurrency=1).to(decide).end_for_each()
    return flow


def joins_flow() -> Flow:
    """Lines that an answer and the end of a chunk begin, and what is collected of them."""
    flow = Flow("joins", auto_close_timeout=0.05)

    @flow.chunk
    def ask(data: Data[Any]) -> Any:
        return data.pause_for("approval", {"question": "Sure?"}, resume_to={"event": "sure"})

    @flow.chunk
    def other(data: Data[Any]) -> Any:
        return data.input

    @flow.chunk
    def end(data: Data[Any]) -> None: ...

    flow.to(ask)
    flow.to(other)
    flow.when("sure").collect("both", "answer").to(end)
    flow.when({"chunk": "other"}).collect("both", "other")
    return flow


def ticking_flow() -> Flow:
    """A line for each event."""
    flow = Flow("ticking", auto_close_timeout=None)

    @flow.chunk
    def count(data: Data[Any]) -> None:
        data.add_state("count")

    flow.when("tick").to(count)
    return flow
