"""The arguments of a call to JSON text and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_json

from signoff.codec.annotations import Unreadable, reader
from signoff.codec.signatures import Signature, Slot, signature
from signoff.codec.values import MAX_BYTES, decode, encode, encode_for, normalize
from signoff.errors import InvalidValue, PayloadTooLarge


class _Envelope(BaseModel):
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


def encode_arguments(
    function: Callable[..., Any] | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    skip: int = 1,
    limit: int = MAX_BYTES,
    name: str | None = None,
    known: Callable[..., Any] | None = None,
) -> str:
    """Write the arguments of a call as JSON text.

    The text is canonical if the function is given: arguments are positional where possible, and the others are sorted
    by name, so ``f(1, b=2)`` and ``f(1, 2)`` give the same text. Defaults are not filled in.

    Args:
        function: The called function, if known. The arguments are checked against it.
        args: The positional arguments, without those that the engine passes.
        kwargs: The keyword arguments.
        skip: How many leading parameters the engine passes, such as ``ctx``.
        limit: The maximum length of the text, in UTF-8 bytes.
        name: The name of the called function, for a call by name.
        known: The function registered under this name in this process, if any. The arguments must fit its declared
            types. The text does not depend on it, so that a call by name is the same in every process.

    Returns:
        ``{"args": [...], "kwargs": {...}}``

    Raises:
        InvalidValue: They do not fit the function's parameters or their declared types.
        NotSerializable: An argument cannot be stored.
        PayloadTooLarge: Together they exceed the limit.
    """
    described = None if function is None else signature(function, skip)
    if described is None:
        return _by_name(name, known, args, kwargs, skip, limit)
    args, kwargs = _bind(described, args, kwargs)
    texts = [_write(value, described.at(index), limit) for index, value in enumerate(args)]
    named = {name: _write(value, described.named(name), limit) for name, value in kwargs.items()}
    return _envelope(texts, named, limit)


def _by_name(
    name: str | None,
    known: Callable[..., Any] | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    skip: int,
    limit: int,
) -> str:
    """Write the arguments of a call by name, whose function may differ in the process that runs it."""
    described = None if known is None else signature(known, skip)
    if described is not None:
        try:
            described.bind(args, kwargs)
        except TypeError:  # the process that runs it may have other parameters
            described = None
    reader = "a function that is not known here" if name is None else f"workflow {name!r}, called by name,"

    def write(value: object, key: int | str) -> str:
        path = f"args[{key}]" if isinstance(key, int) else f"args.{key}"
        slot = Slot("", Any)
        if described is not None:
            slot = described.at(key) if isinstance(key, int) else described.named(key)
        if slot.annotation is Any:
            return encode_for(reader, value, path=path, limit=limit)
        return _write(value, slot, limit)

    texts = [write(value, index) for index, value in enumerate(args)]
    return _envelope(texts, {key: write(value, key) for key, value in kwargs.items()}, limit)


def decode_arguments(
    text: str, function: Callable[..., Any], *, skip: int = 1
) -> tuple[list[Any], dict[str, Any]]:
    """Read the arguments of a call, each as its parameter declares it.

    Args:
        text: The text from ``encode_arguments``.
        function: The called function.
        skip: How many leading parameters the engine passes, such as ``ctx``.

    Returns:
        The positional arguments, without those that the engine passes, and the keyword arguments.

    Raises:
        InvalidValue: They do not fit the function.
    """
    stored: _Envelope = decode(text, _Envelope, path="args")
    described = signature(function, skip)
    if described is None:
        return stored.args, stored.kwargs
    args, kwargs = _bind(described, stored.args, stored.kwargs)
    return (
        [_read(value, described.at(index)) for index, value in enumerate(args)],
        {name: _read(value, described.named(name)) for name, value in kwargs.items()},
    )


def settled_arguments(text: str, function: Callable[..., Any], *, skip: int = 1) -> str | None:
    """Return the arguments with computed values filled in, so that these are computed once.

    A run that was started over HTTP has arguments that no function has validated. Default factories and validators
    then run at each read, and may give another value each time. So may a default that is an object, which each
    process creates for itself.

    Args:
        text: The stored arguments of the run.
        function: The called function.
        skip: How many leading parameters the engine passes, such as ``ctx``.

    Returns:
        The arguments as JSON; None if there are no computed values, or if they cannot be written.
    """
    described = signature(function, skip)
    if described is None or not _computes_values(described):
        return None
    try:
        args, kwargs = decode_arguments(text, function, skip=skip)
        bound = described.shape.bind(*[None] * skip, *args, **kwargs)
        bound.apply_defaults()
        settled = encode_arguments(function, bound.args[skip:], bound.kwargs, skip=skip)
    except Exception:  # they do not fit, or cannot be written: the run reports that
        return None
    return None if settled == text else settled


def settled_value(text: str, annotation: object) -> str | None:
    """Return a value with computed parts filled in, such as factory defaults, so that these are computed once.

    Args:
        text: The value, as JSON.
        annotation: Its declared type.

    Returns:
        The value as JSON; None if it has no computed parts, or if it cannot be written.
    """
    if not _runs_code(annotation):
        return None
    try:
        settled = encode(decode(text, annotation))
    except Exception:  # it does not fit, or cannot be written: its reader reports that
        return None
    return None if json.loads(settled) == json.loads(text) else settled


def _computes_values(described: Signature) -> bool:
    parameters = list(described.shape.parameters.values())[described.skip :]
    if any(type(each.default) not in _CONSTANT for each in parameters):
        return True
    return any(_runs_code(described.hints.get(each.name, Any)) for each in parameters)


def _runs_code(annotation: object) -> bool:
    try:
        return annotation is not Any and reader(annotation).runs_code
    except Unreadable:
        return False


_CONSTANT: Final = (bool, int, float, str, type(None), type, tuple)  # type: Parameter.empty; tuple: ()


def _bind(
    described: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    try:
        return described.bind(args, kwargs)
    except TypeError as error:
        raise InvalidValue("args", str(error)) from None


def _write(value: object, slot: Slot, limit: int) -> str:
    text, _ = normalize(value, slot.annotation, path=f"args.{slot.name}", limit=limit)
    return text


def _read(plain: Any, slot: Slot) -> Any:
    if slot.annotation is Any or type(plain) is slot.annotation:
        return plain
    return decode(to_json(plain).decode(), slot.annotation, path=f"args.{slot.name}")


def _envelope(args: list[str], kwargs: Mapping[str, str], limit: int) -> str:
    named = ",".join(f"{encode(name, path='args')}:{kwargs[name]}" for name in sorted(kwargs))
    text = f'{{"args":[{",".join(args)}],"kwargs":{{{named}}}}}'
    size = len(text.encode())
    if size > limit:
        raise PayloadTooLarge("args", size, limit)
    return text
