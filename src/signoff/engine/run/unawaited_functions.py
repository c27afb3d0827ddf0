"""Detects calls of a user's own async functions without an await. Python does not run them, and only warns.

``approve(ctx, order)`` as a statement asks no question, and ``if approved(ctx):`` is always true. This cannot be
detected at run time, so the source is read once per function, before it first runs. Only certain cases count: a name
that surely is an async function or a generator function, and a result that no code can await later.
"""

from __future__ import annotations

import asyncio
import builtins
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, cast

from signoff.engine.run.function_source import (
    ASKED,
    COMPARED,
    MADE,
    NEVER_READ,
    Chain,
    Result,
    Source,
    calls_one_of,
    is_in,
    sources_of,
    text_of,
    with_inner,
)
from signoff.engine.run.user_code_lines import is_installed, is_own_file

CHECKED: Final = "signoff_checked"
"""The attribute of a workflow's function that lists further functions that its runs call."""

_MOST_FUNCTIONS: Final = 1_000
"""The maximum number of functions followed from one."""

_DEEPEST: Final = 5
"""The maximum number of functions through which a returned result is followed."""

_LAZY: Final = (
    inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
)
_GENERATOR: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_FUTURES: Final = (asyncio.create_task, asyncio.ensure_future, asyncio.gather, asyncio.shield)

_UNKNOWN: Final = object()

_OPAQUE: Final = (
    *(FunctionType, MethodType, BuiltinFunctionType),
    *(str, bytes, int, float, bool, type(None), list, tuple, dict, set, frozenset),
)
"""Types of values whose attributes are not followed."""


class Unawaited(NamedTuple):
    """A call that is not awaited.

    Attributes:
        what: The call.
        where: Its line, as ``file:line in function``.
        how: What happens to its result.
    """

    what: str
    where: str
    how: str


@dataclass(frozen=True, eq=False)
class _Place:
    """A function, for the lookup of its names.

    Attributes:
        code: Its code object.
        module: Its module's globals.
        cells: Looks up a name of enclosing code.
        owner: The value of a method's first parameter: an object, or a class for a class method.
    """

    code: CodeType
    module: dict[str, Any]
    cells: Callable[[str], object]
    owner: object = _UNKNOWN

    @functools.cached_property
    def sources(self) -> Sequence[Source]:
        return sources_of(self.code, self.module)

    def look_up(self, source: Source, chain: Chain) -> object:
        name, *attributes = chain
        if name in source.functions:
            found = self._defined(name, source.functions[name])
        elif name in source.made:
            found = self.look_up(source, source.made[name])
        elif name in source.bound:
            is_owner = bool(source.parameters) and name == source.parameters[0]
            found = self.owner if is_owner and name not in source.rebound else _UNKNOWN
        elif name in self.code.co_freevars:
            found = self.cells(name)
        else:
            found = self.module.get(name, getattr(builtins, name, _UNKNOWN))
        for attribute in attributes:
            found = _made_by(found) if attribute == MADE else _attribute(found, attribute)
        return found

    def _defined(self, name: str, line: int) -> object:
        for each in self.code.co_consts:
            if isinstance(each, CodeType) and (each.co_name, each.co_firstlineno) == (name, line):
                return self.inner(each)
        return _UNKNOWN

    def inner(self, code: CodeType) -> _Place:
        """Return the place of a nested function."""
        return _Place(code, self.module, self._seen_from_within)

    def _seen_from_within(self, name: str) -> object:
        found = [self.look_up(source, (name,)) for source in self.sources]
        return found[0] if len(found) == 1 else _UNKNOWN


@dataclass(frozen=True)
class _Made:
    """An instance that the code creates of a class."""

    kind: type


def _made_by(kind: object) -> object:
    """Return what a call of a class surely creates: an instance of that very class."""
    if not _is(kind, type):
        return _UNKNOWN
    found = cast("Any", kind)
    is_plain = type(found).__call__ is type.__call__ and found.__new__ is object.__new__
    return _Made(found) if is_plain and found.__getattribute__ is object.__getattribute__ else _UNKNOWN


