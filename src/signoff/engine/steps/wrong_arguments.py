"""Detects calls with wrong arguments: of step functions before they run, and of Signoff's functions in a step.

A retry would repeat such a call.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import reprlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any, Final

from signoff import codec
from signoff.codec.type_hints import called
from signoff.errors import RegistrationError

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def check_step(
    name: str, function: object, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> None:
    """Check that a step's function can be called with these arguments.

    Raises:
        RegistrationError: It is not callable (such as a call's result), or the arguments do not match.
    """
    if not callable(function):
        if asyncio.iscoroutine(function):
            function.close()
            name = name or getattr(function, "__name__", "")
            problem, named = "called its function; instead of calling it,", name
        else:
            problem, named = f"takes a function, not {reprlib.repr(function)};", name or "name"
        raise RegistrationError(
            f"step {name!r} {problem} pass the function and its arguments: ctx.step({named!r}, function, *args)"
        )
    if not kwargs and _fits(function, len(args)):
        return
    try:
        shape = codec.shape_of(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        shape.bind(*args, **(kwargs or {}))
    except TypeError as error:
        if _takes(function, args, kwargs or {}):
            return
        shown = getattr(function, "__qualname__", None) or type(function).__name__
        raise RegistrationError(f"step {name!r} cannot call {shown}{shape}: {error}") from None


def _takes(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the wrapper that a decorator has made accepts arguments: it may add or drop some for its function."""
    try:
        inspect.signature(called(function), follow_wrapped=False).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _fits(function: Callable[..., Any], count: int) -> bool:
    """Whether a plain function surely accepts this number of positional arguments. Fast, since each step asks."""
    if isinstance(function, MethodType):
        return _fits(function.__func__, count + 1)
    if type(function) is not FunctionType:
        return False
    code = function.__code__
    if code.co_flags & _VARIADIC or code.co_kwonlyargcount:
        return False
    return code.co_argcount - len(function.__defaults__ or ()) <= count <= code.co_argcount


_REFUSAL: Final = re.compile(r"(?P<name>[\w.<>]+)\(\) (?:got|missing|takes) ")
"""Python's TypeError for a wrong call: ``pause() got an unexpected keyword argument 'assignee'``."""

_MODULES: Final = ("signoff", "signoff.agents", "signoff.flows")


def is_wrong_call(error: BaseException) -> bool:
    """Return whether an error is Python's TypeError for a call of a public function or method of Signoff."""
    if type(error) is not TypeError or not (match := _REFUSAL.match(str(error))):
        return False
    name = match["name"]
    return any(_has(module, name) for module in _MODULES if module in sys.modules)


def _has(module: str, name: str) -> bool:
    """Whether a module exports a function with this qualified name, or a class with such a method."""
    exported = sys.modules[module]
    for each in getattr(exported, "__all__", ()):
        found: object = getattr(exported, each, None)
        if isinstance(found, FunctionType) and found.__qualname__ == name:
            return True
        if isinstance(found, type) and any(
            name.startswith(f"{kind.__qualname__}.") for kind in found.__mro__
        ):
            return True
    return False
