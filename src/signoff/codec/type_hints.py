"""Annotations of functions, resolved: strings, and names of closures, classes and type parameters."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import typing_extensions

from signoff.codec.unstorable_values import name_of
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.codec")

_LONGEST: Final = 200
"""Longer texts of types are cut in messages."""

_FUNCTIONS: Final = frozenset(
    {types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial, type}
)

_warned: WeakKeyDictionary[Callable[..., Any], set[str]] = WeakKeyDictionary()


def shape_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature, even if its annotations cannot be evaluated.

    Raises:
        ValueError: It is a builtin that Python cannot describe.
        TypeError: It cannot be called.
    """
    function = called(function)
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the ``__call__`` of an object if it takes no ``self``; any other object is returned itself.

    ``inspect.signature`` would drop its first parameter.
    """
    if type(function) in _FUNCTIONS:
        return function
    written = inspect.getattr_static(type(function), "__call__", None)
    is_without_self = isinstance(written, (staticmethod, classmethod, functools.partial))
    return function.__call__ if is_without_self else function


def declared(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return a function's annotations, without evaluating undefined names."""
    try:
        return typing_extensions.get_annotations(function, format=typing_extensions.Format.FORWARDREF)
    except (TypeError, ValueError):  # a builtin, or another callable
        return {}


def resolve(function: Callable[..., Any]) -> tuple[Mapping[str, Any], bool]:
    """Resolve the annotations of a plain function.

    Returns:
        The types by parameter and ``return``, ``Any`` for unresolvable ones; and whether all were resolved. Each
        unresolvable one is logged once.
    """
    written = declared(function)
    if not written:
        return {}, True
    try:
        return typing.get_type_hints(function, include_extras=True), True
    except Exception as error:  # one of them is unresolvable
        log.debug("%r: %s", function, error)
    scope, names = _scope(function)
    found: dict[str, Any] = {}
    complete = True
    for name, annotation in written.items():
        try:
            found[name] = _evaluate(annotation, scope, names)
        except Exception as error:  # such as a class imported under TYPE_CHECKING
            found[name], complete = Any, False
            _warn(function, name, annotation, error)
    return found, complete


def _evaluate(annotation: object, scope: Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    alone = types.SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(alone, dict(scope), dict(names), include_extras=True)["it"]


def _scope(function: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Collect the names that a function's annotations may use: of its module, and of the scopes around it."""
    inner = inspect.unwrap(function)
    scope = getattr(inner, "__globals__", {})
    names: dict[str, Any] = {}
    outer: Any = types.SimpleNamespace(**scope)
    for name in getattr(inner, "__qualname__", "").split(".")[:-1]:
        outer = getattr(outer, name, None)
        if not isinstance(outer, type):
            break
        names |= {outer.__name__: outer, **vars(outer)}
    code = getattr(inner, "__code__", None)
    cells = getattr(inner, "__closure__", None) or ()
    for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not defined yet
            continue
    names |= {each.__name__: each for each in getattr(inner, "__type_params__", ())}
    return scope, names


def _warn(function: Callable[..., Any], name: str, annotation: object, error: Exception) -> None:
    warned = _warned.setdefault(function, set())
    if name in warned:
        return
    warned.add(name)
    what = "its return type" if name == "return" else f"the type of {name!r}"
    log.warning(
        "%s.%s: %s, %s, cannot be resolved (%s), so the value will be plain JSON data;"
        " import it outside of TYPE_CHECKING, or define it in the module%s",
        getattr(function, "__module__", "?"),
        getattr(function, "__qualname__", function),
        what,
        annotation if isinstance(annotation, str) else type_text(annotation),
        error,
        ", or pass returns=" if name == "return" else "",
    )


def type_text(annotation: object) -> str:
    """Return a type as text for messages, cut if it is long."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return name_of(annotation)
    try:
        text = str(annotation)
    except RecursionError:
        return "(deeply nested)"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
