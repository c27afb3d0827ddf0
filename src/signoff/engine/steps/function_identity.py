"""Identities of step functions in the journal, which let replay detect another function.

A function is identified by its module and qualified name. Lambdas of one function share a name, so a digest of their
code is added. Names and code change with deploys, so a changed identity alone is not a difference. It is one if the
recorded function still exists and the run's code does not name another one in its place.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from signoff.codec import error_attributes
from signoff.engine.steps import process_wide_objects
from signoff.runtime.private_names import bytecode_of

FUNCTION: Final = "$function"
"""The key that marks a function in the inputs of a call."""

PART: Final = "function"
"""The part of a step's inputs that identifies its function."""

_LAMBDA: Final = "<lambda>"
_LOCALS: Final = ".<locals>."
_DIGEST_BYTES: Final = 6
_MOST_KNOWN: Final = 4_096

_METHODS: Final = (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)

_paths: WeakKeyDictionary[type, str] = WeakKeyDictionary()

# By identity, since equal code in different files differs. Keeping the code object keeps its id valid.
_lambdas: dict[int, tuple[CodeType, str]] = {}


def identity_of(function: object) -> str | None:
    """Return a function's identity: ``module:qualname``, for a lambda with a digest of its code; None without a name.

    A method is identified by its object's class and its name, another callable object by its class.
    """
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    try:
        return _identity(function)
    except Exception:  # its class computes attributes, and fails
        return None


def function_text(function: object) -> str:
    """Return the JSON text that represents a function or class in the inputs of a call."""
    return f'{{"{FUNCTION}":{json.dumps(identity_of(function))}}}'


def home_of(function: object) -> str:
    """Return the module of a workflow's function. A step named after one of its functions calls that function."""
    return (identity_of(function) or "").partition(":")[0]


def shortened(identity: str | None, home: str) -> str | None:
    """Return an identity as the journal stores it: ``:qualname`` for a function of the workflow's own module."""
    return identity[len(home) :] if identity is not None and identity.startswith(f"{home}:") else identity


def lengthened(stored: str, home: str) -> str:
    """Return the identity that ``shortened`` has stored."""
    return home + stored if stored.startswith(":") else stored


def swapped(recorded: object, issued: object) -> Iterator[tuple[str, str]]:
    """Yield the functions in which two inputs differ, as recorded and current identities."""
    if isinstance(recorded, dict) and isinstance(issued, dict):
        was, now = cast("dict[str, Any]", recorded), cast("dict[str, Any]", issued)
        if FUNCTION in was and FUNCTION in now:
            if was[FUNCTION] != now[FUNCTION]:
                yield was[FUNCTION], now[FUNCTION]
            return
        for name in was.keys() & now.keys():
            yield from swapped(was[name], now[name])
    elif isinstance(recorded, list) and isinstance(issued, list):
        for one, other in zip(cast("list[Any]", recorded), cast("list[Any]", issued), strict=False):
            yield from swapped(one, other)


def is_swap(was: str, now: str, codes: Sequence[CodeType]) -> bool:
    """Return whether a run calls another function although no deploy has replaced the recorded one.

    Args:
        was: The recorded identity.
        now: The identity of the function that is called.
        codes: The run's code objects.
    """
    if not _is_here(was, codes):
        return False
    nested = _seen_in(codes)
    mentioned = {name for code in nested for name in _names_of(code)}
    before, after = _words(was), _words(now)
    return _is_meant(was, before - after, mentioned, nested) or not _is_meant(
        now, after - before, mentioned, nested
    )


