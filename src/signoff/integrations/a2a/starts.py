"""Starts a task: the first message's data or text are the arguments of a run."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final, cast

from a2a.types import Message

from signoff import AsyncClient
from signoff.errors import InvalidValue
from signoff.integrations.a2a.agent import A2AAgent, Caller
from signoff.integrations.a2a.parts import data_of, text_of

_OPTIONS: Final = frozenset(inspect.signature(AsyncClient.start).parameters) - {
    "self",
    "workflow",
    "args",
    "kwargs",
}
"""Arguments of ``start`` itself. A message must not set them."""


async def start(client: AsyncClient, agent: A2AAgent, caller: Caller, message: Message) -> str:
    """Start the run of a message, once for its id, and return the task's id.

    Raises:
        InvalidValue: The message has no arguments, or they do not fit the workflow.
        IdConflict: Another message of the caller has this id.
    """
    task_id = agent.task_id(caller, message.message_id, message.context_id)
    args, kwargs = _arguments(agent, message)
    _check_names(agent, args, kwargs)
    await client.start(agent.workflow, *args, id=task_id, started_by=caller.name, **kwargs)
    return task_id


def _arguments(agent: A2AAgent, message: Message) -> tuple[list[Any], Mapping[str, Any]]:
    text, data = text_of(message), data_of(message)
    if len(data) > 1 or (data and text and agent.arguments_of is None):
        raise InvalidValue("parts", "the first message of a task has either a text or one data part")
    if agent.arguments_of is not None:
        given = agent.arguments_of(text, data[0] if data else None)
    elif not data:
        return ([text] if text else []), {}
    elif not isinstance(data[0], dict):
        raise InvalidValue(
            "parts.0.data", "the arguments are an object, by the names of the workflow's parameters"
        )
    else:
        given = cast("dict[str, Any]", data[0])
    if taken := sorted(_OPTIONS & given.keys()):
        raise InvalidValue(
            f"parts.0.data.{taken[0]}", "this name is an option of Signoff; rename the parameter"
        )
    return [], given


def _check_names(agent: A2AAgent, args: list[Any], kwargs: Mapping[str, Any]) -> None:
    """Check arguments against a workflow of this process: one of another process fails its run."""
    if isinstance(agent.source, AsyncClient):
        return
    function = agent.source.registry.function(agent.workflow)
    if function is None:
        return
    try:
        inspect.signature(function).bind(None, *args, **kwargs)
    except TypeError as error:
        raise InvalidValue("parts", str(error)) from None
