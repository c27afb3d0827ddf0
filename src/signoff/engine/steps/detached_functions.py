"""Copies of step functions that share no variables with the run's code, and the changes made to these."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any, cast

from signoff.codec.canonical_json import state_text
from signoff.engine.run.value_copies import Memo, copied
from signoff.engine.steps.captured_values import Function, cells_of, has_own_defaults, owned_by, stands_alone


def with_values(function: FunctionType, values: Iterable[object]) -> FunctionType:
    """Return a copy of a function with its own variables, set to these values."""
    return _remade(function, tuple(map(types.CellType, values)), None, None)


def changed_values(function: FunctionType, values: tuple[Any, ...]) -> bool:
    """Return whether a function made by ``with_values`` has changed a variable."""
    for cell, value in zip(function.__closure__ or (), values, strict=True):
        try:
            if cell.cell_contents is not value:
                return True
        except ValueError:  # it was deleted
            return True
    return False


def detached(function: Function, memo: Memo) -> Function:
    """Return a function that shares no data with the run's code: it has copies of the closed-over variables.

    Args:
        function: The function of a step.
        memo: The copies so far.
    """
    if isinstance(function, functools.partial):
        made: functools.partial[Any] = cast("Any", function)
        inner = detached(made.func, memo)
        args = tuple(copied(each, memo) for each in made.args)
        kwargs = {name: copied(each, memo) for name, each in made.keywords.items()}
        is_same = inner is made.func and all(a is b for a, b in zip(args, made.args, strict=True))
        if is_same and all(kwargs[name] is each for name, each in made.keywords.items()):
            return made
        return functools.partial(inner, *args, **kwargs)
    if not isinstance(function, FunctionType) or stands_alone(function):
        return function
    if not (owned_by(function) or has_own_defaults(function)):
        return function
    known = memo.get(id(function))
    return _detached_function(function, memo) if known is None else known[1]


def changed_variables(function: Function, before: Function) -> list[str]:
    """Return the names of variables that a detached function has changed.

    Args:
        function: The function, after its call.
        before: A function detached in the same way and not called.
    """
    return list(_changed_variables(function, before, set()))


def _changed_variables(function: Function, before: Function | None, seen: set[int]) -> Iterator[str]:
    while isinstance(function, functools.partial) and isinstance(before, functools.partial):
        function = cast("functools.partial[Any]", function).func
        before = cast("functools.partial[Any]", before).func
    if function is before or not isinstance(function, FunctionType) or not isinstance(before, FunctionType):
        return
    if id(function) in seen:  # it calls itself, or two call each other
        return
    seen.add(id(function))
    old = dict(cells_of(before))
    for name, value in cells_of(function):
        if name not in owned_by(function):
            continue
        if isinstance(value, FunctionType):
            yield from _changed_variables(value, cast("Function | None", old.get(name)), seen)
        elif not is_equal(value, old.get(name)):
            yield name


def is_equal(one: object, other: object) -> bool:
    """Return whether a value equals its copy; True if neither can tell."""
    try:
        if one is other or bool(one == other):
            return True
        return state_text(one) == state_text(other)  # a class without `__eq__`, or NaN
    except Exception:  # a class whose comparison fails
        return True


def _detached_function(function: FunctionType, memo: Memo) -> FunctionType:
    closure = function.__closure__ or ()
    owned = owned_by(function)
    names = function.__code__.co_freevars
    pairs = zip(names, closure, strict=True)
    cells = [types.CellType() if name in owned else cell for name, cell in pairs]
    defaults, named = function.__defaults__, function.__kwdefaults__
    if has_own_defaults(function):
        defaults = defaults and tuple(copied(each, memo) for each in defaults)
        named = named and {name: copied(each, memo) for name, each in named.items()}
    made = _remade(function, tuple(cells) or None, defaults, named)
    memo[id(function)] = (function, made)  # it may refer to itself
    for name, value in cells_of(function):
        if name in owned:
            cell = cells[names.index(name)]
            cell.cell_contents = (
                detached(value, memo) if isinstance(value, FunctionType) else copied(value, memo)
            )
    return made


def _remade(
    function: FunctionType,
    cells: tuple[types.CellType, ...] | None,
    defaults: tuple[Any, ...] | None,
    named: dict[str, Any] | None,
) -> FunctionType:
    """Return a copy of a function with other variables and defaults."""
    made = FunctionType(function.__code__, function.__globals__, function.__name__, defaults, cells)
    made.__kwdefaults__ = cast("Any", named)
    made.__qualname__, made.__module__, made.__doc__ = (
        function.__qualname__,
        function.__module__,
        function.__doc__,
    )
    # Since Python 3.14, the function that computes them.
    annotate: Any = getattr(function, "__annotate__", None)
    if annotate is None:
        made.__annotations__ = function.__annotations__
    else:
        cast("Any", made).__annotate__ = annotate
    if function.__dict__:
        made.__dict__.update(function.__dict__)
    return made