def _method_of(made: _Made, name: str) -> object:
    """Return a method of a future instance; ``_UNKNOWN`` if the instance may override it."""
    inits = (vars(each).get("__init__") for each in made.kind.__mro__)
    names = {name, "setattr", "__dict__", "vars"}
    if any(not names.isdisjoint(each.__code__.co_names) for each in inits if isinstance(each, FunctionType)):
        return _UNKNOWN
    found = _attribute(made.kind, name)
    return MethodType(found, made) if isinstance(found, FunctionType) else found


def _is(value: object, *kinds: type) -> bool:
    """Whether a value has such a type. ``isinstance`` would read ``__class__``, which proxies may refuse."""
    return issubclass(type(value), kinds)


def _attribute(value: object, name: str) -> object:
    """Return an attribute without running code; ``_UNKNOWN`` if that is not possible."""
    if _is(value, _Made):
        return _method_of(cast("_Made", value), name)
    if value is _UNKNOWN or _is(value, *_OPAQUE, _Place):
        return _UNKNOWN
    try:
        if _is(value, ModuleType):
            is_plain = (
                type(value).__getattribute__ is ModuleType.__getattribute__
            )  # otherwise it may be a lazy import
            return vars(value).get(name, _UNKNOWN) if is_plain else _UNKNOWN
        is_class = _is(value, type)
        kind = cast("type", value if is_class else type(value))
        if type(value).__getattribute__ is not (type if is_class else object).__getattribute__:
            return _UNKNOWN
        own = {} if is_class else getattr(value, "__dict__", {})
        if name in own:
            return own[name]
        found = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), _UNKNOWN)
    except Exception:  # it computes attributes, and fails
        return _UNKNOWN
    if _is(found, staticmethod):
        return cast("staticmethod[..., Any]", found).__func__
    if _is(found, classmethod):
        return MethodType(cast("Any", found).__func__, kind)
    return (
        MethodType(cast("FunctionType", found), value) if _is(found, FunctionType) and not is_class else found
    )


def _place_of(value: object) -> _Place | None:
    """Return the function that a call of a value runs; None if it is not surely a function."""
    owner: object = _UNKNOWN
    if _is(value, _Place):
        return cast("_Place", value)
    while _is(value, functools.partial):
        value = cast("functools.partial[Any]", value).func
    if value is not _UNKNOWN and not _is(value, type, FunctionType, MethodType):
        value = _attribute(value, "__call__")
    if _is(value, MethodType):
        method = cast("MethodType", value)
        owner, value = method.__self__, method.__func__
    if not _is(value, FunctionType):
        return None
    function = cast("FunctionType", value)

    def cell(name: str) -> object:
        names = function.__code__.co_freevars
        try:
            return (function.__closure__ or ())[names.index(name)].cell_contents
        except (ValueError, IndexError):  # there is no cell, or it is empty so far
            return _UNKNOWN

    return _Place(function.__code__, function.__globals__, cell, owner)


def _is_lazy(place: _Place, source: Source, result: Result, deep: int = 0) -> bool:
    """Whether a result surely is a coroutine or a generator."""
    called = _place_of(place.look_up(source, result.chain))
    if called is None or deep > _DEEPEST:
        return False
    awaits = result.awaits
    if called.code.co_flags & _LAZY:
        if not awaits:
            return True
        if not called.code.co_flags & inspect.CO_COROUTINE:
            return False
        awaits -= 1
    if not _is_users(called.code, place.code):
        return False
    returned = [(each, one) for each in called.sources for one in each.returns]
    return bool(returned) and all(
        _is_lazy(called, each, Result(one.chain, one.awaits + awaits), deep + 1) for each, one in returned
    )


def _is_users(code: CodeType, root: CodeType) -> bool:
    """Whether code is the user's: outside installed packages, or in the package of the root."""
    file = code.co_filename
    return not is_installed(file) or (
        not is_own_file(file) and os.path.dirname(file) == os.path.dirname(root.co_filename)
    )


