"""A flow to be killed: two concurrent questions, one with resume_to="self", and a chunk that pays once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from signoff import Signoff
from signoff.flows import Data, Flow


def register_flow(app: Signoff, effect: Callable[[object], object]) -> None:
    """Register it. ``effect`` leaves a trace of each execution of a chunk, and returns what it is given."""
    flow = Flow("flow", auto_close_timeout=0.0)

    @flow.chunk
    def order(data: Data[Any]) -> object:
        data.set_state("order", "o-1")
        data.emit("seen", "o-1")
        return effect("o-1")

    @flow.chunk
    async def first(data: Data[Any]) -> object:
        effect("first")
        return await data.pause_for("approval", {"question": "first?"})

    @flow.chunk
    async def why(data: Data[Any]) -> object:
        if data.resume is not None:
            return effect([data.input, data.resume.value])
        return await data.pause_for("text", {"question": "why?"}, resume_to="self")

    @flow.chunk(effect="once")
    def act(data: Data[Any]) -> object:
        return effect("acted")

    @flow.chunk
    def keep(data: Data[Any]) -> None:
        data.set_state("answers", data.input)

    @flow.chunk
    def seen(data: Data[Any]) -> None:
        data.append_state("seen", effect(data.input))

    both = flow.to(order).batch(first, why)
    both.to(keep)
    both.to(act)
    flow.when("seen").to(seen)
    app.register(flow)
