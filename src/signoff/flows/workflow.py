"""The workflow behind a flow's executions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from signoff import codec
from signoff.client.async_client import App
from signoff.engine.run.execution import RESULT_LIMIT
from signoff.engine.run.unawaited_functions import CHECKED
from signoff.errors import RegistrationError
from signoff.flows.errors import MissingResource
from signoff.flows.flow import Flow
from signoff.flows.graph_walk import Machine, Memory
from signoff.flows.recorded_graph import recorded
from signoff.workflow.context import Context


def register(
    app: App, flow: Flow, name: str | None, resources: Mapping[str, Any] | None
) -> Callable[..., Awaitable[Any]]:
    """Return the workflow whose runs are a flow's executions, and bind the flow to the app.

    Raises:
        RegistrationError: The graph is not complete, or a resource is not required by the flow.
    """
    if name is not None and name != flow.name:
        raise RegistrationError(f"flow {flow.name!r} has its name from Flow(...), not from register")
    graph = flow.graph.to_json()
    required = _required(flow)
    provided = dict(resources or {})
    for each in provided:
        if each not in required:
            raise RegistrationError(f"flow {flow.name!r} does not require {each!r}: flow.requires({each!r})")
    flow.bind(app)

    async def execution(ctx: Context, input: Any = None, memory: Memory | None = None) -> Any:
        began_with = graph if memory is None else memory["graph"]

        async def current() -> dict[str, Any]:
            return dict(began_with)

        parts = recorded(flow, await ctx.step(f"{flow.name}:graph", current, returns=Any))
        missing = sorted(required - set(provided))
        if missing:
            raise MissingResource(flow.name, missing)
        state = await Machine(ctx, parts, provided, flow.auto_close_timeout).run(input, memory)
        text = codec.encode(state, path="state", limit=codec.MAX_CARRIED)
        return codec.decode(text, flow.output, path="state")

    execution.__name__ = execution.__qualname__ = flow.name
    setattr(execution, RESULT_LIMIT, codec.MAX_CARRIED)
    setattr(execution, CHECKED, _functions(flow))
    execution.__doc__ = f"An execution of flow {flow.name!r}."
    execution.__annotations__ = {
        "ctx": Context,
        "input": flow.input,
        "memory": Memory | None,
        "return": flow.output,
    }
    return execution


def _functions(flow: Flow) -> list[object]:
    """Return the functions that an execution calls, including those of nested flows."""
    chunks = (chunk.function for chunk in flow.chunks.values())
    inner = (each for within in flow.flows.values() for each in _functions(within))
    return [*chunks, *flow.conditions.values(), *inner]


def _required(flow: Flow) -> set[str]:
    return flow.required.union(*(_required(inner) for inner in flow.flows.values()))
