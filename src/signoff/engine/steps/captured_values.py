"""Values that a step's function captures besides its arguments.

``lambda: pay(order)`` captures the ``order`` of the enclosing code, ``order.pay`` its ``self``, and the function that
``payer(order)`` returns the ``order`` of ``payer``. Replay compares all of these like arguments. A step gets copies of
variables of the run's own code. The rest is shared: another object may be a client of the whole process, and the
process's objects are not compared.
"""

from __future__ import annotations

import functools
import json
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, Final, NamedTuple, cast
from weakref import WeakSet

from signoff.codec.canonical_json import GETTERS, Unstable, of_library, stable_text, state_text
from signoff.engine.run.call_inputs import FUNCTIONS, folded, names_of, own, short_text
from signoff.engine.run.value_copies import UNCHANGING, is_data
from signoff.engine.steps import process_wide_objects
from signoff.engine.steps.function_identity import function_text
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.workflow")

Function = Callable[..., Any]

_MOST_KNOWN: Final = 4_096
_MOST_ITEMS: Final = 100
"""The maximum number of items of a compared container: code may collect the results of its steps."""

_NONE: Final = frozenset[str]()

SCALARS: Final = UNCHANGING - {type, FunctionType, types.BuiltinFunctionType}
"""Immutable types whose values surely have a stable form."""

WITH_CODE: Final = (FunctionType, types.MethodType, functools.partial)
_SIZED: Final = (list, tuple, set, frozenset, dict)
_WITHOUT_TEXT: Final = (type, FunctionType)

_MOST_LOOKS: Final = 10
"""The maximum number of failed searches for objects of one kind: a search takes a tenth of a second."""

_services: WeakSet[type] = WeakSet()
"""Classes with an object without a stable form, such as clients: reading these completely takes long."""

_warned: set[str] = set()
_run_made: Counter[str] = Counter()

# By identity, since equal code in different files differs. Keeping the code object keeps its id valid. Besides the
# variables it records whether the run's code creates the function itself.
_owned: dict[int, tuple[CodeType, frozenset[str], bool]] = {}


class Captured(NamedTuple):
    """A captured value.

    Attributes:
        name: Its name: the variable's, ``self``, or such as ``pay.order`` for a value captured by a captured function.
        value: The value.
        holder: The function whose variable it is; for ``self``, the object.
        is_copied: Whether a step gets a copy of it.
    """

    name: str
    value: object
    holder: object
    is_copied: bool


# Module-level functions with a closure, such as those made by a decorator.
_global_functions: WeakSet[FunctionType] = WeakSet()


def note_variables(function: Function, codes: Callable[[], Sequence[CodeType]]) -> None:
    """Determine which variables of a function belong to a run's code.

    Args:
        function: The function of a step.
        codes: Returns the run's code objects: the running ones, the innermost first, and the workflow's.
    """
    plain = _plain_function(function)
    if plain is None or stands_alone(plain) or not (plain.__closure__ or _is_local(plain)):
        return
    code = plain.__code__
    if id(code) not in _owned:
        if own(plain):
            return
        if len(_owned) >= _MOST_KNOWN:
            _owned.clear()
        paths = [path for root in codes() if (path := _path(root, code))]
        _owned[id(code)] = (code, frozenset(_names_of(code, paths)), bool(paths))
    for cell in plain.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # the cell is empty so far
            continue
        if not isinstance(value, WITH_CODE):
            continue
        inner = _plain_function(cast("object", value))
        if inner is not None and not stands_alone(inner) and id(inner.__code__) not in _owned:
            note_variables(inner, codes)


def own_values(function: Function) -> tuple[Any, ...] | None:
    """Return the closed-over values of a function, if all surely belong to the run and are immutable.

    Returns:
        The values, in the order of ``co_freevars``. None if any is different, such as a list, a function, a variable of
        the code that made the workflow, or a default. Most functions that runs define have values.
    """
    if type(function) is not FunctionType or function.__closure__ is None:
        return None
    code = function.__code__
    known = _owned.get(id(code))
    if known is None or known[0] is not code or len(known[1]) != len(code.co_freevars):
        return None
    if not known[2] or function.__defaults__ or function.__kwdefaults__:
        return None
    values = list[Any]()
    try:
        for cell in function.__closure__:
            value = cell.cell_contents
            if type(value) not in SCALARS:
                return None
            values.append(value)
    except ValueError:  # the cell is empty so far
        return None
    return tuple(values)


