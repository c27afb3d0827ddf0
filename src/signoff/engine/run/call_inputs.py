"""The inputs of a call, as the journal stores them and replay compares them.

Inputs are one JSON object. Short values are stored in full, so that people can read a difference; long ones as a
digest. Values without a stable form are left out, with a warning.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_core import from_json, to_json

from signoff.codec.canonical_json import LEFT_OUT, Unstable, stable_text
from signoff.codec.unstorable_values import name_of
from signoff.engine.run.unawaited_context_calls import Built
from signoff.engine.steps.function_identity import FUNCTION, PART, function_text, swapped
from signoff.errors import RegistrationError
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.workflow")

KEY: Final = "inputs"
"""The key of the inputs in an entry's details."""

READABLE: Final = 200
"""The longest value, in characters, that is stored in full."""

MOST_READABLE: Final = 2_000
"""The longest inputs, in characters, that are stored value by value."""

DIGEST: Final = "$digest"

CAPTURED: Final = "captured"
"""The part of the inputs with the values that a step's function captures."""

_ABSENT: Final = object()

_DIGEST_BYTES: Final = 12
_MOST_WARNINGS: Final = 1_000

FUNCTIONS: Final = frozenset({types.FunctionType, types.BuiltinFunctionType, types.MethodType, type})
"""Types whose values are compared by identity. A class with a metaclass has its name as stable form."""

BRINGING: Final = FUNCTIONS | {functools.partial}
"""Types of arguments that may capture values."""

_EXACT: Final = frozenset({type(None), bool, int, str})

_warned: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class ComparedTexts:
    """A step's ``compare`` value in several parts, which the journal stores and redaction hides each by its name.

    Attributes:
        texts: JSON texts by name. One of them is ``compare``.
    """

    texts: Mapping[str, str]


def inputs_text(parts: Mapping[str, str]) -> str | None:
    """Return the inputs of a call as one JSON object, or None without inputs.

    Args:
        parts: JSON texts by name.
    """
    if not parts:
        return None
    return _object(parts)


def value_text(value: object) -> str | None:
    """Return the text of a value, in full or as a digest; None if it has no stable form."""
    try:
        return short_text(value)
    except Unstable:
        return None


def short_text(value: object) -> str:
    """Return the text of a value, in full or as a digest.

    Raises:
        Unstable: The value has no stable form.
    """
    if type(value) is str and len(value) > READABLE:
        return _digest_of(value)  # without writing it as JSON, which would double the time
    return folded(stable_text(value))


def folded(text: str) -> str:
    """Return a short JSON text as it is, another one as its digest and length. A string's length is its characters'.

    Text with lone surrogates, such as the name of a file that is not UTF-8, has a digest only: no reader accepts it.
    """
    if len(text) <= READABLE and not _has_lone_surrogates(text):
        return text
    return _digest_of(json.loads(text) if text[0] == '"' else text)


def _has_lone_surrogates(text: str) -> bool:
    if "\\ud" not in text:
        return False
    try:
        from_json(text)
    except ValueError:
        return True
    return False


def _digest_of(text: str) -> str:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f'{{"{DIGEST}":"{digest}","characters":{len(text)}}}'


def arguments_text(
    call: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    context: object = None,
) -> str | None:
    """Return the arguments of a call as a JSON object by parameter name, or None without arguments.

    Args:
        call: The call's name, for warnings.
        function: The function. The arguments of a partial function are included.
        args: The positional arguments.
        kwargs: The keyword arguments.
        context: An argument that is not compared.
    """
    while isinstance(function, functools.partial):
        made = cast("functools.partial[Any]", function)
        function, args, kwargs = made.func, (*made.args, *args), {**made.keywords, **kwargs}
    if not args and not kwargs:
        return None
    named = {**dict(zip(names_of(function, len(args)), args, strict=True)), **kwargs}
    if context is not None:
        named = {name: each for name, each in named.items() if each is not context}
        if not named:
            return None
    if all(type(each) in _EXACT for each in named.values()):
        text = _plain_text(named)
        if text is not None:
            return text
    return _object({name: argument_text(call, function, name, each) for name, each in named.items()})


def compared_text(call: str, function: Callable[..., Any], value: object) -> str:
    """Return the text of a step's ``compare`` value."""
    return argument_text(call, function, "compare", value)