def wraps(function: object, was: str) -> bool:
    """Return whether a function uses another one by closure or name, as ``lambda: pay(order)`` uses ``pay``."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    if not isinstance(function, FunctionType):
        return False
    if was.rpartition(":")[2].rpartition(".")[2] in function.__code__.co_names:
        return True
    for cell in function.__closure__ or ():
        try:
            if identity_of(cell.cell_contents) == was:
                return True
        except ValueError:  # the cell is empty so far
            continue
    return False


def is_setting(was: str, function: object, roots: Sequence[object]) -> bool:
    """Return whether a method's object belongs to the process, and the process has none of the recorded class.

    Then the process was configured with another client, and uses that one.

    Args:
        was: The recorded identity of the method or callable object.
        function: The current method or callable object.
        roots: Objects of the process, besides modules.
    """
    bound = getattr(function, "__self__", None) if isinstance(function, _METHODS) else function
    if bound is None or isinstance(bound, type | types.ModuleType | FunctionType):
        return False
    kinds = {was, was.rpartition(".")[0]}
    found, others, _ = process_wide_objects.find(
        [bound], roots, lambda value: _path_of(cast("type", type(cast("object", value)))) in kinds
    )
    return bool(found) and not others


def _identity(function: object) -> str | None:
    if isinstance(function, FunctionType):
        path = error_attributes.path_of(cast("Any", function))
        return f"{path}#{_digest(function.__code__)}" if function.__name__ == _LAMBDA else path
    if isinstance(function, _METHODS):
        bound = cast("object", function.__self__)
        if bound is not None and not isinstance(bound, types.ModuleType):
            kind = bound if isinstance(bound, type) else type(cast("Any", bound))
            return f"{_path_of(kind)}.{function.__name__}"
    if isinstance(function, type) or isinstance(getattr(function, "__qualname__", None), str):
        return error_attributes.path_of(cast("Any", function))
    return _path_of(type(function))


def _path_of(kind: type) -> str:
    path = _paths.get(kind)
    if path is None:
        path = _paths[kind] = error_attributes.path_of(kind)
    return path


def _digest(code: CodeType) -> str:
    known = _lambdas.get(id(code))
    if known is not None:
        return known[1]
    made = hashlib.blake2b(repr(_shape(code)).encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()
    if len(_lambdas) >= _MOST_KNOWN:
        _lambdas.clear()
    _lambdas[id(code)] = (code, made)
    return made


def _shape(value: object) -> object:
    """Return a value that distinguishes the code of lambdas, identical in all processes of one Python version."""
    if isinstance(value, CodeType):
        held = [_shape(each) for each in value.co_consts]
        return (
            bytecode_of(value),
            value.co_names,
            value.co_freevars,
            held,
        )  # names of its own variables do not matter
    if isinstance(value, frozenset):
        return sorted(repr(each) for each in cast("frozenset[object]", value))
    if isinstance(value, tuple):
        return [_shape(each) for each in cast("tuple[object, ...]", value)]
    return repr(value)


def _is_here(was: str, codes: Sequence[CodeType]) -> bool:
    """Whether the recorded function still exists."""
    path, _, digest = was.partition("#")
    module, _, qualname = path.partition(":")
    if digest:
        lambdas = (each for each in _codes_of(module, qualname, codes) if each.co_name == _LAMBDA)
        return any(each.co_qualname == qualname and _digest(each) == digest for each in lambdas)
    if _LOCALS in qualname:
        return any(each.co_qualname == qualname for each in _codes_of(module, qualname, codes))
    found = error_attributes.find(path)
    if found is None:  # a method inherited from another class
        owner, _, name = path.rpartition(".")
        kind = error_attributes.find(owner) if ":" in owner else None
        return isinstance(kind, type) and callable(getattr(kind, name, None))
    if isinstance(found, staticmethod | classmethod):
        found = cast("Any", found).__func__
    return callable(found) and identity_of(found) == path


def _codes_of(module: str, qualname: str, codes: Sequence[CodeType]) -> Iterator[CodeType]:
    """Yield the code objects that may contain a local function, with all nested code."""
    seen: set[int] = set()
    outer = error_attributes.find(f"{module}:{qualname.partition(_LOCALS)[0]}")
    held = [outer] if outer is not None else _held_by(sys.modules.get(module))
    for each in held:
        code = getattr(inspect.unwrap(cast("Any", each)), "__code__", None) if callable(each) else None
        if isinstance(code, CodeType):
            yield from _nested(code, seen)
    for code in codes:
        yield from _nested(code, seen)


def _held_by(module: types.ModuleType | None) -> Iterator[object]:
    """Yield the attributes of a module, and the items of its dicts, lists and tuples."""
    for value in list(vars(module).values()) if module is not None else ():
        if isinstance(value, Mapping):
            yield from list(cast("Mapping[Any, object]", value).values())
        elif isinstance(value, list | tuple | set | frozenset):
            yield from list(cast("Iterable[object]", value))
        else:
            yield value


def _nested(code: CodeType, seen: set[int]) -> Iterator[CodeType]:
    if id(code) in seen:
        return
    seen.add(id(code))
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _nested(each, seen)


def _seen_in(codes: Sequence[CodeType]) -> list[CodeType]:
    seen: set[int] = set()
    return [code for root in codes for code in _nested(root, seen)]


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_varnames
    yield from code.co_freevars
    yield from code.co_cellvars


def _is_meant(identity: str, words: set[str], mentioned: set[str], codes: Sequence[CodeType]) -> bool:
    """Whether code names a function by a word that the other one lacks, or contains it as a lambda."""
    path, _, digest = identity.partition("#")
    if not digest:
        return bool(words & mentioned)
    qualname = path.partition(":")[2]
    return any(each.co_qualname == qualname and _digest(each) == digest for each in codes)


def _words(identity: str) -> set[str]:
    return set(re.split(r"[:.]", identity.partition("#")[0])) - {"<locals>", _LAMBDA}
