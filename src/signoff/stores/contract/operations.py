"""Declares the operations of a store: one decorator on the contract's method, from which everything else is derived.

The remote store, the wrappers, the memory store and the server's store API take names, arguments and results from
``OPERATIONS``. A subclass of ``Store`` that implements ``perform`` has every operation.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, NotRequired, Required, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from signoff.errors import InvalidValue

F = TypeVar("F", bound=Callable[..., Any])


class Operation:
    """One operation of ``Store``.

    Attributes:
        name: The name of the method.
        noun: The protocol that declares it, such as ``RunStore``.
        is_read: Whether it only reads.
        lane: A remote store sends operations of one lane and id one after the other; None means in any order.
        is_patient: Whether a remote store retries it for as long as the server is unreachable. An operation that
            the caller soon repeats anyway, with newer arguments, is not patient.
        takes_token: Whether a ``token`` makes it repeatable.
        performs: The declared method, which binds its arguments and calls ``perform``; None until it is declared.
    """

    performs: Callable[..., Any] | None = None

    def __init__(
        self, method: Callable[..., Any], *, is_read: bool, lane: str | None, is_patient: bool
    ) -> None:
        self.name = method.__name__
        self.noun = method.__qualname__.partition(".")[0]
        self.is_read = is_read
        self.lane = lane
        self.is_patient = is_patient
        self._method = method
        self._signature = inspect.signature(method)
        parameters = list(self._signature.parameters.values())[1:]
        self._names = tuple(each.name for each in parameters)
        self._positional = tuple(each.name for each in parameters if each.kind is not each.KEYWORD_ONLY)
        self._defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        self._template = dict.fromkeys(self._names) | self._defaults
        self._is_positional = all(name in self._positional or name in self._defaults for name in self._names)
        self._required = len(self._names) - len(self._defaults)
        self.takes_token = "token" in self._names

    @property
    def returns(self) -> Any:
        """The type of its result."""
        return self._hints["return"]

    def bind(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments of a call by name, in the order of their declaration, with defaults."""
        if self._is_positional and self._required <= len(args) <= len(self._positional):
            bound = self._template | dict(zip(self._positional, args, strict=False))
            if not named:
                return bound
            bound |= named
            if len(bound) == len(self._names) and named.keys().isdisjoint(self._positional[: len(args)]):
                return bound
        by_place = dict(zip(self._positional, args, strict=False))
        given = {**self._defaults, **by_place, **named}
        if (
            len(by_place) < len(args)
            or len(given) != len(self._names)
            or not by_place.keys().isdisjoint(named)
        ):
            self._signature.bind(None, *args, **named)  # raises TypeError
        return {name: given[name] for name in self._names}

    async def call(self, store: Any, arguments: Mapping[str, Any]) -> Any:
        """Call this operation of a store."""
        method = getattr(store, self.name)
        if getattr(method, "__func__", None) is self.performs and tuple(arguments) == self._names:
            return await store.perform(self, arguments)  # they are bound
        return await method(**arguments)

    def lane_of(self, arguments: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the lane of a call and the id of its first argument; None if it may be sent in any order."""
        if self.lane is None:
            return None
        first: Any = next(iter(arguments.values()))
        if isinstance(first, str):
            return self.lane, first
        return self.lane, getattr(first, "id", None) or getattr(first, "run_id", None) or ""

    # Built on first use: building all of them takes half a second, and most processes need only a few.

    @cached_property
    def _arguments(self) -> TypeAdapter[dict[str, Any]]:
        fields: dict[str, Any] = {
            name: (NotRequired if name in self._defaults else Required)[self._hints[name]]
            for name in self._names
        }
        shape: Any = TypedDict(self.name, fields)  # pyright: ignore[reportArgumentType]
        return TypeAdapter(shape)

    @cached_property
    def _result(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.returns)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._method)

    def write_arguments(self, arguments: Mapping[str, Any]) -> bytes:
        """Return arguments as JSON."""
        return self._arguments.dump_json(dict(arguments))

    def read_arguments(self, data: object) -> dict[str, Any]:
        """Read arguments back. Raises InvalidValue."""
        try:
            return self._arguments.validate_python(data)
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(str(part) for part in (self.name, *first["loc"]))
            raise InvalidValue(path, first["msg"]) from None

    def write_result(self, result: object) -> bytes:
        """Return a result as JSON."""
        return self._result.dump_json(result)

    def read_result(self, data: object) -> Any:
        """Read a result back. Raises ValueError."""
        return self._result.validate_python(data)


_declared: dict[str, Operation] = {}

OPERATIONS: Final[Mapping[str, Operation]] = _declared
"""All operations by name, once ``signoff.stores.contract.store`` is imported."""


def reads(method: F) -> F:
    """Declare an operation that only reads."""
    return _performed(method, Operation(method, is_read=True, lane=None, is_patient=True))


def writes(*, lane: str | None = None, is_patient: bool = True) -> Callable[[F], F]:
    """Declare an operation that writes. ``Operation`` describes the arguments."""

    def declare(method: F) -> F:
        return _performed(method, Operation(method, is_read=False, lane=lane, is_patient=is_patient))

    return declare


def _performed(method: F, operation: Operation) -> F:
    """Register an operation, and return its method, which calls ``perform``."""
    _declared[operation.name] = operation

    @functools.wraps(method)
    async def perform(self: Any, *args: Any, **named: Any) -> Any:
        return await self.perform(operation, operation.bind(args, named))

    operation.performs = perform
    return perform  # pyright: ignore[reportReturnType]
