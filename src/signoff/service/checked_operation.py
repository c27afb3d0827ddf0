"""Declares an operation of the service: its arguments are checked, and its result is shown as the service shows it."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable
from typing import Any, TypeVar

from signoff.errors import InvalidValue
from signoff.records.names import check_by

F = TypeVar("F", bound=Callable[..., Any])


def operation(method: F) -> F:
    """Method decorator for a class that has ``shown``.

    A first argument called ``..._id`` must be a string: databases would treat other types differently. ``by`` must name
    a user. The result is what ``shown`` returns for it.

    Raises:
        InvalidValue: An id is not a string, or ``by`` is not a valid name.
    """
    parameters = list(inspect.signature(method).parameters)[1:]
    path = parameters[0] if parameters and parameters[0].endswith("_id") else None

    @functools.wraps(method)
    async def perform(self: Any, *args: Any, **named: Any) -> Any:
        if path is not None:
            id: object = args[0] if args else named.get(path)
            if not isinstance(id, str):
                raise InvalidValue(path, f"expected a text, not {reprlib.repr(id)}")
            check_by(named.get("by"))
        return await self.shown(await method(self, *args, **named))

    return perform  # pyright: ignore[reportReturnType]
