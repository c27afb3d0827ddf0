"""Refuses tools whose code calls an async function without an await, before they are called."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset, WrapperToolset

from signoff.engine.run.unawaited_functions import unawaited
from signoff.errors import NotAwaited, RegistrationError

_OF_WRAPPERS: Final = ("approval_required_func", "filter_func", "prepare_func")
"""The attributes of wrapping toolsets that hold functions."""

_checked: weakref.WeakSet[object] = weakref.WeakSet()
"""The functions that were checked, and are correct."""


def check_awaits(agent: str | None, toolset: AbstractToolset[Any], *others: object) -> None:
    """Refuse functions of an agent that call async functions without an await.

    Args:
        agent: The agent's name, for the error.
        toolset: Its tools.
        others: Its other functions, also as values of a mapping. Other objects are ignored.

    Raises:
        NotAwaited: The first such call.
        RegistrationError: A function is an async generator. A call of it runs none of its code.
    """
    for function in (*_of_toolset(toolset), *(each for other in others for each in _of_policy(other))):
        if function is None:
            continue
        plain = getattr(function, "__func__", function)
        if inspect.isasyncgenfunction(plain):
            raise RegistrationError(
                f"agent {agent!r}: {plain.__qualname__} is an async generator, and a call of it runs none of its code. "
                "Make it an async function that returns its items, such as a list"
            )
        try:
            if plain in _checked:
                continue
            for call in unawaited([function]):
                raise NotAwaited(f"agent {agent!r}", *call)
            _checked.add(plain)
        except TypeError:  # it takes no weak reference
            continue


def _of_toolset(toolset: AbstractToolset[Any]) -> Iterator[object]:
    if isinstance(toolset, FunctionToolset):
        for tool in list(toolset.tools.values()):
            yield from (tool.function, tool.prepare, tool.args_validator)
    elif isinstance(toolset, CombinedToolset):
        for each in toolset.toolsets:
            yield from _of_toolset(each)
    elif isinstance(toolset, WrapperToolset):
        yield from (getattr(toolset, name, None) for name in _OF_WRAPPERS)
        yield from _of_toolset(toolset.wrapped)


def _of_policy(policy: object) -> Iterator[object]:
    yield from cast("Mapping[str, object]", policy).values() if isinstance(policy, Mapping) else (policy,)
