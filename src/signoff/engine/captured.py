"""Variables of a run's code that the functions of its steps close over.

A step is called with more than its arguments: ``lambda: pay(order)`` has the ``order`` of the code around it. What
belongs to code of the run is compared at a replay as arguments are, and the step gets a copy of it. What belongs to
code outside (a module, a function that made the workflow) is shared by all runs, and left alone.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any, Final, cast

from pydantic import BaseModel

from signoff.engine.copies import UNCHANGING, Memo, copied
from signoff.engine.inputs import value_text

Function = Callable[..., Any]

_MOST_KNOWN: Final = 4_096
_MOST_ITEMS: Final = 100
"""How many items a container has at most that is compared: code may collect what its steps return."""

_NONE: Final = frozenset[str]()

# By identity: two functions of different files may have equal code. The code is kept, so that its id stays its own.
# Beside its variables it says whether the function itself is made by code of the run.
_owned: dict[int, tuple[CodeType, frozenset[str], bool]] = {}


def note_variables(function: Function, codes: Callable[[], Sequence[CodeType]]) -> None:
    """Find out which variables of a function are those of a run's code.

    Args:
        function: The function of a step.
        codes: Returns the run's code: what is running, from the innermost outwards, and the workflow's.
    """
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    if not isinstance(function, FunctionType) or not (function.__closure__ or _is_local(function)):
        return
    code = function.__code__
    if id(code) not in _owned:
        if len(_owned) >= _MOST_KNOWN:
            _owned.clear()
        paths = [path for root in codes() if (path := _path(root, code))]
        _owned[id(code)] = (code, frozenset(_names_of(code, paths)), bool(paths))
    for _, value in _cells(function):
        if isinstance(value, FunctionType) and id(value.__code__) not in _owned:
            note_variables(value, codes)


def captured_text(function: Function) -> dict[str, str]:
    """Return the texts of the variables and defaults that a function closes over, by name."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    if not isinstance(function, FunctionType):
        return _text_of_self(function)
    if _stands_alone(function):
        return {}
    found: dict[str, str] = {}
    _add_captured(function, found, "", set())
    return found


