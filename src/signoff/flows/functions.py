"""Calling the functions of a flow: which kinds there are, and from which line of theirs something was called."""

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
    """Whether calling it gives a coroutine: an async function, a partial of one, an object with an async call."""
    plain = unwrapped(function)
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(
        getattr(type(plain), "__call__", None)  # noqa: B004
    )


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a partial calls, or the function itself."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def check_kind(function: Callable[..., Any], what: str) -> None:
    """Raise RegistrationError for a generator function."""
    plain = unwrapped(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise RegistrationError(f"{what} is a generator function; it returns its value, without yield")


def check_condition(function: object, what: str) -> None:
    """Raise RegistrationError for what cannot be called with a condition's data."""
    if not callable(function):
        raise RegistrationError(f"{what} is a function of the data, or the name of one, not {function!r}")
    check_kind(function, what)
    try:
        shape = codec.shape_of(function)
    except ValueError:  # a builtin that Python cannot describe
        return
    try:
        shape.bind(None)
    except TypeError as error:
        raise RegistrationError(f"{what} takes one parameter, its data: {error}") from None


def calling_line() -> str:
    """Return the file and the line outside of this package that led here."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and Path(frame.f_code.co_filename).parent == _HERE:
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