def _unawaited_in(place: _Place) -> Iterator[Unawaited]:
    for source in place.sources:
        for use in source.uses:
            if use.builtin is not None and place.look_up(source, (use.builtin,)) is not getattr(
                builtins, use.builtin
            ):
                continue
            called = place.look_up(source, use.result.chain)
            is_future = (
                use.how in (ASKED, COMPARED)
                and not use.result.awaits
                and any(called is each for each in _FUTURES)
            )
            if (is_future or _is_lazy(place, source, use.result)) and is_in(place.code, use):
                where = f"{place.code.co_filename}:{use.span[0]} in {place.code.co_name}"
                kind, hint = _kind(called), ""
                if kind == "generator" and use.how == NEVER_READ:
                    continue
                if kind == "generator":
                    hint = "; yield from it, or call it with ctx.lfc"
                elif not place.code.co_flags & _LAZY:
                    hint = f"; {place.code.co_name} has to be async to await it"
                yield Unawaited(f"{kind} {text_of(place.code, use)}", where, use.how + hint)


def _kind(called: object) -> str:
    place = _place_of(called)
    is_generator = place is not None and place.code.co_flags & _GENERATOR
    return "generator" if is_generator else "coroutine"


def unawaited(functions: Iterable[object]) -> list[Unawaited]:
    """Return the calls without an await in functions and in the user's functions that they name.

    Args:
        functions: Functions, methods, partials or callable objects. Those without source are skipped.
    """
    found: list[Unawaited] = []
    for each in functions:
        root = _place_of(each)
        if root is not None and not is_own_file(root.code.co_filename):
            found.extend(_followed(root))
    return list(dict.fromkeys(found))


def _followed(root: _Place) -> Iterator[Unawaited]:
    """Inspect a function and those it leads to, unless a quick check finds nothing."""
    places = _named_by(root)
    noisy: set[int] = set()  # code that may use or return a result without an await
    for place, named in places:
        lazy = {name for name, each in named if each is None or each.code.co_flags & _LAZY}
        if lazy and calls_one_of(place.code, place.module, lazy):
            noisy.add(id(place.code))
    count = 0
    while len(noisy) > count:
        count = len(noisy)
        noisy.update(
            id(place.code)
            for place, named in places
            if any(each is not None and id(each.code) in noisy for _, each in named)
        )
    for place, _ in places:
        if id(place.code) in noisy:
            yield from _unawaited_in(place)


def _named_by(root: _Place) -> list[tuple[_Place, list[tuple[str, _Place | None]]]]:
    """Return a function and the user's functions it leads to, each with those it names."""
    waiting, seen = [root], set[int]()
    found: list[tuple[_Place, list[tuple[str, _Place | None]]]] = []
    while waiting and len(seen) < _MOST_FUNCTIONS:
        place = waiting.pop(0)
        if id(place.code) in seen:
            continue
        seen.add(id(place.code))
        named = list(_names_in(place))
        found.append((place, named))
        waiting.extend(each for _, each in named if each is not None and _is_users(each.code, root.code))
    return found


def _names_in(place: _Place) -> Iterator[tuple[str, _Place | None]]:
    """Yield the functions that code may name, itself or in nested code; None for one that creates a task."""
    for each in _functions_within(place.code):
        yield each.co_name, place.inner(each)
    codes = list(with_inner(place.code))
    names = dict.fromkeys(name for code in codes for name in code.co_names)
    holders: list[object] = [place.owner]
    for name in dict.fromkeys(name for code in codes for name in (*code.co_names, *place.code.co_freevars)):
        is_cell = name in place.code.co_freevars
        value = place.cells(name) if is_cell else place.module.get(name, _UNKNOWN)
        called = _place_of(value)
        if called is not None:
            yield name, called
        holders.append(value)
    for holder in holders:
        if holder is not _UNKNOWN and not _is(holder, *_OPAQUE):
            for name in names:
                value = _attribute(holder, name)
                called = _place_of(value)
                if called is not None or any(value is each for each in _FUTURES):
                    yield name, called


def _functions_within(code: CodeType) -> Iterator[CodeType]:
    """Yield the functions nested in code, also in comprehensions, but not in classes."""
    for each in code.co_consts:
        if isinstance(each, CodeType) and each.co_flags & inspect.CO_OPTIMIZED:
            if each.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
                yield from _functions_within(each)
            else:
                yield each
