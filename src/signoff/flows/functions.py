"""The functions of a flow: their kinds, and the line from which they called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from signoff import codec
from signoff.errors import RegistrationError

_HERE: Final = Path(__file__).parent


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call gives a coroutine: an async function, a partial of one, or an object with an async call."""
    plain = unwrapped(function)
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(
        getattr(type(plain), "__call__", None)  # noqa: B004
    )


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside a partial, or the function itself."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def check_kind(function: Callable[..., Any], what: str) -> None:
    """Check that a function is not a generator function.

    Raises:
        RegistrationError: It is one.
    """
    plain = unwrapped(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise RegistrationError(f"{what} is a generator function; it returns its value, without yield")


def check_condition(function: object, what: str) -> None:
    """Check that a condition can be called with its data.

    Raises:
        RegistrationError: It cannot.
    """
    if not callable(function):
        raise RegistrationError(f"{what} is a function of the data, or the name of one, not {function!r}")
    check_kind(function, what)
    try:
        shape = codec.shape_of(function)
    except ValueError:  # a builtin without a signature
        return
    try:
        shape.bind(None)
    except TypeError as error:
        raise RegistrationError(f"{what} takes one parameter, its data: {error}") from None


def calling_line() -> str:
    """Return the innermost file and line outside this package."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and Path(frame.f_code.co_filename).parent == _HERE:
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
