"""Flows that are registered, run and ended."""

from __future__ import annotations

from typing import Any

from signoff import Signoff
from signoff.flows import Executions, Flow
from signoff.testing import MemoryStore, environment


def registered(flow: Flow, **options: Any) -> Signoff:
    app = Signoff(MemoryStore())
    app.register(flow, **options)
    return app


async def ended(flow: Flow, input: Any = None, **options: Any) -> Any:
    """Run an execution to its end, in an environment; returns its state."""
    async with environment(registered(flow, **options)) as env:
        return await (await Executions(env.client, flow.name).start(input)).result()


def new_flow(**options: Any) -> Flow:
    return Flow("f", auto_close_timeout=0.0, **options)
