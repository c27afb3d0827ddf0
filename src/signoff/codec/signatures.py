"""Signatures of functions: their parameters, with declared types, and their return type."""

from __future__ import annotations

import builtins
import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Final, Never, NoReturn, Self, Unpack
from weakref import WeakKeyDictionary

import typing_extensions

from signoff.codec import type_hints as hints

Function = Callable[..., Any]

_PLAIN = (types.FunctionType, types.BuiltinFunctionType)

# Weak, because functions come and go: a workflow may define one in each run. No value refers to its key.
_signatures: WeakKeyDictionary[Function, dict[int, Signature]] = WeakKeyDictionary()
_returns: WeakKeyDictionary[Function, Any] = WeakKeyDictionary()

# Return types of nested functions by the id of their code, which is the same for each definition. The code is kept, so
# that no other object gets its id. Its annotation may be another type each time, so that is compared.
_by_code: dict[int, tuple[types.CodeType, Any, Any]] = {}
_MOST_CODES: Final = 4_096

_UNSURE: Final = object()
"""The annotation must be resolved."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter: its name in messages and its declared type."""

    name: str
    annotation: Any


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function, the first ``skip`` of which the engine fills.

    Attributes:
        name: The function's name.
        shape: All its parameters.
        skip: How many the engine fills.
        slots: The positional parameters, without those that the engine fills.
        required: How many of these have no default; one more than there are slots if a keyword is required.
        hints: The declared types by parameter. Undeclared ones may be missing.
    """

    name: str
    shape: inspect.Signature
    skip: int
    slots: Sequence[Slot]
    required: int
    hints: Mapping[str, Any]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Match arguments to parameters, by position where possible.

        Raises:
            TypeError: They do not fit. The message names the function and the parameter.
        """
        if not kwargs and self.required <= len(args) <= len(self.slots):
            return args, kwargs
        try:
            bound = self.shape.bind(*[None] * self.skip, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.shape}: {error}") from None
        return bound.args[self.skip :], bound.kwargs

    def at(self, index: int) -> Slot:
        """Return the parameter of a positional argument."""
        if index < len(self.slots):
            return self.slots[index]
        rest = self._catch_all(Parameter.VAR_POSITIONAL)
        return Slot(f"{rest}[{index - len(self.slots)}]", _unpacked(self.hints.get(rest, Any), ""))

    def named(self, name: str) -> Slot:
        """Return the parameter of a keyword argument."""
        if name in self.shape.parameters:
            return Slot(name, self.hints.get(name, Any))
        rest = self._catch_all(Parameter.VAR_KEYWORD)
        return Slot(name, _unpacked(self.hints.get(rest, Any), name))

    def _catch_all(self, kind: object) -> str:
        return next((each.name for each in self.shape.parameters.values() if each.kind is kind), "")


def signature(function: Function, skip: int) -> Signature | None:
    """Describe a function's parameters.

    Args:
        function: Any callable.
        skip: How many leading parameters the engine fills.

    Returns:
        The description, or None for a builtin that Python cannot describe.
    """
    try:
        known = _signatures.setdefault(function, {})
    except TypeError:  # unhashable, or without weak references
        known = dict[int, Signature]()
    if skip in known:
        return known[skip]
    try:
        described, complete = _describe(function, skip)
    except ValueError:
        return None
    if complete:  # a name that is unresolvable now may be defined later
        known[skip] = described
    return described


def return_annotation(function: Function) -> Any:
    """Return the declared type of a function's result, once it is awaited or run to its end.

    Args:
        function: A function (plain, async or generator), partial, bound method, class or other callable.

    Returns:
        The type, or ``Any`` where none is declared or it cannot be resolved.
    """
    if isinstance(function, type):
        return function
    plain = _underlying(function)
    if _declares_nothing(plain):
        return Any
    written = _written_result(plain)
    if written is not _UNSURE and (known := _by_code.get(id(plain.__code__))) is not None:
        code, as_written, annotation = known
        if code is plain.__code__ and _is_same_type(as_written, written):
            return _owner(function) if annotation is Self else annotation
    try:
        annotation = _returns[plain]
    except (KeyError, TypeError):  # new, unhashable, or without weak references
        found, complete = hints.resolve(plain)
        annotation = _result(plain, found.get("return", Any))
        if complete and found:
            if _is_same_type(written, written):
                _know_code(plain.__code__, written, annotation)
            else:
                _returns[plain] = annotation
    return _owner(function) if annotation is Self else annotation


