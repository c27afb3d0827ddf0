"""Placeholders for error classes that are not imported in this process.

Suppose that a step imports a library lazily and raises one of its errors, and that another process, which never
imported the library, replays the run. There the error gets a class of the same name with the nearest imported bases,
so that the same ``except`` clauses catch it. Once code imports the library, such as in the ``except`` block,
``isinstance`` takes the error for an instance of the real class, and it has that class's methods and properties.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterable
from typing import Any, Final, cast

from pydantic_core import ValidationError

from signoff.codec import error_attributes
from signoff.errors import StepFailed

MESSAGE: Final = "_signoff_message"
"""The attribute of a placeholder's instance with the original error's message."""

_FOUND: Final = "_signoff_found"

_PARTIAL: Final = "_signoff_partial"

_MOST_BASES = 32

_MISSING: Final[Any] = object()

_MAY_BE_BASE: Final = 1 << 10  # Py_TPFLAGS_BASETYPE


def describe(error: BaseException) -> dict[str, Any]:
    """Describe an error's class for ``find``.

    Returns:
        ``bases``: the paths of its base classes, the nearest first. ``found``: whether a process that imports its
        module finds it.
    """
    kind = type(error)
    try:
        if kind.__module__ == "builtins" and error_attributes.find(error_attributes.path_of(kind)) is kind:
            return {"bases": [], "found": True}
        bases = [error_attributes.path_of(base) for base in kind.__mro__[1:] if issubclass(base, Exception)]
        known = vars(kind).get(_FOUND)
        found = error_attributes.find(error_attributes.path_of(kind)) is kind if known is None else known
    except Exception:  # its metaclass failed
        return {"bases": [], "found": False}
    return {"bases": bases[:_MOST_BASES], "found": found}


def find(path: str, bases: Iterable[str], found: bool) -> type[Exception] | None:
    """Return the placeholder for a class that is not imported.

    Args:
        path: The class, as ``module:qualname``.
        bases: From ``describe``.
        found: From ``describe``. An error whose class no process finds was a ``StepFailed`` at once, and stays one.

    Returns:
        The placeholder; None if only ``StepFailed`` applies.
    """
    nearest = _nearest(bases)
    if not nearest or (not found and nearest == (Exception,)):
        return None
    if not found:
        nearest = (StepFailed, *(base for base in nearest if not issubclass(StepFailed, base)))
    return _made(path, nearest, found)


def find_partial(path: str, bases: Iterable[str]) -> type[Exception] | None:
    """Return the placeholder for the class of an error that cannot be rebuilt.

    Args:
        path: The error's class, as ``module:qualname``.
        bases: From ``describe``.

    Returns:
        A subclass of ``StepFailed`` that ``except`` clauses for the error also catch; None if it has no other base
        than ``Exception``.
    """
    nearest = _nearest([path, *bases])
    if nearest in ((), (Exception,)):
        return None
    return _made(
        path, (StepFailed, *(base for base in nearest if not issubclass(StepFailed, base))), False, True
    )


def absent_classes(error: BaseException) -> list[str]:
    """Return the paths of the classes for which an error, or a member of a group, is a placeholder."""
    found = [error_attributes.path_of(type(error))] if vars(type(error)).get(_FOUND) else []
    if isinstance(error, BaseExceptionGroup):
        for member in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            found += absent_classes(member)
    return found


def are_imported(paths: Iterable[str]) -> bool:
    """Whether any of these classes has been imported by now."""
    return any(_find_by_now(path) is not None for path in paths)


def is_partial(kind: type) -> bool:
    """Whether a class stands in for the class of errors that cannot be rebuilt."""
    return _PARTIAL in vars(kind)


def _nearest(bases: Iterable[str]) -> tuple[type[Exception], ...]:
    """Return the imported bases, without those that others of them derive from."""
    nearest: list[type[Exception]] = []
    for path in bases:
        base = error_attributes.find(path)
        if not isinstance(base, type) or not issubclass(base, Exception) or not _is_plain(base):
            continue
        if not any(issubclass(each, base) for each in nearest):
            nearest.append(base)
    return tuple(nearest)


def _is_plain(base: type) -> bool:
    """Whether a class can be derived from without running its author's code, and is not an exception group."""
    hook = getattr(base.__init_subclass__, "__func__", None)
    return (
        type(base) is type
        and hook is None
        and isinstance(base.__getattribute__, types.WrapperDescriptorType)
        and not issubclass(base, BaseExceptionGroup | ValidationError)
        and bool(base.__flags__ & _MAY_BE_BASE)
    )


@functools.lru_cache(maxsize=1024)
def _made(
    path: str, bases: tuple[type[Exception], ...], found: bool, is_partial: bool = False
) -> type[Exception] | None:
    module, _, qualname = path.partition(":")
    members = {
        "__module__": module,
        "__qualname__": qualname,
        "__doc__": "Stands in for a class that is not imported here.",
        "__str__": _say,
        "__class__": property(functools.partial(_class_by_now, path)),
        "__getattr__": functools.partialmethod(_attribute_by_now, path),
        _FOUND: found,
    }
    if is_partial:
        members |= {_PARTIAL: True, "__doc__": "Stands in for an error that cannot be rebuilt."}
    for chosen in (bases, bases[:2], bases[:1]):
        try:
            return type(qualname.rpartition(".")[2], chosen, dict(members))
        except TypeError:  # their layouts conflict
            continue
    return None


def _find_by_now(path: str) -> type[Exception] | None:
    """Return the real class if it has been imported since its placeholder was made."""
    kind = error_attributes.find(path)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None


def _class_by_now(path: str, self: Exception) -> type:
    return _find_by_now(path) or type(self)


def _attribute_by_now(self: Exception, path: str, name: str) -> Any:
    kind = _find_by_now(path)
    member = _MISSING if kind is None else inspect.getattr_static(kind, name, _MISSING)
    if member is _MISSING:
        why = "" if kind else f"; {path.partition(':')[0]} is not imported: import it where the workflow is"
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{why}", name=name, obj=self
        )
    return member.__get__(self, kind) if hasattr(member, "__get__") else member


def _say(self: Exception) -> str:
    return str(self.__dict__.get(MESSAGE, ""))