def differing(recorded: Mapping[str, Any], issued: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the differences between two inputs, as pairs of part and (for captured values) name.

    Parameter names, missing values and captured values that one side lacks do not count: code may gain or lose a
    variable. ``other_functions`` compares functions.
    """
    found: list[tuple[str, str]] = []
    for part in {**recorded, **issued}:
        if part == PART:
            continue
        was: Any = recorded.get(part, _ABSENT)
        now: Any = issued.get(part, _ABSENT)
        if part == CAPTURED:
            found += [(part, name) for name in _differing_names(recorded.get(part, {}), issued.get(part, {}))]
        elif was is _ABSENT or now is _ABSENT or not _equal(_unnamed(part, was), _unnamed(part, now)):
            found.append((part, ""))
    return found


def _differing_names(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    if DIGEST in was or DIGEST in now:
        return [] if was == now or not was or not now else [""]
    return [name for name in was if name in now and not _equal(was[name], now[name])]


def other_functions(
    recorded: Mapping[str, Any], issued: Mapping[str, Any], named: str
) -> list[tuple[str, str]]:
    """Return the differing functions of two step inputs, the step's own first, as pairs of identities.

    Args:
        recorded: The inputs in the journal.
        issued: The inputs of the code's call.
        named: The identity of the function if the inputs name none.
    """
    found: list[tuple[str, str]] = []
    if "compare" not in recorded and "compare" not in issued:
        was, now = recorded.get(PART) or named, issued.get(PART) or named
        if was != now:
            found.append((was, now))
    for part in ("args", CAPTURED):
        found += swapped(_unnamed(part, recorded.get(part)), _unnamed(part, issued.get(part)))
    return found


def described(inputs: Mapping[str, Any] | None) -> str:
    """Return inputs as text for people: ``(order="o-1", key="pay-o-1")``."""
    if not inputs:
        return "()"
    flat: dict[str, Any] = {}
    for name, value in inputs.items():
        if name in ("args", CAPTURED) and isinstance(value, dict):
            flat.update(cast("dict[str, Any]", value))
        else:
            flat[name] = value
    shown = [_shown(name, value) for name, value in flat.items() if not _is_left_out(value)]
    return f"({', '.join(shown)})"


def own(function: Callable[..., Any]) -> bool:
    """Return whether a function is Signoff's own: its calls pass ``compare``, and it shares its arguments."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    module = getattr(function, "__module__", None)
    return (
        isinstance(module, str) and module.startswith("signoff.") and not module.startswith("signoff.testing")
    )


def _plain_text(named: dict[str, Any]) -> str | None:
    """Return the text of plain arguments, if it is short."""
    try:
        text = to_json(named).decode()
    except Exception:  # such as text that is not Unicode
        return None
    return text if len(text) <= READABLE else None


def names_of(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of a function's first arguments: those of its parameters, or their positions."""
    skipped = 0
    if isinstance(function, types.MethodType):
        function, skipped = function.__func__, 1
    code = getattr(function, "__code__", None)
    names: Sequence[str] = () if code is None else code.co_varnames[skipped : code.co_argcount]
    return [*names[:count], *(str(index) for index in range(len(names), count))]


def argument_text(call: str, function: object, name: str, value: object) -> str:
    """Return the text of an argument. One without a stable form is left out, with a warning.

    Raises:
        RegistrationError: It is a coroutine, a task or another awaitable.
    """
    if type(value) in FUNCTIONS:
        return function_text(value)
    try:
        return short_text(value)
    except Unstable as unstable:
        _check_settled(call, name, value)
        _warn(call, function, name, unstable.kind)
        return f'{{"{LEFT_OUT}":{json.dumps(name_of(type(value)))}}}'


def _check_settled(call: str, name: str, value: object) -> None:
    """Check that an argument is not an awaitable: only one attempt could await it, or it belongs to the run's loop.

    Raises:
        RegistrationError: It is one, or contains one.
    """
    several = isinstance(value, (list, tuple))
    for each in cast("Sequence[object]", value) if several else (value,):
        if not isinstance(each, (types.CoroutineType, asyncio.Task, Built)):
            continue
        what = type(cast("object", each)).__name__.removeprefix("_").lower()
        if isinstance(each, types.CoroutineType):
            cast("Any", each).close()  # suppress Python's own warning
        elif isinstance(each, Built):
            each.excuse()
            what = each.label
        raise RegistrationError(
            f"step {call!r}: its argument {name!r} {'holds' if several else 'is'} a {what} that was not awaited. Await "
            "it first, in a step of its own if it does I/O, and pass what it returns"
        )


def _warn(call: str, function: object, name: str, kind: str) -> None:
    """Warn once that an argument is not compared."""
    about = (getattr(function, "__qualname__", repr(type(function))), name)
    if about in _warned or len(_warned) >= _MOST_WARNINGS:
        return
    _warned.add(about)
    log.warning(
        "step %r: its argument %r is neither compared at replay nor copied: %s has no stable form. "
        "Pass data, such as an id, and create the object inside the step",
        call,
        name,
        kind,
    )


def _object(texts: Mapping[str, str]) -> str:
    return folded_object([_head(name) + each for name, each in texts.items()])


@functools.lru_cache(maxsize=4_096)
def _head(name: str) -> str:
    return f"{json.dumps(name)}:"


def folded_object(items: Sequence[str]) -> str:
    """Return a JSON object of ``"name":value`` items, or its digest if it is long."""
    text = f"{{{','.join(items)}}}"
    return text if len(text) <= MOST_READABLE else folded(text)


def _unnamed(part: str, value: object) -> object:
    """Return arguments by position; digests and other parts unchanged."""
    if part != "args" or not isinstance(value, dict) or DIGEST in value:
        return cast("object", value)
    return list(cast("dict[str, Any]", value).values())


def _equal(one: object, other: object) -> bool:
    if _is_left_out(one) or _is_left_out(other):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        if FUNCTION in one and FUNCTION in other:
            return True
        first, second = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return first.keys() == second.keys() and all(_equal(each, second[key]) for key, each in first.items())
    if isinstance(one, list) and isinstance(other, list):
        left, right = cast("list[Any]", one), cast("list[Any]", other)
        return len(left) == len(right) and all(map(_equal, left, right))
    return (one == other) if isinstance(one, bool) is isinstance(other, bool) else False


def _is_left_out(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {LEFT_OUT}


def _shown(name: str, value: object) -> str:
    prefix = "" if name.isdecimal() else f"{name}="
    if isinstance(value, dict) and FUNCTION in value:
        return f"{prefix}{cast('Any', value)[FUNCTION]}"
    if isinstance(value, dict) and DIGEST in value:
        folded_value = cast("dict[str, Any]", value)
        return f"{prefix}<{folded_value.get('characters')} characters, digest {folded_value[DIGEST]}>"
    return f"{prefix}{json.dumps(cast('Any', value), ensure_ascii=False)}"