def _written_result(function: Any) -> Any:
    """Return the return annotation of a nested function without resolving it.

    Returns:
        The annotation; for a string with one name, the object of that name in the function's module. ``_UNSURE`` if
        that may not be enough: the function is not nested, wraps another one, or the string has other names.
    """
    if type(function) is not types.FunctionType or "<locals>" not in function.__qualname__:
        return _UNSURE
    if hasattr(function, "__wrapped__") or getattr(function, "__type_params__", ()):
        return _UNSURE
    try:
        written: Any = function.__annotations__.get("return", Any)
    except Exception:  # from Python 3.14 on this evaluates them, and a name may be undefined
        return _UNSURE
    if not isinstance(written, str):
        return written
    scope = function.__globals__
    return scope[written] if written in scope else getattr(builtins, written, _UNSURE)


def _is_same_type(one: Any, other: Any) -> bool:
    """Whether two types consist of the same module-level classes in the same order.

    Equality is not enough: ``A | B`` equals ``B | A``, but reads differently.
    """
    if one is None or one is Any:
        return one is other
    if isinstance(one, type) and not isinstance(one, types.GenericAlias):
        return one is other and "<locals>" not in one.__qualname__
    parts = typing.get_args(one)
    return (
        bool(parts)
        and type(one) is type(other)
        and typing.get_origin(one) is typing.get_origin(other)
        and len(parts) == len(typing.get_args(other))
        and all(map(_is_same_type, parts, typing.get_args(other)))
    )


def _know_code(code: types.CodeType, written: Any, annotation: Any) -> None:
    if len(_by_code) >= _MOST_CODES:
        _by_code.clear()
    _by_code[id(code)] = (code, written, annotation)


def settled_return_annotation(function: types.FunctionType) -> tuple[Any, bool]:
    """Return the declared type of a plain function's result, and whether it is final: resolved or undeclared."""
    annotation = return_annotation(function)
    return annotation, _declares_nothing(function) or _underlying(function) in _returns


def _declares_nothing(function: Any) -> bool:
    """Whether a plain function has no annotations, without resolving any. Most steps of a busy run have none."""
    return (
        isinstance(function, types.FunctionType)
        and getattr(function, "__annotate__", None)
        is None  # from Python 3.14 on, the function that makes them
        and not function.__annotations__
        and not hasattr(function, "__wrapped__")
    )


def _owner(function: Function) -> Any:
    """Return the class that ``Self`` means in a bound method."""
    bound = getattr(function, "__self__", None)
    if bound is None:
        return Any
    return bound if isinstance(bound, type) else type(bound)


def _result(function: Function, annotation: Any) -> Any:
    """Return the type of a function's result, such as that of an ``Awaitable``."""
    if annotation is Never or annotation is NoReturn:
        return Any
    origin: Any = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation)
    if origin in _RESULTS:
        return arguments[_RESULTS[origin]] if arguments else Any
    if origin in _STREAMS and inspect.isgeneratorfunction(function):
        return Any
    return annotation


def _describe(function: Function, skip: int) -> tuple[Signature, bool]:
    shape = hints.shape_of(function)
    found, complete = hints.resolve(_underlying(function))
    parameters = shape.parameters.values()
    slots = [Slot(each.name, found.get(each.name, Any)) for each in parameters if each.kind in _BY_POSITION]
    required = sum(each.kind in _BY_POSITION and each.default is Parameter.empty for each in parameters)
    if any(each.kind is Parameter.KEYWORD_ONLY and each.default is Parameter.empty for each in parameters):
        required = len(slots) + 1
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return Signature(name, shape, skip, slots[skip:], max(required - skip, 0), found), complete


def _underlying(function: Any) -> Any:
    """Return the plain function in a partial, a bound method, a class or another callable."""
    if isinstance(function, _PLAIN):
        return function
    if isinstance(function, functools.partial):
        return _underlying(function.func)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if isinstance(function, types.MethodType):
        return _underlying(function.__func__)
    if hasattr(function, "__wrapped__"):
        return _underlying(function.__wrapped__)
    if isinstance(function, type):
        return function.__init__
    without_self = hints.called(function)
    return type(function).__call__ if without_self is function else _underlying(without_self)


def _unpacked(annotation: Any, name: str) -> Any:
    """Return the type of one argument of ``**options: Unpack[Options]``."""
    if getattr(annotation, "__unpacked__", False):
        return Any  # *rest: *tuple[int, str] from Python 3.15 on; Unpack[tuple[int, str]] before
    if typing.get_origin(annotation) is not Unpack:
        return annotation
    (kind,) = typing.get_args(annotation)
    if not typing_extensions.is_typeddict(kind):
        return Any
    return typing.get_type_hints(kind).get(name, Any)


_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)

_RESULTS: dict[Any, int] = {
    collections.abc.Generator: 2,
    collections.abc.Coroutine: 2,
    collections.abc.Awaitable: 0,
    types.CoroutineType: 2,
    types.GeneratorType: 2,
}
_STREAMS: tuple[Any, ...] = (collections.abc.Iterator, collections.abc.Iterable)