def detached(function: Function, memo: Memo) -> Function:
    """Return a function that shares no data with the run's code: it has copies of the variables that it closes over.

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
    if not isinstance(function, FunctionType) or _stands_alone(function):
        return function
    if not (_owned_by(function) or _has_own_defaults(function)):
        return function
    known = memo.get(id(function))
    return _detached_function(function, memo) if known is None else known[1]


def changed_variables(function: Function, before: Function) -> list[str]:
    """Name the variables of a detached function that it has changed.

    Args:
        function: The function, after it was called.
        before: One that was detached in the same way, and was not called.
    """
    while isinstance(function, functools.partial) and isinstance(before, functools.partial):
        function = cast("functools.partial[Any]", function).func
        before = cast("functools.partial[Any]", before).func
    if function is before or not isinstance(function, FunctionType) or not isinstance(before, FunctionType):
        return []
    changed: list[str] = []
    old = dict(_cells(before))
    for name, value in _cells(function):
        if name not in _owned_by(function):
            continue
        if isinstance(value, FunctionType):
            changed += changed_variables(value, cast("Function", old.get(name)))
        elif not _is_equal(value, old.get(name)):
            changed.append(name)
    return changed


def _is_equal(one: object, other: object) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # a class that cannot say
        return True


def _detached_function(function: FunctionType, memo: Memo) -> FunctionType:
    closure = function.__closure__ or ()
    owned = _owned_by(function)
    names = function.__code__.co_freevars
    pairs = zip(names, closure, strict=True)
    cells = [types.CellType() if name in owned else cell for name, cell in pairs]
    defaults, named = function.__defaults__, function.__kwdefaults__
    if _has_own_defaults(function):
        defaults = defaults and tuple(copied(each, memo) for each in defaults)
        named = named and {name: copied(each, memo) for name, each in named.items()}
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, defaults, tuple(cells) or None
    )
    memo[id(function)] = (function, made)  # it may refer to itself
    made.__kwdefaults__ = cast("Any", named)
    made.__qualname__, made.__module__, made.__doc__ = (
        function.__qualname__,
        function.__module__,
        function.__doc__,
    )
    made.__annotations__ = function.__annotations__
    made.__dict__.update(function.__dict__)
    for name, value in _cells(function):
        if name in owned:
            cell = cells[names.index(name)]
            cell.cell_contents = (
                detached(value, memo) if isinstance(value, FunctionType) else copied(value, memo)
            )
    return made


def _add_captured(function: FunctionType, found: dict[str, str], prefix: str, seen: set[int]) -> None:
    seen.add(id(function))
    if _has_own_defaults(function):
        for name, value in _defaults(function).items():
            if (text := _short_text(value)) is not None:
                found[prefix + name] = text
    owned = _owned_by(function)
    if not owned:
        return
    for name, value in _cells(function):
        if name not in owned:
            continue
        if isinstance(value, FunctionType):
            if id(value) not in seen:
                _add_captured(value, found, f"{prefix}{name}.", seen)
        elif (text := _short_text(value)) is not None:
            found[prefix + name] = text


def _short_text(value: object) -> str | None:
    """Return the text of data that is not large; None for the rest."""
    kind = cast("Any", type(value))
    if issubclass(kind, list | tuple | set | frozenset | dict) and len(cast("Any", value)) > _MOST_ITEMS:
        return None
    return None if callable(value) else value_text(value)


def _text_of_self(function: Function) -> dict[str, str]:
    """Return the text of what a method is bound to, if that cannot change."""
    bound: Any = getattr(function, "__self__", None)
    if bound is None or isinstance(bound, types.ModuleType | type):
        return {}
    kind = cast("Any", type(bound))
    parameters = getattr(kind, "__dataclass_params__", None)
    configuration: Any = getattr(kind, "model_config", {})
    is_fixed = (
        kind in UNCHANGING
        or isinstance(bound, tuple)
        or bool(getattr(parameters, "frozen", False))
        or (isinstance(bound, BaseModel) and bool(configuration.get("frozen")))
    )
    text = _short_text(cast("object", bound)) if is_fixed else None
    return {} if text is None else {"self": text}


def _defaults(function: FunctionType) -> dict[str, Any]:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    found = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return {**found, **(function.__kwdefaults__ or {})}


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue


def _stands_alone(function: FunctionType) -> bool:
    """Whether a function surely has nothing of the code around it.

    This reads nothing that CPython announces to audit hooks, such as ``__code__``: each step asks.
    """
    return function.__closure__ is None and "<locals>" not in function.__qualname__


def _is_local(function: FunctionType) -> bool:
    return "<locals>" in function.__qualname__ and bool(function.__defaults__ or function.__kwdefaults__)


def _has_own_defaults(function: FunctionType) -> bool:
    """Whether a function has defaults that code of the run has given it."""
    known = _owned.get(id(function.__code__))
    return known is not None and known[2] and _is_local(function)


def _owned_by(function: FunctionType) -> frozenset[str]:
    known = _owned.get(id(function.__code__))
    return _NONE if known is None else known[1]


def _names_of(code: CodeType, paths: Sequence[Sequence[CodeType]]) -> Iterator[str]:
    """Name the variables of a function that belong to code around it, which is the run's."""
    for path in paths:
        for name in code.co_freevars:
            if any(name in outer.co_cellvars for outer in _passing(path, name)):
                yield name


def _passing(path: Sequence[CodeType], name: str) -> Iterator[CodeType]:
    """Return the codes around a function through which it gets a variable, from the innermost outwards."""
    for outer in reversed(path):
        yield outer
        if name not in outer.co_freevars:
            return


def _path(root: CodeType, code: CodeType) -> list[CodeType]:
    """Return the codes in which a code is nested, from ``root`` on; empty if it is not in there."""
    for each in root.co_consts:
        if each is code:
            return [root]
        if isinstance(each, CodeType):
            deeper = _path(each, code)
            if deeper:
                return [root, *deeper]
    return []