def captured_texts(function: Function) -> dict[str, str]:
    """Return the texts of captured values by name; for functions, their identities."""
    if brings_nothing(function):
        return {}
    values = own_values(function)
    if values is not None and not process_wide_objects.is_known(function):
        names = cast("FunctionType", function).__code__.co_freevars
        return {name: short_text(value) for name, value in zip(names, values, strict=True)}
    return _texts_of(_held(function, "", set()))


def argument_captures(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of values captured by functions among a step's arguments, such as ``work.order``.

    Args:
        function: The function of the step.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """
    return _texts_of(_held_by_arguments(function, args, kwargs))


def _texts_of(held: Iterable[Captured]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in held:
        text = function_text(each.value) if type(each.value) in FUNCTIONS else _text_of(each)
        if text is not None:
            found[each.name] = text
    return found


def brings_nothing(function: Function) -> bool:
    """Return whether a function surely captures nothing to compare: a module's function, or a service's method."""
    if isinstance(function, types.MethodType):
        plain, bound = function.__func__, function.__self__
        return (
            isinstance(plain, FunctionType)
            and stands_alone(plain)
            and (process_wide_objects.is_known(bound) or isinstance(bound, type))
        )
    return isinstance(function, FunctionType) and stands_alone(function)


def shared_texts(function: Function) -> dict[str, str]:
    """Return the texts of captured values that the function shares with the run's code, by name."""
    if brings_nothing(function) or own_values(function) is not None:
        return {}
    found: dict[str, str] = {}
    for held in _held(function, "", set()):
        if held.is_copied:
            if type(held.value) in UNCHANGING or is_data(held.value):
                continue
            text = object_text(held.value)  # not data, and so the very object
        else:
            text = _text_of(held)
        if text is not None:
            found[held.name] = text
    return found


def object_text(value: object) -> str | None:
    """Return the text of an object's state; None if it has no stable form, is large, a type, or the process's."""
    kind = type(value)
    if kind in _services:
        return None
    text = _text_of(Captured("self", value, value, False))
    if text is None and not process_wide_objects.is_known(value):
        _services.add(kind)
    return text


def is_of_process(value: object, roots: Sequence[object]) -> bool:
    """Return whether an object belongs to the process.

    Args:
        value: The object.
        roots: Objects of the process, besides modules.
    """
    return _is_of_process(Captured("self", value, value, False), None, roots)


def warn_of_unstable_self(step: str, function: Function, roots: Sequence[object]) -> None:
    """Warn once about a method whose object replay cannot compare, unless the object belongs to the process.

    Args:
        step: The step's name.
        function: The function of the step.
        roots: Objects of the process, besides modules.
    """
    about = getattr(function, "__qualname__", type(function).__qualname__)
    if about in _warned or len(_warned) >= _MOST_KNOWN:
        return
    for held in _held(function, "", set()):
        if held.holder is not held.value or process_wide_objects.is_known(held.value):
            continue
        try:
            state_text(held.value)
        except Unstable as unstable:
            _warned.add(about)
            if not _is_of_process(held, None, roots):
                log.warning(
                    "step %r: replay does not compare the object that %s belongs to: %s has no stable "
                    "form. Pass data as arguments, or pass compare=",
                    step,
                    about,
                    unstable.kind,
                )


def is_process_wide(
    function: Function,
    names: Iterable[str],
    recorded: Mapping[str, Any],
    roots: Sequence[object],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = MappingProxyType({}),
) -> bool:
    """Return whether captured values belong to the process, so that replay does not compare them.

    An object is different after all if another object of its kind matches the journal: one of its class or, for
    containers, one held by the same holder.

    Args:
        function: The function of a step.
        names: The names of the values.
        recorded: The recorded values by name.
        roots: Objects of the process, besides modules.
        args: The positional arguments of the step: functions among them capture values, too.
        kwargs: Its keyword arguments.
    """
    brought = [*_held(function, "", set()), *_held_by_arguments(function, args, kwargs)]
    held = {each.name: each for each in brought}
    return all(name in held and _is_of_process(held[name], recorded.get(name), roots) for name in names)


def _is_of_process(held: Captured, recorded: object, roots: Sequence[object]) -> bool:
    kind = held.holder if type(held.value) in UNCHANGING else held.value
    about = getattr(kind, "__qualname__", type(kind).__qualname__)
    if (held.is_copied and _is_data(held.value)) or _run_made[about] >= _MOST_LOOKS:
        return False
    wanted = [held.value] if held.is_copied else [held.holder, kind]
    is_like = None if recorded is None else functools.partial(_is_like, kind)  # None: only a warning is due
    found, others, containers = process_wide_objects.find(wanted, roots, is_like)
    if (
        type(kind) in process_wide_objects.CONTAINERS
    ):  # every list of one item is of its kind, and there are thousands
        others = process_wide_objects.beside(kind, others, containers)
    if not found or any(_looks_like(each, held.name, recorded) for each in others):
        _run_made[about] += 1
        return False
    for each in found:
        process_wide_objects.note(each)
    return True


def _is_like(one: Any, other: Any) -> bool:
    """Whether two objects are of one kind: of one class, made by one function, or containers of one size."""
    if type(one) is not type(other) or one is other:
        return False
    if isinstance(one, FunctionType):
        return one.__code__ is other.__code__
    if isinstance(one, dict):
        return cast("dict[Any, Any]", one).keys() == other.keys()
    return not isinstance(one, list | tuple | set | frozenset) or len(cast("Any", one)) == len(other)


def _looks_like(other: object, name: str, recorded: object) -> bool:
    """Whether another object of a kind matches the recorded value of a name."""
    last = name.rpartition(".")[2]
    found = [Captured(last, other, other, False)]
    if isinstance(other, FunctionType):
        found = [each for each in _held(other, "", set()) if each.name == last]
    texts = [_text_of(each) for each in found]
    return any(text is not None and json.loads(text) == recorded for text in texts)


def _is_data(value: object) -> bool:
    try:
        stable_text(value)
    except Unstable:
        return False
    return True


def line_of(function: Function) -> str:
    """Return the line at which a function begins, or an empty text."""
    plain = _plain_function(function) or getattr(type(function), "__call__", None)  # noqa: B004
    code = getattr(plain, "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"


def _held(function: object, prefix: str, seen: set[int]) -> Iterator[Captured]:
    """Yield the values that a callable captures, and those of the callables it closes over."""
    while isinstance(function, functools.partial):
        made = cast("functools.partial[Any]", function)
        function = made.func
        if prefix:  # otherwise these are arguments of the step
            arguments = {**{str(index): each for index, each in enumerate(made.args)}, **made.keywords}
            for name, value in arguments.items():
                yield Captured(prefix + name, value, made, False)
    if id(function) in seen or isinstance(function, type):
        return
    seen.add(id(function))
    if isinstance(function, FunctionType):
        if not stands_alone(function):
            yield from _held_by_function(function, prefix, seen)
        return
    bound: object = None
    if isinstance(function, types.MethodType):
        bound = function.__self__
        yield from _held(function.__func__, prefix, seen)
    elif isinstance(function, types.BuiltinFunctionType | types.MethodWrapperType):
        bound = cast("object", function.__self__)
    elif (wrapped := getattr(function, "__dict__", {}).get("__wrapped__")) is not None:
        yield from _held(wrapped, prefix, seen)  # such as the wrapper of functools.cache
    elif issubclass(type(function), GETTERS) or not of_library(type(function)):
        bound = function  # a callable object
    if bound is not None and not isinstance(bound, types.ModuleType | type):
        yield Captured(f"{prefix}self", bound, bound, False)


def _held_by_arguments(
    function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[Captured]:
    while isinstance(function, functools.partial):
        made = cast("functools.partial[Any]", function)
        function, args, kwargs = made.func, (*made.args, *args), {**made.keywords, **kwargs}
    named = [*zip(names_of(function, len(args)), args, strict=True), *kwargs.items()]
    for name, value in named:
        if isinstance(value, WITH_CODE):
            yield from _held(cast("object", value), f"{name}.", set())


def _held_by_function(function: FunctionType, prefix: str, seen: set[int]) -> Iterator[Captured]:
    if _is_global(function):
        return
    known = _owned.get(id(function.__code__))
    is_own = known is not None and known[2]
    if "<locals>" in function.__qualname__:
        for name, value in _defaults(function).items():
            yield Captured(prefix + name, value, function, is_own)
    for name, value in cells_of(function):
        if is_own and name not in owned_by(function):
            continue  # belongs to the code that made the workflow
        if callable(value):
            if type(cast("object", value)) in FUNCTIONS:
                yield Captured(prefix + name, value, function, is_own)
            yield from _held(value, f"{prefix}{name}.", seen)
        else:
            yield Captured(prefix + name, value, function, is_own)


def _is_global(function: FunctionType) -> bool:
    if "<locals>" in function.__qualname__:
        return False
    if function in _global_functions:
        return True
    if not process_wide_objects.is_global(function):
        return False
    _global_functions.add(function)
    return True


def _text_of(held: Captured) -> str | None:
    """Return the text of small data; None for other values."""
    value = held.value
    kind = cast("Any", type(value))
    if kind not in UNCHANGING and issubclass(kind, _SIZED) and len(cast("Any", value)) > _MOST_ITEMS:
        return None
    if issubclass(kind, _WITHOUT_TEXT):
        return None
    if process_wide_objects.is_known(value) or process_wide_objects.is_known(held.holder):
        return None
    try:
        return short_text(value) if kind is str else folded(state_text(value))
    except Unstable:
        return None


def _plain_function(function: object) -> FunctionType | None:
    """Return the function of a partial or method."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    if isinstance(function, types.MethodType):
        function = function.__func__
    return function if isinstance(function, FunctionType) else None


def _defaults(function: FunctionType) -> dict[str, Any]:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    found = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return {**found, **(function.__kwdefaults__ or {})}


def cells_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is empty so far
            continue


def stands_alone(function: FunctionType) -> bool:
    """Whether a function surely uses nothing of enclosing code.

    This reads no attribute that raises an audit event, such as ``__code__``, since each step asks.
    """
    return function.__closure__ is None and "<locals>" not in function.__qualname__


def _is_local(function: FunctionType) -> bool:
    return "<locals>" in function.__qualname__ and bool(function.__defaults__ or function.__kwdefaults__)


def has_own_defaults(function: FunctionType) -> bool:
    """Whether a function has defaults set by the run's code."""
    known = _owned.get(id(function.__code__))
    return known is not None and known[2] and _is_local(function)


def owned_by(function: FunctionType) -> frozenset[str]:
    known = _owned.get(id(function.__code__))
    return _NONE if known is None else known[1]


def _names_of(code: CodeType, paths: Sequence[Sequence[CodeType]]) -> Iterator[str]:
    """Yield the names of a function's variables that belong to enclosing code of the run."""
    for path in paths:
        for name in code.co_freevars:
            if any(name in outer.co_cellvars for outer in _passing(path, name)):
                yield name


def _passing(path: Sequence[CodeType], name: str) -> Iterator[CodeType]:
    """Yield the enclosing code through which a function gets a variable, the innermost first."""
    for outer in reversed(path):
        yield outer
        if name not in outer.co_freevars:
            return


def _path(root: CodeType, code: CodeType) -> list[CodeType]:
    """Return the code in which a code object is nested, from ``root`` on; empty if it is not nested in it."""
    for each in root.co_consts:
        if each is code:
            return [root]
        if isinstance(each, CodeType):
            deeper = _path(each, code)
            if deeper:
                return [root, *deeper]
    return []
